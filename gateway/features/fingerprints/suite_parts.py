"""Shows models by their newest finished runs: distances from neutral, ranks and, apart from these, papers' numbers."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from auditors.structs import combine
from auditors.types import Estimate
from benchmarks.figures.display import number, with_ends
from benchmarks.figures.figure import Figure
from benchmarks.lab.positioning import positioning, published_positioning
from benchmarks.published import tables
from benchmarks.published.tables import NO_INTERVAL, Published, Table
from benchmarks.reporting.headline import heading, key_of, not_assessable, part, places
from benchmarks.reporting.leaderboard import leaderboards, settings
from benchmarks.reporting.pages import template
from benchmarks.reporting.side_by_side import notes_on
from benchmarks.run.result import Result
from benchmarks.suites.common.estimation import CellKey
from benchmarks.suites.common.mitigation import NONE
from benchmarks.suites.protocol import Scale, Suite
from benchmarks.suites.registry import SUITES
from gateway.features.fingerprints import distances
from gateway.features.fingerprints.distances import Cell, Distances

MOST_COLUMNS = 12
"""Most columns of a map or table; the reports of the runs have all."""
DASH = "–"
TEMPLATES = Path(__file__).parent / "templates"

Maps = dict[str, list[CellKey]]
"""Own maps: the numbers of each, by its title."""


class FinishedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A result and the run that it is of."""

    id: str
    finished_at: float
    """Unix seconds."""
    result: Result

    @property
    def name(self) -> str:
        mitigation = self.result.mitigation
        return self.result.model if mitigation == NONE else f"{self.result.model}, mitigation {mitigation}"

    @property
    def fault(self) -> str | None:
        """Why its numbers say nothing about the model, or rest on what is not known to hold."""
        judge = f"judge not validated: {self.result.judge_fault}" if self.result.judge_fault else None
        return not_assessable(self.result) or self.result.thinking_fault or judge

    @property
    def when(self) -> str:
        return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(self.finished_at))


Rows = list[tuple[FinishedRun, dict[CellKey, Estimate]]]


class Numbers(msgspec.Struct, frozen=True, kw_only=True):
    """A metric without a neutral value: models against axes in words."""

    title: str
    reading: str
    columns: list[str]
    rows: list[tuple[str, list[str]]]
    """Name, and an entry a column."""
    head: Literal["model", "part"] = "model"
    """Kind of the rows; the columns are of the other."""
    source: str = ""
    """Paper and table of published ones; empty for one's own."""
    notes: list[str] = []


class Way(msgspec.Struct, frozen=True, kw_only=True):
    """One suite, measured in one way."""

    title: str
    is_embedded: bool
    figures: list[Figure]
    numbers: list[Numbers]
    runs: list[FinishedRun]
    notes: list[str]


class SuitePart(msgspec.Struct, frozen=True, kw_only=True):
    suite: str
    title: str
    ways: list[Way]
    figures: list[Figure]
    """Published."""
    numbers: list[Numbers]
    """Published."""


class Rendered(msgspec.Struct, frozen=True, kw_only=True):
    """Parts of pages, complete and escaped."""

    ranks: str
    suites: dict[str, tuple[str, str]]
    """Title and part of each suite that has a run, by its name."""


def render(runs: Sequence[FinishedRun], n_left_out: int = 0) -> Rendered:
    """Render the newest runs of installed suites, and ranks. `n_left_out`: models for which there was no room."""
    boards = [board for board in leaderboards([run.result for run in runs]) if board.standings]
    boards = [msgspec.structs.replace(board, figure=None, joint=[]) for board in boards]
    entries = tables.ranks()
    models = list(dict.fromkeys(entry.model for entry in entries))
    by_place = {(entry.aspect, entry.suite, entry.model): entry.rank for entry in entries}
    places_of = dict.fromkeys((entry.aspect, entry.suite) for entry in entries)
    rows = [(*place, [by_place.get((*place, model)) for model in models]) for place in places_of]
    shown = parts(runs)
    ranks = template("suite_ranks.html", TEMPLATES).render(
        boards=boards,
        unranked=[f"{at.suite}: {note}" for at in shown for way in at.ways for note in way.notes if "differ" in note],
        positions=[positioning(board) for board in boards],
        published_ranks={"models": models, "rows": rows},
        published_positions=published_positioning(),
        ranks_source=tables.RANKS_SOURCE,
        no_interval=NO_INTERVAL,
        separation=None,
        n_left_out=n_left_out,
    )
    page = template("suite_fingerprints.html", TEMPLATES)
    return Rendered(ranks=ranks, suites={part.suite: (part.title, page.render(part=part)) for part in shown})


