"""/console/coverage: how much of the traffic that names an identity no suite asks about, and what it is."""

from typing import Any
from urllib.parse import urlencode

from litestar import Controller, Response, get

from gateway.api.dependencies import Asked, Store
from gateway.console.interval_figure import plot
from gateway.console.rendering import View
from gateway.console.showing import PageFrame
from gateway.features.coverage import store as coverages
from gateway.features.coverage.figures import Coverage, Share, SuiteCoverage, TrafficCluster

TAB = "/console/coverage"
MOST_SUITES = 3
"""Named beside a cluster of prompts."""


class CoverageController(Controller):
    """Numbers only; exchanges are behind links for administrators."""

    path = TAB
    include_in_schema = False

    @get("/")
    async def coverage(self, request: Asked, pages: PageFrame, database: Store) -> Response[Any]:
        async def build() -> View:
            found = await coverages.newest(database)
            data = {"found": found} if found is None else _shown(found)
            return View(template="coverage.html", title="What no suite covers", tab=TAB, data=data)

        return await pages.shown(request, build)


def _shown(found: Coverage) -> dict[str, Any]:
    weighted = sorted(found.reweighted, key=lambda one: (one.value is None, one.suite, one.model))
    return {
        "found": found,
        "clusters": [(one, _asking(one), _plot(one.unmatched), _address(one)) for one in found.clusters],
        "suites": [(one, _plot(one.resembling)) for one in sorted(found.suites, key=_most_first)],
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
