"""Draws the figures of a recipe; points with upright intervals show a number against size or date of the models."""

import math
from collections.abc import Iterator, Sequence
from datetime import date
from functools import partial
from itertools import chain
from statistics import fmean

import msgspec
import numpy as np

from auditors.metrics.bootstrap import cluster_bootstrap
from auditors.metrics.ranking import spearman
from auditors.structs import combine
from auditors.types import Estimate
from benchmarks.figures import rows
from benchmarks.figures.display import number
from benchmarks.figures.figure import Figure, Part, Picture, Run
from benchmarks.figures.marks import dot
from benchmarks.figures.panels import Panel, all_numbers, spanning
from benchmarks.figures.svg import WIDE, add, canvas, in_both_widths, kind_of, markup, nothing, text
from benchmarks.lab.positioning import positioning
from benchmarks.reporting.headline import stated
from benchmarks.reporting.leaderboard import leaderboards
from benchmarks.run import directory
from benchmarks.run.result import Result
from benchmarks.run.score import cells
from benchmarks.suites import registry
from benchmarks.suites.common.estimation import MIN_CLUSTERS, estimate
from benchmarks.suites.protocol import Observation
from gateway.features.papers import texts
from gateway.features.papers.recipe import Attribute, Column, Drawing, Line, Relation
from gateway.features.papers.runs import Finished, Model
from gateway.features.papers.tables import Cell, Label, Numbers, Row, Table

TOO_FEW = f"no interval: fewer than {MIN_CLUSTERS} models"
NOTE = (
    "Each model counts as one draw; the uncertainty of its own number is in the table. A quantised model counts in its "
    "own row alone, a filtered one in none, which is paired by item. A correlation is no cause."
)
NAMES = {"parameters": "size (parameters)", "released": "release date"}


def table_of(numbers: Numbers, relation: Relation) -> Table:
    """Return a row for each of Spearman's correlations, each family and each quantised model."""
    rows = [row for attribute in relation.against for row in _rows(numbers, relation, attribute)]
    heads = (Label(text=relation.column),)
    return Table(id=relation.id, title=relation.title, heads=heads, rows=tuple(rows), notes=(NOTE,))


def _rows(numbers: Numbers, relation: Relation, attribute: Attribute) -> list[Row]:
    if attribute == "quantisation_of":
        return [
            Row(label=Label(text=f"{model.name} − {model.quantisation_of}", group="quantised"), cells=(cell,))
            for model in numbers.models
            if model.quantisation_of is not None
            for line, column, columns in [_number_of(numbers, relation)]
            for cell in [numbers.change(model.quantisation_of, model.name, line, column, columns)]
        ]
    models = [(model, cell) for model, cell in numbers_of(numbers, relation) if not model.is_copy]
    if attribute == "family":
        decimals = _number_of(numbers, relation)[1].decimals
        families: dict[str, list[float]] = {}
        for model, cell in models:
            if model.family is not None and cell.value is not None:
                families.setdefault(model.family, []).append(cell.value)
        return [
            Row(label=Label(text=f"mean of {name}", group="family"), cells=(_mean(values, decimals),))
            for name, values in families.items()
        ]
    places = [(place_of(model, attribute), cell.value) for model, cell in models]
    label = Label(text=f"Spearman's ρ with {NAMES[attribute]}", group="correlation")
    return [Row(label=label, cells=(_correlation([(x, y) for x, y in places if x is not None and y is not None]),))]


def place_of(model: Model, attribute: Attribute) -> float | None:
    """Return the model's place on the scale of a size or a date."""
    if attribute == "parameters":
        return None if model.parameters is None else math.log10(model.parameters)
    return None if model.released is None else float(model.released.toordinal())


def _correlation(pairs: Sequence[tuple[float, float]]) -> Cell:
    n = len(pairs)
    if n < 3:
        return Cell(n=n, reason=f"{n} models have both numbers: at least 3 are needed")
    x, y = zip(*pairs, strict=True)
    value, interval = spearman(x, y, rng=np.random.default_rng(n))
    if math.isnan(value):
        return Cell(n=n, reason="all models are alike in one of the two")
    if n < MIN_CLUSTERS or interval is None:
        return Cell(value=value, n=n, reason=TOO_FEW)
    return Cell(value=value, lower=interval.lower, upper=interval.upper, n=n)


