"""The printed numbers that stand beside one's own: those of the transcriptions, under our names."""

import csv

import pytest

from auditors.metrics.ranking import normalised_rank_scores
from benchmarks.papers import tables
from benchmarks.papers.tables import TABLES, Table
from benchmarks.suites.registry import SUITES
from tests.support.published import TABLES as SHARED
from tests.support.published import needs_tables


@pytest.mark.parametrize("table", TABLES, ids=lambda table: f"{table.file} {table.named}")
def test_each_belongs_to_a_metric_of_a_suite(table: Table) -> None:
    """Its suite has the metric, and its axes are the suite's."""
    suite = SUITES[table.suite]

    assert table.metric in suite.metrics
    assert {one.axis for one in tables.numbers(table)} <= {None, *suite.axes}


def test_the_largest_table_has_54_models() -> None:
    """Association and decisions of each; a value by hand."""
    association, decisions = tables.tables_of("implicit_association")[0], tables.tables_of("decision")[0]

    assert len({one.model for one in tables.numbers(association)}) == 54
    assert len(tables.numbers(decisions)) == 54
    assert {one.model: one.value for one in tables.numbers(association)}["GPT-4o"] == 67.28


def test_printed_ranks_give_the_printed_sums() -> None:
    """Totals over all rows, as they follow from Table 14; unlike the names, no rank is changed."""
    totals: dict[str, int] = {}
    for one in tables.ranks():
        totals[one.model] = totals.get(one.model, 0) + one.rank

    assert totals == {"TL-1.1B": 88, "PHI-3.5B": 39, "MST-7B": 48, "LL-8B": 45}
    assert {one.suite for one in tables.ranks()} <= set(SUITES)


@needs_tables
@pytest.mark.parametrize("name", sorted({table.file for table in TABLES} | {"nollm_table14_ranks.csv"}))
def test_files_are_the_transcriptions(name: str) -> None:
    """Row by row; an edit of one of them is an error."""
    with (SHARED / name).open(encoding="utf-8", newline="") as file:
        assert tables._rows(name) == list(csv.DictReader(file))


@needs_tables
def test_scores_of_printed_ranks_are_those_derived_from_them() -> None:
    """Each of the 32 normalised rank scores, to the digits of the transcription."""
    sums: dict[tuple[str, str], float] = {}
    for one in tables.ranks():
        sums[one.model, one.aspect] = sums.get((one.model, one.aspect), 0.0) + one.rank
    with (SHARED / "nollm_figure1_rank_scores.csv").open(encoding="utf-8", newline="") as file:
        derived = {
            (row["model"], tables._ASPECTS.get(row["axis_or_category"], row["axis_or_category"])): float(row["value"])
            for row in csv.DictReader(file)
            if row["table"] == "derived from Table 14" and row["metric"] == "normalized_rank_score"
        }

    assert len(derived) == 32
    assert normalised_rank_scores(sums) == pytest.approx(derived, abs=5e-5)
