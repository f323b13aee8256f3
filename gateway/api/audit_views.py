"""The API of the views that are computed from runs on request: items, comparisons, gates, and the costs of new runs."""

from typing import Annotated
from urllib.parse import urlsplit

from litestar import Controller, Response, get, post
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import FromPath, FromQuery, JSONBody, QueryParameter

from gateway.api.audits import REPORT_HEADERS, chosen, require_model
from gateway.api.dependencies import Asked, Plane, Settings, Store
from gateway.api.problems import announced
from gateway.config.audit_request import AuditStart, options_of
from gateway.proxy.data_plane import DataPlane
from gateway.reading import run_views, viewer_forms
from gateway.reading.run_forms import Costs, CostWanted, Filter, Gate, GateWanted, ItemsPage, ItemsWanted, place

MOST_ITEMS = 200
MOST_REQUIREMENTS = 100


class AuditViewsController(Controller):
    """Besides what the store has ready: see AuditsController."""

    path = "/audits"
    tags = ("audits",)

    @get(
        "/{audit_id:str}/items",
        summary="Replies with questions and readings",
        responses={200: ResponseSpec(ItemsPage, generate_examples=False), **announced(404, 409)},
    )
    async def items(
        self,
        audit_id: FromPath[str],
        config: Settings,
        read_as: Annotated[Filter | None, QueryParameter(name="status")] = None,
        axis: FromQuery[str | None] = None,
        group: FromQuery[str | None] = None,
        reading: FromQuery[str | None] = None,
        verdict: FromQuery[str | None] = None,
        changed_from: FromQuery[str | None] = None,
        pairs: FromQuery[bool] = False,
        after: FromQuery[str | None] = None,
        limit: Annotated[int, QueryParameter(ge=1, le=MOST_ITEMS)] = 50,
    ) -> Response[bytes]:
        """`after` is `next` of the page before; `changed_from` is another run of the suite. `verdict` is the reading of
        a reply that a judge read. `pairs` adds the rest of each set, such as a pair about two groups.
        """
        values = {"axis": axis, "group": group, "reading": reading, "verdict": verdict, "changed_from": changed_from}
        query = ItemsWanted(audit_id=audit_id, status=read_as, pairs=pairs, after=place(after), limit=limit, **values)
        return Response((await run_views.items(config, query)).json, media_type="application/json")

    @get(
        "/compare",
        summary="Differences of two finished runs (docs/suites.md#comparing-two-runs) and flipped replies",
        responses=announced(404, 409),
    )
    async def compare(self, request: Asked, a: FromQuery[str], b: FromQuery[str], config: Settings) -> Response[bytes]:
        """Compare two runs. A viewer gets null for `flips`, with its reason in `no_flips_because`."""
        comparison, _ = await run_views.compared(config, a, b)
        return Response(viewer_forms.shown_comparison(comparison, request.user), media_type="application/json")

    @get(
        "/compare/report",
        summary="Comparison of two finished runs as HTML",
        media_type="text/html",
        responses=announced(404, 409),
    )
    async def compare_page(self, a: FromQuery[str], b: FromQuery[str], config: Settings) -> Response[bytes]:
        _, page = await run_views.compared(config, a, b)
        return Response(page, headers=REPORT_HEADERS, media_type="text/html")

    @get(
        "/{audit_id:str}/gate",
        summary="Requirements on a finished run (docs/suites.md#gates-in-continuous-integration)",
        responses={200: ResponseSpec(Gate, generate_examples=False), **announced(404, 409)},
    )
    async def gate(
        self,
        audit_id: FromPath[str],
        config: Settings,
        require: Annotated[list[str], QueryParameter(min_items=1, max_items=MOST_REQUIREMENTS)],
        allow_unvalidated_judge: FromQuery[bool] = False,
    ) -> Response[bytes]:
        """`require` may be given again and again, each as `audit gate` takes it."""
        query = GateWanted(audit_id=audit_id, requirements=require, allow_unvalidated_judge=allow_unvalidated_judge)
        return Response((await run_views.gate(config, query)).json, media_type="application/json")

    @post(
        "/estimate",
        status_code=200,
        summary="Requests, tokens and time of runs; starts nothing",
        responses={200: ResponseSpec(Costs, generate_examples=False), **announced(409, 415)},
    )
    async def estimate(
        self, data: JSONBody[AuditStart], database: Store, config: Settings, dataplane: Plane
    ) -> Response[bytes]:
        suites, left_out = await chosen(data, database)
        require_model(data.model, dataplane)
        served = config.aliases.get(data.model, data.model)
        query = CostWanted(
            options=[options_of(data, suite) for suite in suites],
            served_model=served,
            host=_host(served, dataplane),
            left_out=left_out,
        )
        return Response(await run_views.costs(config, query), media_type="application/json")


def _host(model: str, dataplane: DataPlane) -> str | None:
    """Return host and port of the first upstream of a model, as a run's provenance has them."""
    configured = [upstream for upstream in dataplane.upstreams if model in upstream.config.models]
    upstreams = configured or [upstream for upstream in dataplane.upstreams if model in upstream.models]
    return urlsplit(upstreams[0].config.base_url).netloc.rpartition("@")[2] if upstreams else None
