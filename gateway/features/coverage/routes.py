"""GET /live/coverage and /console/coverage: how much of the traffic that names an identity no suite asks about."""

from typing import Any
from urllib.parse import urlencode

from litestar import Controller, Response, get
from litestar.openapi.datastructures import ResponseSpec

from gateway.api.dependencies import Asked, Store
from gateway.api.problems import announced
from gateway.console.interval_figure import plot
from gateway.console.rendering import View
from gateway.console.showing import PageFrame
from gateway.errors import NotFoundError
from gateway.features.coverage import store
from gateway.features.coverage.figures import Coverage, Share, SuiteCoverage, TrafficCluster

TAB = "/console/coverage"
MOST_SUITES = 3
"""Named beside a cluster of prompts."""
NOT_COMPUTED = (
    "what no suite covers has not been computed: an auditor does so every audits.coverage_every_hours, with the "
    "embedder of [auditors.embedding]"
)


class LiveCoverageController(Controller):
    """Numbers only: no text of any exchange."""

    path = "/live"
    tags = ("live",)

    @get(
        "/coverage",
        summary="What no suite covers: the traffic that names an identity beside the questions of suites",
        responses={200: ResponseSpec(Coverage, description="The newest computation", generate_examples=False)}
        | announced(404),
    )
    async def coverage(self, database: Store) -> Coverage:
        """Of the newest sampled prompts. `examples` are ids for `GET /live/exchanges?exchange_id=`."""
        found = await store.newest(database)
        if found is None:
            raise NotFoundError(NOT_COMPUTED)
        return found


class CoverageController(Controller):
    """Numbers only; exchanges are behind links for administrators."""

    path = TAB
    include_in_schema = False

    @get("/")
    async def coverage(self, request: Asked, pages: PageFrame, database: Store) -> Response[Any]:
        async def build() -> View:
            found = await store.newest(database)
            data = {"found": found} if found is None else _shown(found)
            return View(template="coverage.html", title="What no suite covers", tab=TAB, data=data)

        return await pages.shown(request, build)


def _shown(found: Coverage) -> dict[str, Any]:
    weighted = sorted(found.reweighted, key=lambda one: (one.value is None, one.suite, one.model))
    return {
        "found": found,
        "clusters": [
            (cluster, _asking(cluster), _plot(cluster.unmatched), _address(cluster)) for cluster in found.clusters
        ],
        "suites": [(suite, _plot(suite.resembling)) for suite in sorted(found.suites, key=_most_first)],
        "reweighted": weighted,
        "excluded": sorted(found.excluded.items(), key=lambda entry: -entry[1]),
    }


def _plot(share: Share) -> Any:
    return plot((0.0, 1.0), None, share.value, share.lower, share.upper)


def _asking(cluster: TrafficCluster) -> list[tuple[str, float]]:
    """The suites that ask most of it."""
    return sorted(cluster.suites.items(), key=lambda entry: (-entry[1], entry[0]))[:MOST_SUITES]


def _address(cluster: TrafficCluster) -> str:
    return f"/console/exchanges?{urlencode({'exchange_id': cluster.examples}, doseq=True)}"


def _most_first(one: SuiteCoverage) -> tuple[float, str]:
    return -(one.resembling.value or 0.0), one.suite
