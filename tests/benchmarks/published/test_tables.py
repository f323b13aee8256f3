"""The printed numbers that stand beside one's own: those of the transcriptions, under our names."""

import pytest

from auditors.metrics.ranking import normalised_rank_scores
from benchmarks.published import tables
from benchmarks.published.tables import TABLES, Table
from benchmarks.suites.common.estimation import CellKey
from benchmarks.suites.registry import SUITES


@pytest.mark.parametrize("table", TABLES, ids=lambda table: f"{table.source} {table.named} {table.metric}")
def test_each_belongs_to_a_metric_of_a_suite(table: Table) -> None:
    """Its suite has the metric, the examples and the axes; its numbers lie on the metric's scale, each once a model."""
    suite, numbers = SUITES[table.suite], tables.numbers(table)

    assert {entry.key.metric for entry in numbers} == {table.metric}
    assert table.few_shot in suite.few_shots
    assert {entry.key.axis for entry in numbers} <= {None, *suite.axes}
    assert all(suite.scales[table.metric].low <= entry.value <= suite.scales[table.metric].high for entry in numbers)
    assert len({(entry.model, entry.key) for entry in numbers}) == len(numbers) > 0


@pytest.mark.parametrize(
    ("suite", "model", "key", "value"),
    [
        ("cogs", "LLaMA-2", CellKey("representative_bias_score", "race"), 0.0413),
        ("cogs", "Mixtral", CellKey("affinity_bias_score", "sexual_orientation"), 0.002),
        ("implicit_association", "GPT-4o", CellKey("absolute_mean"), 67.28),
        ("decision", "GPT-3.5-turbo", CellKey("bias_score"), 98.62),
        ("ltf_test", "Mistral", CellKey("dob_table", "gender", subset="eval"), 0.314),
        ("ltf_test", "Mistral", CellKey("absolute_discrimination", "socioeconomic", subset="eval"), 0.694),
        ("stereoset", "LL-8B", CellKey("ss", "religion", subset="intrasentence"), 60.0),
        ("stereoset", "PHI-3.5B", CellKey("icat", "race", subset="intersentence"), 88.32),
        ("winobias", "MST-7B", CellKey("male_female_difference", "gender", subset="type1"), 49.62),
        ("unqover", "LL-8B", CellKey("pn_difference", "gender", "male"), -17.9),
        ("unqover", "PHI-3.5B", CellKey("positive_share", "race", "native_american"), 6.5),
        ("unqover", "MST-7B", CellKey("unrelated_rate", "religion", subset="negative"), 15.9),
        ("unqover", "MST-7B", CellKey("negative_share", "nationality", "dominica"), 1.12),
        ("crows_pairs", "LL-8B", CellKey("lms", "socioeconomic"), 79.07),
        ("real_toxicity_prompts", "LL-8B", CellKey("share", "religion", "buddhism"), 11.92),
        ("eec", "TL-1.1B", CellKey("intensity_difference", "gender", "male", "female", "anger"), 3.48),
        ("eec", "LL-8B", CellKey("mean_intensity", "race", "european_american", None, "sad"), 57.34),
        ("eec", "PHI-3.5B", CellKey("mean_intensity", "gender", "male", None, "sad/sad"), 70.04),
    ],
)
def test_a_printed_number_stands_under_our_name(suite: str, model: str, key: CellKey, value: float) -> None:
    """Read from the papers by hand, without examples and mitigation."""
    plain = [table for table in tables.tables_of(suite) if (table.few_shot, table.mitigation) == (0, "none")]

    assert [
        entry.value for table in plain for entry in tables.numbers(table) if (entry.model, entry.key) == (model, key)
    ] == [value]


@pytest.mark.parametrize(
    ("suite", "few_shot", "mitigation", "key", "value"),
    [
        ("ltf_test", 0, "abstract", CellKey("absolute_discrimination", subset="eval"), 0.698 - 0.208),
        ("ltf_test", 0, "detailed", CellKey("absolute_discrimination", subset="eval"), 0.698 - 0.389),
        ("winobias", 4, "none", CellKey("male_female_difference", "gender", subset="type2"), 36.87 - 51.45),
    ],
)
def test_changes_and_examples_are_tables_of_their_own(
    suite: str, few_shot: int, mitigation: str, key: CellKey, value: float
) -> None:
    """A printed change is added to the number without mitigation; shares under few examples are subtracted."""
    mistral = ("Mistral", "MST-7B")
    (table,) = (
        table
        for table in tables.tables_of(suite)
        if (table.few_shot, table.mitigation, table.metric) == (few_shot, mitigation, key.metric)
    )

    assert [entry.value for entry in tables.numbers(table) if entry.model in mistral and entry.key == key] == [
        pytest.approx(value)
    ]


def test_the_largest_table_has_54_models() -> None:
    """Association, decisions and the average of both of each."""
    assert [len(tables.numbers(table)) for table in TABLES if table.suite in ("implicit_association", "decision")] == [
        54,
        54,
        54,
    ]


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
