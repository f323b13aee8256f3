"""/console: alarms, urgent tables, distances of models from neutral, suites, outcomes of the traffic."""

from collections.abc import Sequence
from typing import Any

import msgspec
from litestar import Controller, Response, get
from litestar.params import FromQuery
from markupsafe import Markup

from auditors.streams.scales import scale_of
from auditors.streams.state import UNKNOWN_SAMPLING
from gateway.api.dependencies import Asked, Settings, Store
from gateway.console.alarm_words import shown_changes
from gateway.console.audits import headlines
from gateway.console.interval_figure import plot
from gateway.console.rendering import View
from gateway.console.showing import PageFrame
from gateway.reading import stream_pages
from gateway.store import catalogue, ledger, runs, schedules
from gateway.store.database import Database
from gateway.store.runs import Run
from gateway.store.streams import Selection
from gateway.streams.estimates import LiveEstimate, leaves_out_neutral
from gateway.streams.settings import settings_of

MOST_STREAMS = 200
MOST_SUITES = 50
MOST_ALARMS = 20
OUTCOMES = {
    "audited": "",
    "queued": "waiting for an auditor",
    "sampled_out": "not drawn by the sampling rate",
    "filtered": "left out by configuration: endpoint, size or status",
    "opted_out": "left out by the client",
    "not_auditable": "no text that an auditor could read",
    "truncated": "longer than the gateway keeps",
    "expired": "too old before an auditor came to them",
    "failed": "failed to be audited",
}
"""Outcomes of the ledger, in the order in which they are shown."""


class OverviewController(Controller):
    """The first page."""

    path = "/console"
    include_in_schema = False

    @get("/")
    async def overview(
        self, request: Asked, pages: PageFrame, database: Store, config: Settings, model: FromQuery[str | None] = None
    ) -> Response[Any]:
        async def build() -> View:
            selection = Selection(model=model, limit=MOST_STREAMS)
            page = await stream_pages.read_estimates(database, selection)
            estimates = page.read()
            alarmed = await stream_pages.read_detectors(
                database, Selection(alarmed=True, limit=MOST_ALARMS), settings_of(config.drift)
            )
            tables = _tables([estimate for estimate in estimates if estimate.value is not None])
            suites = _newest_of_each(await runs.newest_done(database))
            data = {
                "alarms": shown_changes(alarmed.read()),
                "urgent": [table for table in tables if table.is_urgent],
                "others": [table for table in tables if not table.is_urgent],
                "unknown": [estimate for estimate in estimates if estimate.value is None],
                "n_streams": page.total,
                "n_shown": len(estimates),
                "model": model,
                "ledger": await _ledger(database),
                "suites": suites,
                "headlines": await headlines(database, suites, await catalogue.read(database)),
                "schedules": await schedules.list_schedules(database),
            }
            return View(template="overview.html", title="Overview", tab="/console", data=data)

        return await pages.shown(request, build)


class Table(msgspec.Struct, frozen=True):
    """The groups of a single metric and axis of a model, on a single scale."""

    auditor: str
    metric: str
    axis: str | None
    model: str
    rows: list[tuple[LiveEstimate, Markup]]
    """Each with its interval drawn."""
    sampling: str = ""
    """UNKNOWN_SAMPLING of means of what others sent, which have no interval."""

    @property
    def is_urgent(self) -> bool:
        """Return whether any of them drifted, or is known to be off the neutral value."""
        return min(_urgency(row) for row, _ in self.rows) < 2


def _tables(estimates: Sequence[LiveEstimate]) -> list[Table]:
    rows_by_key: dict[tuple[str, ...], list[LiveEstimate]] = {}
    for estimate in estimates:
        sampling = UNKNOWN_SAMPLING if estimate.instrument.startswith(UNKNOWN_SAMPLING) else ""
        rows_by_key.setdefault(
            (estimate.model, estimate.auditor, estimate.metric, estimate.axis or "", sampling), []
        ).append(estimate)
    tables = []
    for (model, auditor, metric, axis, sampling), rows in rows_by_key.items():
        neutral = scale_of(metric).neutral
        ends = [(None, None) if row.is_widened else (row.lower, row.upper) for row in rows]
        drawn = [(row, plot(row.range, neutral, row.value, *end)) for row, end in zip(rows, ends, strict=True)]
        tables.append(Table(auditor, metric, axis or None, model, drawn, sampling))
    return sorted(tables, key=lambda table: min(_urgency(row) for row, _ in table.rows))


def _urgency(estimate: LiveEstimate) -> int:
    if estimate.alarm:
        return 0
    return 1 if leaves_out_neutral(estimate) else 2


class LedgerShare(msgspec.Struct, frozen=True):
    """Requests of a single outcome."""

    name: str
    why: str
    n: int
    share: float


async def _ledger(database: Database) -> list[LedgerShare]:
    counts: dict[str, int] = dict.fromkeys(OUTCOMES, 0)
    for (_, outcome), count in (await ledger.counts(database)).items():
        counts[outcome] = counts.get(outcome, 0) + count
    total = sum(counts.values())
    return [LedgerShare(name, OUTCOMES.get(name, ""), n, n / total) for name, n in counts.items() if n]


def _newest_of_each(newest: Sequence[Run]) -> list[Run]:
    run_by_suite: dict[tuple[str, str, str], Run] = {}
    for run in sorted(newest, key=lambda run: -(run.finished_at or 0.0)):
        run_by_suite.setdefault((run.suite, run.model, run.options.get("mitigation") or "none"), run)
    return list(run_by_suite.values())[:MOST_SUITES]