def _mean(values: Sequence[float], decimals: int) -> Cell:
    cell, rng = Cell(value=fmean(values), n=len(values), decimals=decimals), np.random.default_rng(len(values))
    sums = np.column_stack([values, np.ones(len(values))])
    ends = cluster_bootstrap(sums, lambda each: each[..., 0] / each[..., 1], rng=rng).interval
    if len(values) < MIN_CLUSTERS or ends is None:
        return msgspec.structs.replace(cell, reason=TOO_FEW)
    return msgspec.structs.replace(cell, lower=ends.lower, upper=ends.upper)


def _number_of(numbers: Numbers, relation: Relation) -> tuple[Line, Column, list[Column]]:
    table = numbers.recipe.table(relation.table)
    columns = table.each_column()
    return table.lines[0], next(column for column in columns if column.heading == relation.column), columns


def numbers_of(numbers: Numbers, relation: Relation) -> list[tuple[Model, Cell]]:
    of = _number_of(numbers, relation)
    return [(model, numbers.cell(model, *of)) for model in numbers.models]


def spoken(cell: Cell) -> str:
    """Return the cell in words: number, interval and n, or why there is none."""
    if cell.value is None:
        return f"no number: {cell.reason}"
    ends = cell.reason or "no interval"
    if cell.lower is not None and cell.upper is not None:
        ends = f"95 % interval {number(cell.lower, cell.decimals)} to {number(cell.upper, cell.decimals)}"
    return f"{number(cell.value, cell.decimals)}, {ends}" + ("" if cell.n is None else f", n = {cell.n:,}")


MARKS = {
    "parameters": [math.log10(size) for size in (0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000, 3000)],
    "released": [float(date(year, 1, 1).toordinal()) for year in range(2018, 2100)],
}

HEIGHT, LEFT, TOP, FOOT, RIGHT = 300.0, 52.0, 12.0, 24.0, 18.0
ROOM = 0.06
"""Space at either end, as a share of the span that is drawn."""
LABEL = 130.0
"""Most pixels of a point's name."""


class Spot(rows.Dot, frozen=True, kw_only=True):
    across: float


def _words_of(attribute: Attribute, at: float) -> str:
    day = date.fromordinal(max(1, int(at)))
    return f"{10**at:.3g} B" if attribute == "parameters" else day.isoformat().removesuffix("-01-01")


def draw_spots(title: str, spots: Sequence[Spot], attribute: Attribute, width: float = WIDE) -> str:
    """Return the points with a number, by `across`; the end points are marked if fewer than two round places are."""
    spots = sorted((spot for spot in spots if spot.drawable is not None), key=lambda spot: spot.across)
    if not spots:
        return nothing(width, title, "no model has both numbers")
    description = "; ".join(f"{spot.name}: {spot.words}" for spot in spots)
    picture = canvas(width, HEIGHT, title, description=description, kind=kind_of(width))
    along = spanning([spot.across for spot in spots], LEFT, width - RIGHT, room=ROOM)
    box = Panel(group=picture, x=along, y=spanning(all_numbers(spots), HEIGHT - FOOT, TOP, room=ROOM))
    box.axis_left(box.y.ticks())
    held = [mark for mark in MARKS[attribute] if along.holds(mark)]
    ends = sorted({spots[0].across, spots[-1].across})
    box.axis_below((at, _words_of(attribute, at)) for at in (held if len(held) > 1 else ends))
    for spot in spots:  # names first, so that none hides a point
        x, y = along.at(spot.across), box.y.at(spot.drawable or 0.0)
        shift, anchor = (-8, "end") if x > (along.start + along.end) / 2 else (8, "start")
        text(picture, x + shift, y - 6, spot.name, size=10, room=LABEL, class_="soft halo", text_anchor=anchor)
    for spot in spots:
        group = add(picture, "g", class_="dot-row", data_row=spot.name)
        dot(group, 0, along.at(spot.across), spot, box.y, f"{spot.name}: ")
    return markup(picture)


