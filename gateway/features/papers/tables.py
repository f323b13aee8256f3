"""A paper's table from results: every cell with its number, interval and n, or the reason why it has none."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from auditors.types import Estimate
from benchmarks.errors import BenchmarkError
from benchmarks.figures.display import signed
from benchmarks.published import tables as published
from benchmarks.published.tables import NO_INTERVAL, Published
from benchmarks.reporting.compare import FILTERED, Difference, compare
from benchmarks.reporting.headline import stated
from benchmarks.reporting.leaderboard import Entry, leaderboards
from benchmarks.run.estimation import FALSE_STARS, MARK, mark
from benchmarks.run.result import Result
from benchmarks.suites import registry
from benchmarks.suites.common.estimation import CellKey
from benchmarks.suites.protocol import Observation
from gateway.cli.audit.jobs import writer_at
from gateway.features.papers import recipe
from gateway.features.papers.recipe import Column, Line, Recipe
from gateway.features.papers.runs import Finished, Model, Outcomes, Place

Origin = Literal["own", "published"]


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    value: float | None = None
    lower: float | None = None
    upper: float | None = None
    n: int | None = None
    mark: str = ""
    """A star, or "=" for a shared rank."""
    note: str = ""
    """Words after the number, such as the preferred identity."""
    reason: str | None = None
    origin: Origin = "own"
    decimals: int = 2
    is_change: bool = False
    """A difference, which is printed with its sign."""


class Label(msgspec.Struct, frozen=True, kw_only=True):
    text: str
    group: str = ""
    origin: Origin = "own"


class Row(msgspec.Struct, frozen=True, kw_only=True):
    label: Label
    cells: tuple[Cell, ...]


class Table(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    title: str
    heads: tuple[Label, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()

    @property
    def transposed(self) -> "Table":
        columns = zip(*(row.cells for row in self.rows), strict=True) if self.rows else [()] * len(self.heads)
        rows = tuple(Row(label=head, cells=cells) for head, cells in zip(self.heads, columns, strict=True))
        return msgspec.structs.replace(self, heads=tuple(row.label for row in self.rows), rows=rows)


class Numbers:
    """The numbers of a recipe's runs, as its tables need them."""

    def __init__(
        self, of: Recipe, models: Sequence[Model], outcomes: Outcomes, people: Mapping[str, list[Observation]] = {}
    ) -> None:
        self.recipe, self.models, self.outcomes, self.people = of, models, outcomes, people
        self._estimates: dict[Place, Mapping[CellKey, Estimate]] = {}
        self._differences: dict[tuple[Place, Place], Mapping[CellKey, Difference] | str] = {}

    def results(self, runs: Sequence[str]) -> list[Result]:
        """Return the results of the finished runs of these names, each under its model's name in tables."""
        places = ((name, each) for run in runs for name, each in self.finished(run).items())
        return [msgspec.structs.replace(each.result, model=name) for name, each in places]

    def finished(self, run: str) -> dict[str, Finished]:
        """Return the finished runs of a name, by their models' names in tables."""
        places = ((model.name, self.outcomes.get((model.name, run))) for model in self.models)
        return {name: outcome for name, outcome in places if isinstance(outcome, Finished)}

    def writers(self, run: str) -> dict[str, str]:
        """Return the models' names in tables, by the names that the questions of an evaluating run have of writers."""
        written = self.finished(self.recipe.run(run).evaluates or "")
        return {
            name: model.name
            for model in self.models
            if model.name in written
            for name in (model.served, writer_at(model.served, urlsplit(model.base_url).netloc))
        }

    def table(self, table: recipe.Table) -> Table:
        if table.ranks_of:
            return self._ranks(table)
        if table.covers:
            return self._coverage(table)
        columns = table.each_column()
        own = self._changes(table, columns) if table.pairs else self._own(table, columns)
        printed = list(self._published_rows(table, columns))
        formed = Table(
            id=table.id,
            title=table.title,
            heads=tuple(Label(text=column.heading) for column in columns),
            rows=(*own, *printed),
            notes=self._notes(table, has_published=bool(printed)),
        )
        return formed.transposed if table.is_transposed else formed

    def pairs(self, table: recipe.Table) -> list[tuple[Model, str]]:
        """Return the models of a table of pairs, each with the name of the entry that it is compared with."""
        named = ((model, getattr(model, table.pairs or "")) for model in self.models)
        return [(model, original) for model, original in named if original is not None]

    def _own(self, table: recipe.Table, columns: Sequence[Column]) -> list[Row]:
        models = sorted(self.models, key=lambda model: model.provider) if table.grouped_by_provider else self.models
        return [
            Row(label=Label(text=f"{model.name} {line.label}".strip(), group=model.provider), cells=cells)
            for model in models
            for line in table.lines
            for cells in [tuple(self.cell(model, line, column, columns) for column in columns)]
        ]

    def _changes(self, table: recipe.Table, columns: Sequence[Column]) -> list[Row]:
        return [
            Row(label=Label(text=f"{model.name} − {original}"), cells=cells)
            for model, original in self.pairs(table)
            for cells in [tuple(self.change(original, model.name, Line(), column, columns) for column in columns)]
        ]

    def change(self, original: str, changed: str, line: Line, column: Column, columns: Sequence[Column]) -> Cell:
        """Return the number of a model minus that of another, paired by item."""
        parts = [each for each in columns if each.heading in column.mean_of] or [column]
        runs = [part.run or line.run or "" for part in parts]
        cells = [self.difference((original, run), (changed, run), part) for part, run in zip(parts, runs, strict=True)]
        return mean_cell(column, [part.heading for part in parts], cells, runs) if column.mean_of else cells[0]

    def cell(self, model: Model, line: Line, column: Column, columns: Sequence[Column]) -> Cell:
        """Return a model's own number; `columns` are those of the table, of which a mean is formed."""
        if column.mean_of:
            parts = [each for each in columns if each.heading in column.mean_of]
            cells = [self.cell(model, line, each, columns) for each in parts]
            return mean_cell(column, [each.heading for each in parts], cells, [each.run or line.run for each in parts])
        place = (model.name, column.run or line.run or "")
        if line.minus is not None:
            base = (model.name, line.minus)
            changed = self.difference(base, place, column)
            return msgspec.structs.replace(changed, note=_relative(changed.value, self._estimate(base, column).value))
        estimate = self._estimate(place, column)
        return Cell(
            value=_scaled(column, estimate.value),
            lower=_scaled(column, estimate.lower),
            upper=_scaled(column, estimate.upper),
            n=estimate.n or None,
            mark=_star(estimate) if column.stars else "",
            note=_note(estimate, column),
            reason=estimate.reason,
            decimals=column.decimals,
        )

    def difference(self, base: Place, place: Place, column: Column) -> Cell:
        """Return the number of a run minus that of another, paired by item."""
        undefined = Cell(decimals=column.decimals, is_change=True)
        for each in (base, place):
            if column.metric == FILTERED and isinstance(self.outcomes.get(each), Finished):
                continue  # no suite's own number: the comparison counts it
            estimate = self._estimate(each, column)
            if estimate.value is None:
                return msgspec.structs.replace(undefined, reason=f"{' '.join(each)}: {estimate.reason}")
        if (base, place) not in self._differences:
            self._differences[base, place] = self._compare(base, place)
        differences = self._differences[base, place]
        if isinstance(differences, str) or (row := differences.get(_key(column))) is None:
            reason = differences if isinstance(differences, str) else "the two runs cannot be compared by it"
            return msgspec.structs.replace(undefined, reason=reason)
        return msgspec.structs.replace(
            undefined,
            value=_scaled(column, row.difference),
            lower=_scaled(column, row.lower),
            upper=_scaled(column, row.upper),
            n=row.n_b,
            mark=MARK if column.stars and (row.adjusted_p_value or 1.0) < FALSE_STARS else "",
            reason=row.reason,
        )

    def _compare(self, base: Place, place: Place) -> Mapping[CellKey, Difference] | str:
        """Return the differences in the numbers of the recipe's tables, or the reason why there is none."""
        keys = {_key(column) for table in self.recipe.tables for column in table.each_column()}
        outcomes = self.outcomes[base], self.outcomes[place]
        paths = [outcome.path for outcome in outcomes if isinstance(outcome, Finished)]
        try:
            rows = compare(*paths, keys=keys).differences
        except BenchmarkError as exc:
            return str(exc)
        return {CellKey(row.metric, row.axis, row.group, row.reference, row.subset): row for row in rows}

    def _estimate(self, place: Place, column: Column) -> Estimate:
        outcome, undefined = self.outcomes.get(place, "no run"), Estimate(metric=column.metric or "", value=None, n=0)
        if isinstance(outcome, str):
            return msgspec.structs.replace(undefined, reason=outcome)
        if place not in self._estimates:
            stated_estimates = (stated(outcome.result, estimate) for estimate in outcome.result.estimates)
            self._estimates[place] = {
                CellKey(e.metric, e.axis, e.group, e.reference, e.subset): e for e in stated_estimates
            }
        missing = msgspec.structs.replace(undefined, reason="the run has no such number")
        return self._estimates[place].get(_key(column), missing)

    def _published_rows(self, table: recipe.Table, columns: Sequence[Column]) -> Iterator[Row]:
        """Return the rows of the paper's own models, as printed; of a line that shows a change, the change."""
        printed = {line.label: self._printed(line, columns) for line in table.lines}
        label_of = {line.run: line.label for line in table.lines if line.minus is None}
        providers = {each.model: each.provider for numbers in printed.values() for each in numbers.values()}
        for model, provider in providers.items():
            for line in table.lines:
                numbers = printed[line.label]
                base = {} if line.minus is None else printed.get(label_of.get(line.minus, ""), {})
                cells = tuple(
                    _published_cell(column, line, numbers.get((model, at)), base.get((model, at)))
                    for at, column in enumerate(columns)
                )
                if any(cell.value is not None for cell in cells):
                    label = Label(
                        text=f"{model} {line.label}".strip(),
                        group=f"as published{provider and ', '}{provider}",
                        origin="published",
                    )
                    yield Row(label=label, cells=cells)

    def _printed(self, line: Line, columns: Sequence[Column]) -> dict[tuple[str, int], Published]:
        return {
            (each.model, at): each
            for at, column in enumerate(columns)
            for table in published.TABLES
            if table.source in (column.published or line.published)
            and (column.mean_of or table.suite == self.recipe.run(column.run or line.run or "").suite)
            for each in published.numbers(table)
            if each.key == _key(column)
        }

    def _ranks(self, table: recipe.Table) -> Table:
        boards = leaderboards(self.results(table.ranks_of))
        printed = {(rank.aspect, rank.suite, rank.model): rank.rank for rank in published.ranks()}
        printed_models = list(dict.fromkeys(model for _, _, model in printed))
        own = {(row.aspect, row.suite): (board, row) for board in boards for row in board.rows}
        runs = {self.recipe.run(name).suite: name for name in table.ranks_of}
        rows = []
        for aspect, suite in dict.fromkeys([*((aspect, suite) for aspect, suite, _ in printed), *own]):
            entries: dict[str, Entry] = {}
            if (aspect, suite) in own:
                board, row = own[aspect, suite]
                entries = dict(zip(board.models, row.entries, strict=True))
            cells = [_rank(entries.get(m.name), self.outcomes.get((m.name, runs[suite]))) for m in self.models]
            for model in printed_models:
                value = printed.get((aspect, suite, model))
                cells.append(Cell(value=value, decimals=0, origin="published", reason=None if value else "not printed"))
            text = f"{table.names.get(aspect, aspect.replace('_', ' '))}: {table.names.get(suite, suite)}"
            rows.append(Row(label=Label(text=text), cells=tuple(cells)))
        heads = [Label(text=model.name) for model in self.models]
        heads += [Label(text=model, origin="published") for model in printed_models]
        notes = (
            *self._notes(table, has_published=True),
            *(f"left out: {note}" for board in boards for note in board.notes),
        )
        return Table(id=table.id, title=table.title, heads=tuple(heads), rows=tuple(rows), notes=notes)

    def _coverage(self, table: recipe.Table) -> Table:
        rows = []
        for run in table.covers:
            finished = next(iter(self.finished(run).values()), None)
            axes = {o.item.item_id: o.item.axis for o in finished.observations} if finished else {}
            n = Counter(axes.values())
            reason = "not covered" if finished else "no finished run"
            cells = (
                Cell(value=n[axis] or None, decimals=0, reason=None if n[axis] else reason) for axis in table.names
            )
            rows.append(Row(label=Label(text=registry.find(self.recipe.run(run).suite).title), cells=tuple(cells)))
        heads = tuple(Label(text=words) for words in table.names.values())
        return Table(id=table.id, title=table.title, heads=heads, rows=tuple(rows), notes=(table.caveat,))

    def _notes(self, table: recipe.Table, *, has_published: bool) -> tuple[str, ...]:
        names = [run.name for run in self.recipe.runs_of(table)]
        runs_by_note: dict[str, list[str]] = {}
        for outcome, run in ((self.outcomes.get((model.name, run)), run) for run in names for model in self.models):
            if isinstance(outcome, Finished):
                for note in _about(outcome.result):
                    runs_by_note.setdefault(note, []).append(run)
        notes = [f"{', '.join(dict.fromkeys(runs))}: {note}." for note, runs in runs_by_note.items()]
        if has_published:
            notes.append(f"Models marked as published are printed in {self.recipe.paper}: {NO_INTERVAL}.")
        return (table.caveat, *notes) if table.caveat else tuple(notes)


