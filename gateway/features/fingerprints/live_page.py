"""/console/fingerprints: how far models are from neutral, and how evenly evaluators choose, side by side."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from litestar import Controller, Response, get

from auditors.streams.scales import scale_of
from auditors.structs import combine
from gateway.api.dependencies import Asked, Store
from gateway.console.affinity_polygon import Identity, affinity_polygon
from gateway.console.rendering import View, words
from gateway.console.showing import PageFrame
from gateway.feature import templates_at
from gateway.reading import stream_pages
from gateway.reading.process import EncodedPage
from gateway.store.streams import Selection
from gateway.streams.estimates import LiveEstimate, leaves_out_neutral

if TYPE_CHECKING:
    from benchmarks.figures.figure import Figure

MOST_STREAMS = 2_000
MOST_MODELS = 20
SHARES = "selection_share"


class FingerprintsController(Controller):
    """Fingerprints of live traffic."""

    path = "/console/fingerprints"
    include_in_schema = False

    @get("/")
    async def fingerprints(self, request: Asked, pages: PageFrame, database: Store) -> Response[Any]:
        async def build() -> View:
            page = await stream_pages.read_estimates(database, Selection(limit=MOST_STREAMS))
            data = {
                "n_streams": page.total,
                "most_streams": MOST_STREAMS,
                "choices": templates_at("fingerprints.choices"),
                **await asyncio.to_thread(_drawn, page),
            }
            return View(template="fingerprints.html", title="Fingerprints", tab="/console/fingerprints", data=data)

        return await pages.shown(request, build)


def _drawn(page: EncodedPage[LiveEstimate]) -> dict[str, "list[Figure]"]:
    estimates = page.read()
    models = list(dict.fromkeys(estimate.model for estimate in estimates))[:MOST_MODELS]
    of_models = [estimate for estimate in estimates if estimate.model in models]
    by_metric: dict[str, list[LiveEstimate]] = {}
    for row in of_models:
        if row.group is not None and row.axis is not None and scale_of(row.metric).neutral is not None:
            by_metric.setdefault(row.metric, []).append(row)
    measured = [entry for entry in by_metric.items() if any(estimate.value is not None for estimate in entry[1])]
    measured.sort(key=lambda entry: not any(map(leaves_out_neutral, entry[1])))  # those that say something come first
    maps = [_map(metric, rows, is_first=at == 0) for at, (metric, rows) in enumerate(measured)]
    shares = [estimate for estimate in of_models if estimate.metric == SHARES]
    return {"maps": maps, "polygons": [_polygon(shares)] if shares else []}


def _map(metric: str, estimates: Sequence[LiveEstimate], *, is_first: bool) -> "Figure":
    """One metric: a row a model, a column a group. The first of a page says what hatching means."""
    from gateway.features.fingerprints import distances  # a worker starts without the benchmarks

    models = tuple(sorted({estimate.model for estimate in estimates}))
    groups = sorted({(estimate.axis or "", estimate.group or "") for estimate in estimates})
    newest: dict[tuple[str, str, str], LiveEstimate] = {}
    for estimate in sorted(estimates, key=lambda each: each.updated_at):  # the instrument that measures now is last
        newest[estimate.model, estimate.axis or "", estimate.group or ""] = estimate
    scale = scale_of(metric)
    drawn = distances.Distances(
        models=models,
        axes=tuple(f"{words(axis)}: {words(group)}" for axis, group in groups),
        cells=tuple(tuple(_cell(newest.get((model, *group))) for group in groups) for model in models),
        neutral=scale.neutral or 0.0,
    )
    figure = distances.figure(drawn, words(metric), scale.low, scale.high)
    return figure if is_first else msgspec.structs.replace(figure, keys=figure.keys[:1])


def _cell(estimate: LiveEstimate | None) -> Any:
    from gateway.features.fingerprints.distances import Cell

    if estimate is None:
        return None
    ends = {"lower": None, "upper": None} if estimate.is_widened else {}
    return combine(Cell, estimate, reason=estimate.reason or "", **ends)


def _polygon(shares: Sequence[LiveEstimate]) -> "Figure":
    """Every evaluator's choices: a spoke an identity."""
    by_model: dict[str, dict[Identity, LiveEstimate]] = {}
    for share in sorted(shares, key=lambda share: share.updated_at):
        by_model.setdefault(share.model, {})[share.axis or "", share.group or ""] = share
    return affinity_polygon("Affinity of the evaluators", dict(sorted(by_model.items())))