def parts(runs: Sequence[FinishedRun]) -> list[SuitePart]:
    """A suite each, in the order of the registry."""
    by_suite: dict[str, list[FinishedRun]] = {}
    for run in runs:
        by_suite.setdefault(run.result.suite, []).append(run)
    return [_part_of(suite, by_suite[name]) for name, suite in SUITES.items() if name in by_suite]


def _part_of(suite: Suite, runs: Sequence[FinishedRun]) -> SuitePart:
    by_way: dict[tuple[str, str, str], list[FinishedRun]] = {}
    for run in sorted(runs, key=lambda run: run.name):
        kind = run.result.dataset.kind
        by_way.setdefault((run.result.protocol, run.result.mode, kind), []).append(run)
    settings_of_runs = {(run.result.few_shot, run.result.mitigation) for run in runs}
    all_printed = tables.tables_of(suite.name)
    printed = [table for table in all_printed if (table.few_shot, table.mitigation) in settings_of_runs]
    measured = dict.fromkeys(key_of(estimate) for run in runs for estimate in run.result.estimates)
    headline = [key for key in measured if _is_alike(suite.headline, key)]
    maps = {_title(suite.headline): headline}
    for metric in dict.fromkeys(table.metric for table in printed):
        of_papers = {entry.key for table in printed if table.metric == metric for entry in tables.numbers(table)}
        keys = [key for key in measured if key in of_papers and key not in headline and "/" not in (key.subset or "")]
        if keys:
            maps[_title(CellKey(metric)) + ", in the papers' parts" * (metric == suite.headline.metric)] = keys
    maps = {title: sorted(keys, key=lambda key: key.axis is not None) for title, keys in maps.items()}
    ways = [_way(suite, way, runs_of_way, maps) for way, runs_of_way in sorted(by_way.items())]
    order = [key for keys in maps.values() for key in keys]
    published = [_published(suite, table, order) for table in printed]
    return SuitePart(
        suite=suite.name,
        title=suite.title,
        ways=ways,
        figures=[drawn for drawn in published if isinstance(drawn, Figure)],
        numbers=[drawn for drawn in published if isinstance(drawn, Numbers)],
    )


def _way(suite: Suite, way: tuple[str, str, str], runs: Sequence[FinishedRun], maps: Maps) -> Way:
    protocol, mode, kind = way
    figures: list[Figure] = []
    numbers: list[Numbers] = []
    notes: list[str] = []
    rows = [(run, {key_of(estimate): estimate for estimate in run.result.estimates}) for run in runs]
    measured = {key for _, estimates in rows for key in estimates}
    for title, all_keys in maps.items():
        keys = [key for key in all_keys if key in measured]
        if len(keys) > MOST_COLUMNS:
            notes.append(f"{title}: the first {MOST_COLUMNS} of {len(keys)} columns; reports have all")
        keys = keys[:MOST_COLUMNS]
        if not keys:
            notes.append(f"{title}: not in these runs")
        elif suite.scales[keys[0].metric].ideal is None:
            numbers.append(_numbers(suite, title, keys, rows))
        else:
            metric = keys[0].metric
            drawn = Distances(
                models=tuple(run.name for run in runs),
                axes=tuple(_named(key, keys) for key in keys),
                cells=tuple(tuple(_cell(run, estimates.get(key)) for key in keys) for run, estimates in rows),
                neutral=suite.scales[metric].ideal or 0.0,
                places=places(suite.name, metric),
            )
            figures.append(_figure(title, suite.scales[metric], drawn))
    all_settings = [settings(run.result) for run in runs]
    values = {name: list(dict.fromkeys(str(each[name]) for each in all_settings)) for name in all_settings[0]}
    differences = [f"rows differ in {name}: {', '.join(value)}" for name, value in values.items() if len(value) > 1]
    title, notes = f"{protocol} protocol · {mode} · {kind} data", notes + differences
    is_embedded = kind == "embedded"
    return Way(title=title, is_embedded=is_embedded, figures=figures, numbers=numbers, runs=list(runs), notes=notes)