def _about(result: Result) -> Iterator[str]:
    if result.dataset.kind == "embedded":
        yield "embedded data, not comparable with published numbers"
    if result.judge_fault:
        yield f"judge not validated: {result.judge_fault}"
    yield from (each.replace(f'the judge "{result.model}"', "the model as its judge") for each in result.judge_warnings)
    yield from (f"{result.model}: {fault}" for fault in (result.thinking_fault, result.length_note) if fault)


def _scaled(column: Column, value: float | None) -> float | None:
    return None if value is None else column.scale * value


def _key(column: Column) -> CellKey:
    return CellKey(column.metric or "", column.axis, column.group, column.reference, column.subset)


def _published_cell(column: Column, line: Line, printed: Published | None, base: Published | None) -> Cell:
    blank = Cell(decimals=column.decimals, origin="published", is_change=line.minus is not None)
    if printed is None or (line.minus is not None and base is None):
        return msgspec.structs.replace(blank, reason="not printed")
    value = printed.value if base is None else round(printed.value - base.value, printed.decimals)
    note = printed.identity if base is None else _relative(value, base.value)
    return msgspec.structs.replace(
        blank,
        value=value,
        decimals=printed.decimals,
        mark=printed.mark,
        note=note,
        reason=printed.note or NO_INTERVAL,
    )