def figures_of(numbers: Numbers, drawing: Drawing) -> list[Figure]:
    """Return the figures of a drawing; empty where nothing is there to draw."""
    if drawing.kind == "suite":
        suite, runs = registry.find(numbers.recipe.run(drawing.of).suite), list(_runs(numbers, drawing))
        together = suite.figures(runs) if runs and not drawing.by_writer else []
        each = [(run.name, figure) for run in runs for figure in suite.figures([run])] if not together else []
        alone = [msgspec.structs.replace(figure, title=f"{figure.title} · {name}") for name, figure in each]
        return [*together, *alone]
    if drawing.kind == "ranks":
        boards = leaderboards(numbers.results(numbers.recipe.table(drawing.of).ranks_of))
        return [positioning(board) for board in boards if board.has_places]
    if drawing.kind in ("pair", "chosen", "named"):
        observed: dict[str, Sequence[Observation]] = {
            name: run.observations for name, run in numbers.finished(drawing.of).items()
        }
        observed |= numbers.people if drawing.people else {}
        if drawing.kind == "chosen":
            return texts.chosen(drawing.title, observed, numbers.writers(drawing.of))
        return (texts.pairs if drawing.kind == "pair" else texts.named)(drawing.title, observed)
    pictures = _dots(numbers, drawing.of) if drawing.kind == "table" else _scatters(numbers, drawing.of)
    parts = tuple(Part(pictures=(picture,)) for picture in pictures)
    reading = NOTE if drawing.kind == "relation" else ""
    return [Figure(title=drawing.title, reading=reading, parts=parts)] if parts else []


def _runs(numbers: Numbers, drawing: Drawing) -> Iterator[Run]:
    """Yield every finished run of the drawing with its numbers to be drawn, by writer a run for each, and people's."""
    names, finished = numbers.writers(drawing.of), numbers.finished(drawing.of)
    for model, run in finished.items() if drawing.people != "alone" else ():
        parts = {model: run.result.estimates}
        if drawing.by_writer:
            by_writer = run.observations.parts(lambda item: str(item.meta["generator"])).items()
            parts = {f"{model} about {names.get(name, name)}": _scored(run, part, drawing) for name, part in by_writer}
        for name, estimates in parts.items():
            chosen = [e for e in estimates if e.metric in drawing.metrics or not drawing.metrics]
            drawn = [e if drawing.hatches_few and _has_few(run.result, e) else stated(run.result, e) for e in chosen]
            yield _run(name, drawn, drawing)
    if drawing.people and finished:
        people = numbers.people if drawing.people == "alone" else {"people": [*chain(*numbers.people.values())]}
        run = next(iter(finished.values()))
        for name, choices in people.items():
            if choices:
                yield _run(name, [stated(run.result, e) for e in _scored(run, choices, drawing)], drawing)


def _run(name: str, estimates: Sequence[Estimate], drawing: Drawing) -> Run:
    if drawing.subset is not None:
        estimates = [msgspec.structs.replace(e, subset=None) for e in estimates if e.subset == drawing.subset]
    return Run(name=name, estimates=estimates)


def _has_few(result: Result, estimate: Estimate) -> bool:
    """Return whether the run and the axis of a number are assessable, so that only its own replies are too few."""
    return result.fault is None and (estimate.axis or "") not in result.axes_not_assessable


def _scored(run: Finished, observations: Sequence[Observation], drawing: Drawing) -> list[Estimate]:
    options = directory.read_manifest(run.path).options
    formed = cells(options, registry.find(options.suite), observations)
    return [estimate(cell, seed=options.seed) for cell in formed if cell.metric in drawing.metrics]


def _dots(numbers: Numbers, name: str) -> Iterator[Picture]:
    table = numbers.recipe.table(name)
    for column in (columns := table.each_column()):
        cells = [
            (f"{model.name} {line.label}".strip(), numbers.cell(model, line, column, columns))
            for model in numbers.models
            for line in table.lines
        ]
        values = [0.0, *(cell.value for _, cell in cells if cell.value is not None)]
        chart = rows.Chart(
            title=column.heading,
            dots=[combine(rows.Dot, cell, name=name, words=spoken(cell)) for name, cell in cells],
            low=min(values),
            high=max(values) or 1.0,
            places=column.decimals,
        )
        yield Picture(title=column.heading, svg=in_both_widths(partial(rows.draw, chart)))


def _scatters(numbers: Numbers, name: str) -> Iterator[Picture]:
    relation = next(relation for relation in numbers.recipe.relations if relation.id == name)
    for attribute in (attribute for attribute in relation.against if attribute in NAMES):
        title = f"{relation.column} by {NAMES[attribute]}"
        spots = [
            combine(Spot, cell, name=model.name, across=at, words=spoken(cell))
            for model, cell in numbers_of(numbers, relation)
            if not model.is_copy and (at := place_of(model, attribute)) is not None
        ]
        svg = in_both_widths(partial(draw_spots, title, spots, attribute))
        yield Picture(title=title, svg=svg)
