"""Numbers that the papers print, beside which one's own may stand: always named as published, with paper and table.

The files of `tables/` are transcriptions; their README names the sources. No paper prints an interval or a number of
replies for these, so none is made up here.
"""

import csv
from collections.abc import Mapping
from functools import cache
from importlib import resources

import msgspec

NO_INTERVAL = "the paper prints no interval and no number of replies"


class Paper(msgspec.Struct, frozen=True, kw_only=True):
    title: str
    """Authors and year."""
    url: str


class Published(msgspec.Struct, frozen=True, kw_only=True):
    """One printed number."""

    model: str
    axis: str | None
    """By our name; None over all axes."""
    value: float
    note: str
    """What does not add up in print; empty for most."""


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """A column of a printed table that is a metric of ours."""

    paper: Paper
    name: str
    file: str
    named: str
    """Its metric in the file."""
    suite: str
    metric: str
    axes: Mapping[str, str | None] = {}
    """Ours by the file's name, where they differ; None over all."""
    has_axes: bool = True
    """False where the file has one number a model, over all axes."""
    caveat: str = ""
    """What differs from the metric as we report it."""

    @property
    def source(self) -> str:
        return f"{self.paper.title}, {self.name}"


IMPLICIT = Paper(title="Kumar et al. 2024", url="https://arxiv.org/abs/2410.12864")
LONG_TEXT = Paper(title="Jeung et al. 2025", url="https://aclanthology.org/2025.findings-acl.1341")
NO_LLM = Paper(title="Kumar et al., No LLM is Free From Bias", url="")

_ANY_DIRECTION = (
    "Printed percentages behave as the share of tests with any direction, refusals as 0; a model that throws a coin "
    "has 100."
)
_LONG_TEXT_AXES = {"race_ethnicity": "race", "ses": "socioeconomic", "mean": None}
_LONG_TEXT_CAVEAT = "Refusals score 0 in print."
TABLES = (
    Table(
        paper=IMPLICIT,
        name="Table 1, IAT",
        file="implicit_table1.csv",
        named="iat_bias_pct",
        suite="implicit_association",
        metric="absolute_mean",
        has_axes=False,
        caveat=_ANY_DIRECTION,
    ),
    Table(
        paper=IMPLICIT,
        name="Table 1, Decision",
        file="implicit_table1.csv",
        named="decision_bias_pct",
        suite="decision",
        metric="absolute_mean",
        has_axes=False,
        caveat=_ANY_DIRECTION,
    ),
    Table(
        paper=LONG_TEXT,
        name="Table 2",
        file="ltf_table2_abs_discrimination.csv",
        named="AbsDisc",
        suite="ltf_test",
        metric="absolute_discrimination",
        axes=_LONG_TEXT_AXES,
        caveat=_LONG_TEXT_CAVEAT,
    ),
    Table(
        paper=LONG_TEXT,
        name="Table 1",
        file="ltf_table1_dob.csv",
        named="DoB",
        suite="ltf_test",
        metric="dob_table",
        axes=_LONG_TEXT_AXES,
        caveat=_LONG_TEXT_CAVEAT,
    ),
    Table(
        paper=NO_LLM,
        name="Table 11",
        file="nollm_table11_crows_pairs.csv",
        named="SS",
        suite="crows_pairs",
        metric="ss",
        axes={"socio_economic": "socioeconomic"},
    ),
)

RANKS_SOURCE = f"{NO_LLM.title}, Table 14"
_RANKS_FILE = "nollm_table14_ranks.csv"
_ASPECTS = {"pa": "physical_appearance", "sc": "socioeconomic"}
_SUITES = {"crows-pairs": "crows_pairs", "rtp": "real_toxicity_prompts"}


class PublishedRank(msgspec.Struct, frozen=True, kw_only=True):
    """Of one model on one aspect and data set; 1 = least biased."""

    model: str
    aspect: str
    suite: str
    rank: int


def tables_of(suite: str) -> list[Table]:
    return [table for table in TABLES if table.suite == suite]


def numbers(table: Table) -> list[Published]:
    """As printed and in print's order, with the axes under our names."""
    return [
        Published(
            model=row["model"],
            axis=table.axes.get(row["axis_or_category"], row["axis_or_category"]) if table.has_axes else None,
            value=float(row["value"]),
            note=row["note"],
        )
        for row in _rows(table.file)
        if row["metric"] == table.named
    ]


def ranks() -> list[PublishedRank]:
    """Table 14, in print's order. Its rule is not printed and ours does not reproduce it (protocols 3.8)."""
    found = []
    for row in _rows(_RANKS_FILE):
        aspect, suite = row["axis_or_category"].split("/")
        found.append(
            PublishedRank(
                model=row["model"],
                aspect=_ASPECTS.get(aspect, aspect),
                suite=_SUITES.get(suite, suite),
                rank=int(row["value"]),
            )
        )
    return found


@cache
def _rows(file: str) -> list[dict[str, str]]:
    text = resources.files("benchmarks.papers").joinpath("tables", file).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))