def _relative(change: float | None, base: float | None) -> str:
    """Return a change as a percentage of a number; empty without either, or for a number of 0."""
    return "" if change is None or not base else f"{signed(100 * change / abs(base), 1)} %"


def _star(estimate: Estimate) -> str:
    test = estimate.extra.get("test")
    if test is None:
        return mark(estimate)
    return MARK if test["p_value"] is not None and test["p_value"] < FALSE_STARS else ""


def _note(estimate: Estimate, column: Column) -> str:
    words = estimate.extra.get(column.note or "") or ""
    return words if isinstance(words, str) else ", ".join(map(str, words))


def mean_cell(column: Column, headings: Sequence[str], cells: Sequence[Cell], runs: Sequence[str | None]) -> Cell:
    """Return a mean; if runs differ, with an interval by squared distances (Zou, Donner 2008, doi:10.1002/sim.3095)."""
    blank = Cell(decimals=column.decimals, is_change=any(cell.is_change for cell in cells))
    if missing := {name: cell for name, cell in zip(headings, cells, strict=True) if cell.value is None}:
        causes = dict.fromkeys(cell.reason for cell in missing.values() if cell.reason and cell.is_change)
        return msgspec.structs.replace(blank, reason=": ".join([f"no number in {', '.join(missing)}", *causes]))
    values = [cell.value for cell in cells if cell.value is not None]
    mean = fmean(values)
    formed = msgspec.structs.replace(blank, value=mean, n=sum(cell.n or 0 for cell in cells))
    if len(set(runs)) < len(runs):
        return msgspec.structs.replace(formed, reason="no interval: its parts are of one run and so not independent")
    ends = [(cell.lower, cell.upper) for cell in cells if cell.lower is not None and cell.upper is not None]
    if len(ends) < len(cells):
        return msgspec.structs.replace(formed, reason="no interval: a part has none")
    down, up = (
        math.hypot(*(value - end[side] for value, end in zip(values, ends, strict=True))) / len(cells)
        for side in (0, 1)
    )
    return msgspec.structs.replace(formed, lower=mean - down, upper=mean + up)


def _rank(entry: Entry | None, outcome: Finished | str | None) -> Cell:
    if entry is None or entry.rank is None:
        missing = outcome if isinstance(outcome, str) else "not ranked"
        return Cell(decimals=0, reason=missing if entry is None else entry.reason or "not assessable")
    has_half = entry.rank != int(entry.rank)
    return Cell(
        value=entry.rank,
        lower=entry.lower,
        upper=entry.upper,
        mark="=" if entry.is_tied else "",
        decimals=1 if has_half else 0,
    )