def _is_alike(headline: CellKey, key: CellKey) -> bool:
    has_same_groups = (headline.group is None, headline.reference is None) == (key.group is None, key.reference is None)
    return (key.metric, key.subset) == (headline.metric, headline.subset) and has_same_groups


def _named(key: CellKey, keys: Sequence[CellKey]) -> str:
    """Return the number's part in words, without a subset that all have."""
    return part(*key[1:4], key.subset if len({one.subset for one in keys}) > 1 else None)


def _title(key: CellKey) -> str:
    return f"{heading(key.metric)}{f', {key.subset}' if key.subset else ''}".replace("_", " ")


def _figure(title: str, scale: Scale, drawn: Distances, notes: Sequence[str] = ()) -> Figure:
    reading = f"Distance from {number(drawn.neutral, drawn.places)} in the metric's own unit ({scale.reading})."
    if not scale.low < drawn.neutral < scale.high:
        reading += " Every value lies on one side of it, so a cell without hatching is not yet a finding."
    drawing = distances.figure(drawn, title, scale.low, scale.high)
    return msgspec.structs.replace(drawing, reading=reading, notes=tuple(notes))


def _cell(run: FinishedRun, estimate: Estimate | None) -> Cell | None:
    if estimate is None:
        return None
    gone = not_assessable(run.result, estimate) or run.result.thinking_fault
    if gone is not None:
        return Cell(value=None, n=estimate.n, reason=gone)
    return combine(Cell, estimate, chance=estimate.extra.get("by_chance"), reason=estimate.reason or "")


def _numbers(suite: Suite, title: str, keys: Sequence[CellKey], rows: Rows) -> Numbers:
    metric = keys[0].metric
    decimals = places(suite.name, metric)
    reading = f"{suite.scales[metric].reading}. It has no neutral value."
    cells = [[_describe_cell(_cell(run, own.get(key)), decimals) for key in keys] for run, own in rows]
    described = [(run.name, words) for (run, _), words in zip(rows, cells, strict=True)]
    return Numbers(title=title, reading=reading, columns=[_named(key, keys) for key in keys], rows=described)


def _describe_cell(cell: Cell | None, decimals: int) -> str:
    if cell is None:
        return DASH
    if cell.value is None:
        return f"undefined: {cell.reason or 'no reason is stored'}, n = {cell.n:,}"
    return f"{with_ends(cell.value, cell.lower, cell.upper, decimals, without=' (no interval)')}, n = {cell.n:,}"


def _published(suite: Suite, table: Table, order: Sequence[CellKey]) -> Figure | Numbers:
    entries = tables.numbers(table)
    by_place = {(entry.model, entry.key): entry for entry in entries}
    keys = list(dict.fromkeys(entry.key for entry in entries))
    keys.sort(key=lambda key: order.index(key) if key in order else len(order))
    models = list(dict.fromkeys(entry.model for entry in entries))
    columns = [_named(key, keys) for key in keys]
    notes = notes_on(entries)
    title = f"Published: {heading(table.metric)}{table.about}, {table.source}"
    scale = suite.scales[table.metric]
    if scale.ideal is None or len(keys) > MOST_COLUMNS:
        is_long = len(keys) > MOST_COLUMNS
        rows = [(model, [_printed(by_place.get((model, key))) for key in keys]) for model in models]
        if is_long:
            rows = [(column, [cells[at] for _, cells in rows]) for at, column in enumerate(columns)]
        return Numbers(
            title=title,
            reading=" ".join(filter(None, (f"{scale.reading}.", table.caveat, f"{NO_INTERVAL.capitalize()}."))),
            columns=models if is_long else columns,
            rows=rows,
            head="part" if is_long else "model",
            source=table.source,
            notes=notes,
        )
    drawn = Distances(
        models=tuple(models),
        axes=tuple(columns),
        cells=tuple(tuple(_print_cell(by_place.get((model, key))) for key in keys) for model in models),
        neutral=scale.ideal,
        places=places(suite.name, table.metric),
    )
    notes = [text for text in (table.caveat, f"All cells are hatched: {NO_INTERVAL}.", *notes) if text]
    return _figure(title, scale, drawn, notes)


def _printed(entry: Published | None) -> str:
    return DASH if entry is None else number(entry.value, entry.decimals)


def _print_cell(entry: Published | None) -> Cell | None:
    return None if entry is None else Cell(value=entry.value, n=None)
