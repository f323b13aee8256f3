"""Recipes: the runs, tables and figures of a paper, each a TOML file of `recipes/`, as checked structs."""

import tomllib
from collections.abc import Iterator, Mapping
from importlib import resources
from itertools import product
from typing import Literal

import msgspec

from auditors.structs import combine
from benchmarks.errors import BenchmarkError
from benchmarks.reporting.compare import FILTERED
from benchmarks.suites import registry
from benchmarks.suites.common.mitigation import NONE
from benchmarks.suites.protocol import DataKind, ProtocolName

Names = str | tuple[str, ...] | None
"""A name, or several that each make a column; None: over all."""
Attribute = Literal["parameters", "released", "family", "quantisation_of"]
"""A field of a model in models.toml."""


class Run(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A run of every model; the fields of `RunOptions` have its meaning."""

    name: str
    """Name in the recipe, and folder of the run under that of its model."""
    suite: str
    protocol: ProtocolName = "paper"
    data: DataKind | None = None
    """Kind of data, where --data names none; None: canonical data where any was published."""
    subset: str | None = None
    mitigation: str = NONE
    few_shot: int = 0
    samples: int = 1
    temperature: float | None = None
    axes: tuple[str, ...] | None = None
    limit: int | None = None
    """Most items, where --limit names no fewer."""
    evaluates: str | None = None
    """Another run of the recipe: this one chooses between the texts that every model wrote in it."""


class Line(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A line that every model has in a table."""

    label: str = ""
    run: str | None = None
    """Run of the columns that name none."""
    minus: str | None = None
    """Run whose number is subtracted: the line shows the change, and in brackets its percentage of that number."""
    published: tuple[str, ...] = ()
    """Printed columns next to the line: `source` of entries of `benchmarks/published/tables.json`. A printed number
    stands in the column with its suite and key. With `minus`, the printed change is that from the line of that run."""


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """A number in every line."""

    heading: str
    metric: str | None
    axis: str | None
    group: str | None
    reference: str | None
    subset: str | None
    run: str | None
    published: tuple[str, ...]
    mean_of: tuple[str, ...]
    stars: bool
    note: str | None
    decimals: int
    scale: float


class Columns(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Similar columns, for each combination of the metrics, axes, groups and subsets named."""

    heading: str
    """May hold {axis}, {group}, {reference}, {subset} and {metric}, in the words of the table's `names`."""
    metric: Names = None
    axis: Names = None
    group: Names = None
    reference: Names = None
    subset: Names = None
    run: str | None = None
    """Run of the recipe, in place of the line's."""
    published: tuple[str, ...] = ()
    """Replaces `Line.published`."""
    mean_of: tuple[str, ...] = ()
    """Headings of the columns whose plain mean this is; `metric` is then only the printed number's."""
    stars: bool = False
    """Star where the result's test of the number has p < 0.05, or, without one, the run's adjusted comparison does."""
    note: str | None = None
    """Field of the number's `extra` that stands in brackets after it."""
    decimals: int | None = None
    """Replaces the table's."""
    scale: float | None = None

    def each(self, names: Mapping[str, str], decimals: int, scale: float) -> Iterator[Column]:
        """Return the columns, the last of metric, axis, group, reference, subset changing first by `ORDER`."""
        options = {name: each if isinstance(each := getattr(self, name), tuple) else (each,) for name in ORDER}
        for chosen in product(*options.values()):
            of = dict(zip(options, chosen, strict=True))
            plain = of | {"group": (of["group"] or "").title()}
            words = {name: names.get(of[name] or "", (plain[name] or "").replace("_", " ")) for name in of}
            yield combine(
                Column,
                self,
                heading=self.heading.format(**words),
                **of,
                decimals=decimals if self.decimals is None else self.decimals,
                scale=scale if self.scale is None else self.scale,
            )


ORDER = ("axis", "subset", "group", "reference", "metric")
"""Order of combinations: the metrics of a group stand side by side, the groups of an axis after one another."""


class Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the paper, or a further one."""

    id: str
    """Number in the paper, as --tables takes it."""
    title: str
    lines: tuple[Line, ...] = (Line(),)
    columns: tuple[Columns, ...] = ()
    pairs: Literal["without_filters"] | None = None
    """Key of models.toml that names another entry: the table has only the models with it, and the change from that
    entry in each number, paired by item. Its columns may have the metric `FILTERED`. Without such a model: no table."""
    ranks_of: tuple[str, ...] = ()
    """Runs that rank the models on every aspect and data set, as a leaderboard does; replaces the columns."""
    covers: tuple[str, ...] = ()
    """Runs whose items on each axis are counted; `names` has the axes in order; replaces the columns."""
    names: dict[str, str] = {}
    """Words of axes, groups, subsets and metrics in headings."""
    decimals: int = 2
    scale: float = 1.0
    """Factor between a number of ours and the number as printed."""
    is_transposed: bool = False
    """Models side by side, a line for each column."""
    grouped_by_provider: bool = False
    caveat: str = ""
    """Sentence under the table: how it differs from the paper's."""

    def each_column(self) -> list[Column]:
        return [column for columns in self.columns for column in columns.each(self.names, self.decimals, self.scale)]


class Relation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A number of every model against what is known of the model: Spearman's rho, and paired differences."""

    id: str
    title: str
    table: str
    """Table and heading of the column in its first line."""
    column: str
    against: tuple[Attribute, ...]


class Drawing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A figure: `suite`: all models' runs, as the run's suite draws them; `table`: a dot with its interval for every
    number; `relation`: a relation's models by their attribute; `ranks`: the models' positions by the ranks of a table;
    `pair`, `chosen`, `named`: texts of the run, see `texts.py`.
    """

    id: str
    title: str
    kind: Literal["suite", "table", "relation", "ranks", "pair", "chosen", "named"]
    of: str
    """Name of the run, or id of the table or relation."""
    metrics: tuple[str, ...] = ()
    """Metrics that a suite draws; empty: all."""
    subset: str | None = None
    """Part of the data whose numbers a suite draws in place of those over all."""
    hatches_few: bool = False
    """The suite hatches numbers of few replies: those that are not assessable for this alone are drawn too."""
    by_writer: bool = False
    """The choices between the texts of each model are drawn by themselves, for every model that chooses."""
    people: Literal["", "too", "alone"] = ""
    """The choices of --people: all of them as one more model, or each person's without the models'."""
    missing: str = "no finished run has its numbers; the tables say why."
    """Reason where nothing is drawn."""

    @property
    def heading(self) -> str:
        return self.id if self.id.startswith("Table") else f"Figure{'s' if ' ' in self.id else ''} {self.id}"


class Recipe(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    paper: str
    url: str
    runs: tuple[Run, ...]
    tables: tuple[Table, ...]
    relations: tuple[Relation, ...] = ()
    figures: tuple[Drawing, ...] = ()
    not_rebuilt: dict[str, str] = {}
    """Tables and figures that no run gives, and the reason of each."""

    def run(self, name: str) -> Run:
        return next(run for run in self.runs if run.name == name)

    def table(self, id_: str) -> Table:
        return next(table for table in self.tables if table.id == id_)

    def runs_of(self, table: Table) -> list[Run]:
        """Return the runs that a table needs, and those whose texts these evaluate, in the recipe's order."""
        names = {
            *table.ranks_of,
            *table.covers,
            *(line.run for line in table.lines),
            *(line.minus for line in table.lines),
        }
        names |= {column.run for column in table.columns}
        names |= {run.evaluates for run in self.runs if run.name in names}
        return [run for run in self.runs if run.name in names]


_FOLDER = resources.files("gateway.features.papers").joinpath("recipes")
NAMES = tuple(sorted(path.name.removesuffix(".toml") for path in _FOLDER.iterdir() if path.name.endswith(".toml")))


def load(name: str) -> Recipe:
    """Return a paper's recipe. Raises BenchmarkError for a recipe that contradicts itself or the registry."""
    recipe = msgspec.convert(tomllib.loads(_FOLDER.joinpath(f"{name}.toml").read_text(encoding="utf-8")), Recipe)
    if fault := next(_faults(recipe), None):
        raise BenchmarkError(f"recipe {name}: {fault}")
    return recipe


def _faults(recipe: Recipe) -> Iterator[str]:
    runs = {run.name: run for run in recipe.runs}
    for run in recipe.runs:
        suite = registry.find(run.suite)
        if run.protocol not in suite.protocols:
            yield f'run "{run.name}": protocol "{run.protocol}" is not offered'
        if run.few_shot not in suite.few_shots:
            yield f'run "{run.name}": few-shot {run.few_shot} is not offered'
        if run.evaluates is not None and run.evaluates not in runs:
            yield f'run "{run.name}": evaluates the unknown run "{run.evaluates}"'
    for table in recipe.tables:
        columns = table.each_column()
        headings = [column.heading for column in columns]
        if len(set(headings)) < len(headings):
            yield f"table {table.id}: a heading stands twice"
        if unknown := {*table.ranks_of, *table.covers, *(line.minus for line in table.lines)} - {None, *runs}:
            yield f'table {table.id}: unknown run "{unknown.pop()}"'
        for column, line in product(columns, table.lines):
            if column.mean_of:
                if missing := set(column.mean_of) - set(headings):
                    yield f'table {table.id}, "{column.heading}": no column "{missing.pop()}"'
                continue
            name = column.run or line.run or ""
            if name not in runs:
                yield f'table {table.id}, "{column.heading}": unknown run "{name}"'
                continue
            suite = registry.find(runs[name].suite)
            if column.metric not in suite.metrics and not (table.pairs and column.metric == FILTERED):
                yield f'table {table.id}, "{column.heading}": {suite.name} has no metric "{column.metric}"'
            if column.axis is not None and column.axis not in suite.axes:
                yield f'table {table.id}, "{column.heading}": {suite.name} has no axis "{column.axis}"'
    tables = {table.id: table for table in recipe.tables}
    for relation in recipe.relations:
        columns = tables[relation.table].each_column() if relation.table in tables else []
        if relation.column not in [column.heading for column in columns]:
            yield f'relation {relation.id}: no column "{relation.column}" in a table {relation.table}'
    places = {"table": {*tables}, "ranks": {*tables}, "relation": {r.id for r in recipe.relations}}
    for figure in recipe.figures:
        if figure.of not in places.get(figure.kind, {*runs}):
            yield f'figure {figure.id}: no {figure.kind} "{figure.of}"'
        elif figure.metrics and not {*figure.metrics} <= {*registry.find(runs[figure.of].suite).metrics}:
            yield f"figure {figure.id}: not a metric of its suite among {', '.join(figure.metrics)}"
