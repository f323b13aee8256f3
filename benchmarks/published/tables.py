"""Reads numbers printed in the papers (sources: README here), always named as published; no paper prints intervals."""

import csv
from functools import cache
from importlib import resources
from typing import Any, Literal

import msgspec

from benchmarks.suites.common.estimation import CellKey
from benchmarks.suites.common.mitigation import NONE

NO_INTERVAL = "the paper prints no interval and no number of replies"


class Published(msgspec.Struct, frozen=True, kw_only=True):
    """One printed number."""

    model: str
    key: CellKey
    """Our number of the same; axis None over all axes."""
    value: float
    decimals: int
    mark: str = ""
    identity: str = ""
    """Identity in brackets after it."""
    provider: str = ""
    note: str
    """Note on numbers that do not add up in print; empty for most."""


class Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A column of a printed table that is a metric of ours."""

    paper: str
    """Authors and year."""
    name: str
    file: str
    named: str
    """Its metric in the file."""
    plus: str = ""
    """Metric in the file of which the printed number is the change."""
    minus: str = ""
    """Metric in the file that is taken away."""
    suite: str
    metric: str
    form: tuple[Literal["axis", "group", "subset", "provider", ""], ...] = ("axis",)
    """Parts of a row's name between slashes; subsets are joined, and a part without a name is left out."""
    axis: str | None = None
    group: str | None = None
    reference: str | None = None
    subset: str | None = None
    only: str = ""
    """Part that the names of its rows have."""
    without: str = ""
    """Part that the names of its rows do not have."""
    few_shot: int = 0
    mitigation: str = NONE
    readings: dict[str, float] = {}
    """Numbers meant by what cannot have been meant as printed."""
    caveat: str = ""
    """Differences from the metric as we report it."""

    @property
    def source(self) -> str:
        return f"{self.paper}, {self.name}"

    @property
    def about(self) -> str:
        """Return the part that all its numbers have, in brackets; empty for none."""
        parts = [name.replace("_", " ") for name in (None if self.reference else self.group, self.subset) if name]
        return f" ({', '.join(parts)})" if parts else ""


class PublishedRank(msgspec.Struct, frozen=True, kw_only=True):
    """Rank of a model on an aspect and data set; 1 = least biased."""

    model: str
    aspect: str
    suite: str
    rank: int


class _File(msgspec.Struct, frozen=True):
    names: dict[str, str | None]
    """Ours by the files', where they differ; None over all."""
    tables: list[dict[str, Any]]
    """Fields of a table, and `columns`: what differs in each."""


_FOLDER = resources.files("benchmarks.published")
_FILE = msgspec.json.decode(_FOLDER.joinpath("tables.json").read_bytes(), type=_File)
TABLES: tuple[Table, ...] = tuple(
    msgspec.convert({**{name: value for name, value in table.items() if name != "columns"}, **column}, Table)
    for table in _FILE.tables
    for column in table["columns"]
)
RANKS_SOURCE = "Kumar et al., No LLM is Free From Bias, Table 14"
_RANKS_FILE = "nollm_table14_ranks.csv"


def tables_of(suite: str) -> list[Table]:
    return [table for table in TABLES if table.suite == suite]


def numbers(table: Table) -> list[Published]:
    """Return the numbers as printed and in print's order, under our names."""
    rows = read_rows(table.file)
    values = {(row["metric"], row["model"], row["axis_or_category"]): row["value"] for row in rows}

    def value(metric: str, row: dict[str, str]) -> float:
        printed = values[metric, row["model"], row["axis_or_category"]] if metric else "0"
        return table.readings.get(printed, float(printed))

    published = []
    for row in rows:
        parts = row["axis_or_category"].split("/")
        if row["metric"] != table.named or (table.only and table.only not in parts) or table.without in parts:
            continue
        is_starred = values.get(("starred", row["model"], row["axis_or_category"])) == "1"
        _, has_identity, identity = row["note"].partition(" identity: ")
        published.append(
            Published(
                model=row["model"],
                key=_key(table, parts),
                value=round(value(table.named, row) + value(table.plus, row) - value(table.minus, row), 6),
                decimals=len(row["value"].partition(".")[2]),
                mark="*" if is_starred else "",
                identity=identity,
                provider=row["axis_or_category"] if table.form == ("provider",) else "",
                note="" if has_identity else row["note"],
            )
        )
    return published


def _key(table: Table, parts: list[str]) -> CellKey:
    names: dict[str, list[str]] = {"axis": [], "group": [], "subset": []}
    for label, part in zip(table.form, parts, strict=True):
        name = _our_name(part)
        if label in names and name is not None:
            names[label].append(name)
    axis, group, subset = ("/".join(words) or None for words in names.values())
    return CellKey(table.metric, axis or table.axis, group or table.group, table.reference, subset or table.subset)


def _our_name(part: str) -> str | None:
    return _FILE.names.get(part, part.replace(" ", "_"))


def ranks() -> list[PublishedRank]:
    """Table 14, in print's order. Its rule is not printed and ours does not reproduce it (protocols 3.8)."""
    rows = [(row, row["axis_or_category"].split("/")) for row in read_rows(_RANKS_FILE)]
    return [
        PublishedRank(
            model=row["model"], aspect=_our_name(aspect) or "", suite=_our_name(suite) or "", rank=int(row["value"])
        )
        for row, (aspect, suite) in rows
    ]


@cache
def read_rows(file: str) -> list[dict[str, str]]:
    return list(csv.DictReader(_FOLDER.joinpath(file).read_text(encoding="utf-8").splitlines()))
