"""A number of every model against size, age, family and quantisation of the models."""

import math
from collections.abc import Sequence
from statistics import fmean

import numpy as np

from auditors.metrics.bootstrap import cluster_bootstrap
from auditors.metrics.ranking import spearman
from benchmarks.figures.display import number
from benchmarks.suites.common.estimation import MIN_CLUSTERS
from gateway.features.papers.models import Model
from gateway.features.papers.recipe import Attribute, Column, Line, Relation
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
            for cell in [_change(numbers, relation, model.quantisation_of, model.name)]
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
    pairs = [(at, cell.value) for model, cell in models if None not in (at := place_of(model, attribute), cell.value)]
    label = Label(text=f"Spearman's ρ with {NAMES[attribute]}", group="correlation")
    return [Row(label=label, cells=(_correlation([(x, y) for x, y in pairs if x is not None and y is not None]),))]


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
    cell = Cell(value=fmean(values), n=len(values), decimals=decimals, reason=TOO_FEW)
    sums = np.column_stack([values, np.ones(len(values))])
    ends = cluster_bootstrap(sums, _ratio, rng=np.random.default_rng(len(values))).interval
    if len(values) < MIN_CLUSTERS or ends is None:
        return cell
    return Cell(value=cell.value, lower=ends.lower, upper=ends.upper, n=cell.n, decimals=decimals)


def _ratio(sums: np.ndarray) -> np.ndarray:
    return np.asarray(sums[..., 0] / sums[..., 1])


def _number_of(numbers: Numbers, relation: Relation) -> tuple[Line, Column, list[Column]]:
    """Return line and column of a relation's number, and all columns of its table."""
    table = numbers.recipe.table(relation.table)
    columns = table.each_column()
    return table.lines[0], next(column for column in columns if column.heading == relation.column), columns


def numbers_of(numbers: Numbers, relation: Relation) -> list[tuple[Model, Cell]]:
    of = _number_of(numbers, relation)
    return [(model, numbers.cell(model, *of)) for model in numbers.models]


def _change(numbers: Numbers, relation: Relation, original: str, quantised: str) -> Cell:
    line, column, columns = _number_of(numbers, relation)
    return numbers.change(original, quantised, line, column, columns)


def spoken(cell: Cell) -> str:
    """Return the cell in words: number, interval and n, or why there is none."""
    if cell.value is None:
        return f"no number: {cell.reason}"
    ends = cell.reason or "no interval"
    if cell.lower is not None and cell.upper is not None:
        ends = f"95 % interval {number(cell.lower, cell.decimals)} to {number(cell.upper, cell.decimals)}"
    return f"{number(cell.value, cell.decimals)}, {ends}" + ("" if cell.n is None else f", n = {cell.n:,}")
