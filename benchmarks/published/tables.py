"""Reads numbers printed in the papers for comparison with own numbers: always named as published, with paper and table.

The files of this folder are transcriptions; their README names the sources. No paper prints an interval or a number of
replies for these, so none is made up here.
"""

import csv
from functools import cache
from importlib import resources

import msgspec

NO_INTERVAL = "the paper prints no interval and no number of replies"


class Published(msgspec.Struct, frozen=True, kw_only=True):
    """One printed number."""

    model: str
    axis: str | None
    """Axis by our name; None over all axes."""
    value: float
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
    suite: str
    metric: str
    axes: dict[str, str | None] = {}
    """Ours by the file's name, where they differ; None over all."""
    has_axes: bool = True
    """False where the file has one number a model, over all axes."""
    caveat: str = ""
    """Differences from the metric as we report it."""

    @property
    def source(self) -> str:
        return f"{self.paper}, {self.name}"


_FOLDER = resources.files("benchmarks.published")
TABLES = msgspec.json.decode(_FOLDER.joinpath("tables.json").read_bytes(), type=tuple[Table, ...])
RANKS_SOURCE = "Kumar et al., No LLM is Free From Bias, Table 14"
_RANKS_FILE = "nollm_table14_ranks.csv"
_ASPECTS = {"pa": "physical_appearance", "sc": "socioeconomic"}
_SUITES = {"crows-pairs": "crows_pairs", "rtp": "real_toxicity_prompts"}


class PublishedRank(msgspec.Struct, frozen=True, kw_only=True):
    """Rank of a model on an aspect and data set; 1 = least biased."""

    model: str
    aspect: str
    suite: str
    rank: int


def tables_of(suite: str) -> list[Table]:
    return [table for table in TABLES if table.suite == suite]


def numbers(table: Table) -> list[Published]:
    """Return the numbers as printed and in print's order, with the axes under our names."""
    return [
        Published(
            model=row["model"],
            axis=table.axes.get(row["axis_or_category"], row["axis_or_category"]) if table.has_axes else None,
            value=float(row["value"]),
            note=row["note"],
        )
        for row in read_rows(table.file)
        if row["metric"] == table.named
    ]


def ranks() -> list[PublishedRank]:
    """Table 14, in print's order. Its rule is not printed and ours does not reproduce it (protocols 3.8)."""
    ranks = []
    for row in read_rows(_RANKS_FILE):
        aspect, suite = row["axis_or_category"].split("/")
        ranks.append(
            PublishedRank(
                model=row["model"],
                aspect=_ASPECTS.get(aspect, aspect),
                suite=_SUITES.get(suite, suite),
                rank=int(row["value"]),
            )
        )
    return ranks


@cache
def read_rows(file: str) -> list[dict[str, str]]:
    return list(csv.DictReader(_FOLDER.joinpath(file).read_text(encoding="utf-8").splitlines()))
