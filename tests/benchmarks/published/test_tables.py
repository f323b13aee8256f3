"""The printed numbers that stand beside one's own: those of the transcriptions, under our names."""

import pytest

from auditors.metrics.ranking import normalised_rank_scores
from benchmarks.published import tables
from benchmarks.published.tables import TABLES, Table
from benchmarks.suites.registry import SUITES


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


def test_printed_ranks_have_the_scores_of_their_formula() -> None:
    """Each of the 32 normalised rank scores: 0 for the lowest of all sums, 1 for the highest."""
    sums: dict[tuple[str, str], float] = {}
    for one in tables.ranks():
        sums[one.model, one.aspect] = sums.get((one.model, one.aspect), 0.0) + one.rank
    low, high = min(sums.values()), max(sums.values())

    assert len(sums) == 32
    assert normalised_rank_scores(sums) == pytest.approx({key: (n - low) / (high - low) for key, n in sums.items()})
