"""The API of what is made of runs when somebody looks: items one by one, two runs compared."""

from typing import Annotated

from litestar import Controller, Response, get
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import FromPath, FromQuery, QueryParameter

from gateway.api import run_views
from gateway.api.audits import REPORT_HEADERS
from gateway.api.dependencies import Settings
from gateway.api.problems import announced
from gateway.api.shown_items import Filter, ItemsPage, ItemsWanted, place

MOST_ITEMS = 200


class AuditViewsController(Controller):
    """Besides what the store has ready: see AuditsController."""

    path = "/audits"
    tags = ("audits",)

    @get(
        "/{audit_id:str}/items",
        summary="The replies of a run one by one, with what was asked and how each was read",
        responses={200: ResponseSpec(ItemsPage, generate_examples=False), **announced(404, 409)},
    )
    async def items(
        self,
        audit_id: FromPath[str],
        config: Settings,
        read_as: Annotated[Filter | None, QueryParameter(name="status")] = None,
        changed_from: FromQuery[str | None] = None,
        after: FromQuery[str | None] = None,
        limit: Annotated[int, QueryParameter(ge=1, le=MOST_ITEMS)] = 50,
    ) -> Response[bytes]:
        """`after` is `next` of the page before; `changed_from` is another run of the suite."""
        wanted = ItemsWanted(
            audit_id=audit_id,
            status=read_as,
            changed_from=changed_from,
            after=place(after),
            limit=limit,
        )
        return Response(await run_views.items(config, wanted), media_type="application/json")

    @get(
        "/compare",
        summary="Two finished runs of a suite: differences (b minus a), and items that flipped",
        responses=announced(404, 409),
    )
    async def compare(self, a: FromQuery[str], b: FromQuery[str], config: Settings) -> Response[bytes]:
        found, _ = await run_views.compared(config, a, b)
        return Response(found, media_type="application/json")

    @get(
        "/compare/report",
        summary="The same as one self-contained page: forest plot, items that flipped",
        media_type="text/html",
        responses=announced(404, 409),
    )
    async def compare_page(self, a: FromQuery[str], b: FromQuery[str], config: Settings) -> Response[bytes]:
        _, page = await run_views.compared(config, a, b)
        return Response(page, headers=REPORT_HEADERS, media_type="text/html")
