"""GET /live/coverage and /console/coverage: how much of the traffic that names an identity no suite asks about."""

import time
from typing import Any
from urllib.parse import urlencode

import msgspec
from litestar import Controller, Response, get, post
from litestar.openapi.datastructures import ResponseSpec

from gateway.api.dependencies import Asked, Settings, Store
from gateway.api.problems import announced
from gateway.console.interval_figure import plot
from gateway.console.rendering import View
from gateway.console.showing import PageFrame
from gateway.errors import NotFoundError
from gateway.features.coverage import store
from gateway.features.coverage.figures import Coverage, Share, TrafficCluster

TAB = "/console/coverage"
MOST_SUITES = 3
"""Most suites that are named with a cluster of prompts."""
NOT_COMPUTED = (
    "what no suite covers has not been computed: an auditor does so every audits.coverage_every_hours, with the "
    "embedder of [auditors.embedding]"
)


class CoverageRequested(msgspec.Struct, frozen=True):
    """A request for a computation."""

    next_at: float
    """Unix seconds from which an auditor begins it: auditors look every minute."""


class LiveCoverageController(Controller):
    """Numbers only: no text of any exchange."""

    path = "/live"
    tags = ("live",)

    @get(
        "/coverage",
        summary="Traffic that no suite covers (docs/coverage.md); 404 before the first computation",
        responses={200: ResponseSpec(Coverage, description="The newest computation", generate_examples=False)}
        | announced(404),
    )
    async def coverage(self, database: Store, config: Settings) -> Coverage:
        """Return the coverage of the newest sampled prompts. `examples`: ids for `GET /live/exchanges?exchange_id=`."""
        latest = await store.newest(database)
        if latest is None:
            raise NotFoundError(NOT_COMPUTED)
        return msgspec.structs.replace(latest, next_at=await _next_at(database, latest, config))

    @post(
        "/coverage",
        status_code=202,
        summary="Compute the coverage now, whatever the schedule says",
        responses=announced(),
    )
    async def compute(self, database: Store) -> CoverageRequested:
        """Ask the auditors for a computation; a computation that runs already answers the request too."""
        return CoverageRequested(await store.request(database))


class CoverageController(Controller):
    """Numbers only; exchanges are behind links for administrators."""

    path = TAB
    include_in_schema = False

    @get("/")
    async def coverage(self, request: Asked, pages: PageFrame, database: Store, config: Settings) -> Response[Any]:
        async def build() -> View:
            latest = await store.newest(database)
            data: dict[str, Any] = {"found": None} if latest is None else _page_data(latest)
            next_at = await _next_at(database, latest, config)
            data |= {"next_at": next_at, "is_due": next_at is not None and next_at <= time.time()}
            return View(template="coverage.html", title="What no suite covers", tab=TAB, data=data)

        return await pages.shown(request, build)


async def _next_at(database: Store, latest: Coverage | None, config: Settings) -> float | None:
    return await store.next_at(database, latest, config.audits.coverage_every_hours * 3600.0)


def _page_data(coverage: Coverage) -> dict[str, Any]:
    weighted = sorted(coverage.reweighted, key=lambda row: (row.value is None, row.suite, row.model))
    suites = sorted(coverage.suites, key=lambda row: (-(row.resembling.value or 0.0), row.suite))
    return {
        "found": coverage,
        "clusters": [
            (cluster, _asking(cluster), _plot(cluster.unmatched), _address(cluster)) for cluster in coverage.clusters
        ],
        "suites": [(suite, _plot(suite.resembling)) for suite in suites],
        "reweighted": weighted,
        "excluded": sorted(coverage.excluded.items(), key=lambda entry: -entry[1]),
    }


def _plot(share: Share) -> Any:
    return plot((0.0, 1.0), None, share.value, share.lower, share.upper)


def _asking(cluster: TrafficCluster) -> list[tuple[str, float]]:
    """The suites that ask most of it."""
    return sorted(cluster.suites.items(), key=lambda entry: (-entry[1], entry[0]))[:MOST_SUITES]


def _address(cluster: TrafficCluster) -> str:
    return f"/console/exchanges?{urlencode({'exchange_id': cluster.examples}, doseq=True)}"
