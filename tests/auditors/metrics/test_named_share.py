"""Shares of replies that name a group, against hand-worked counts and tables 10 and 17 of the No-LLM paper."""

import csv
import math
from collections import defaultdict

import numpy as np
import pytest

from auditors.metrics.suite_scores import named_share, positive_negative_difference
from tests.support.published import TABLES, needs_tables

Cells = dict[tuple[str, str, str], float]
"""(model, axis/group, metric) to the printed value."""


def table(name: str) -> tuple[Cells, dict[tuple[str, str, str], str]]:
    """Printed values of a table, and the notes on them."""
    with (TABLES / name).open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    keys = [(row["model"], row["axis_or_category"], row["metric"]) for row in rows]
    notes = {key: row["note"] for key, row in zip(keys, rows, strict=True) if row["note"]}
    return {key: float(row["value"]) for key, row in zip(keys, rows, strict=True)}, notes


def test_hand_worked() -> None:
    """1,665 of 5,000 is 33.3; 33.3 less 51.1 is -17.8."""
    assert float(named_share(1665, 5000)) == pytest.approx(33.3)
    assert float(positive_negative_difference(1665, 5000, 2555, 5000)) == pytest.approx(-17.8)


def test_ends() -> None:
    """Only for good is 100, only for bad -100, as often for both 0."""
    assert float(positive_negative_difference(10, 10, 0, 10)) == 100.0
    assert float(positive_negative_difference(0, 10, 10, 10)) == -100.0
    assert float(positive_negative_difference(3, 10, 6, 20)) == 0.0


def test_undefined_is_not_zero() -> None:
    """Without replies there is no share, and without one kind of question no difference."""
    assert math.isnan(float(named_share(0, 0)))
    assert math.isnan(float(positive_negative_difference(0, 0, 1, 2)))
    assert math.isnan(float(positive_negative_difference(1, 2, 0, 0)))


def test_arrays() -> None:
    """Rows are worked out one by one."""
    assert named_share(np.array([1.0, 0.0, 0.0]), np.array([4.0, 5.0, 0.0])) == pytest.approx(
        [25.0, 0.0, math.nan], nan_ok=True
    )


@needs_tables
@pytest.mark.parametrize(
    ("name", "tolerance"), [("nollm_table10_unqover.csv", 0.1), ("nollm_table17_unqover_nationality.csv", 0.0)]
)
def test_published_differences(name: str, tolerance: float) -> None:
    """P-N follows from the printed shares: exactly in table 17, within 0.1 in table 10, which prints one decimal."""
    values, _ = table(name)
    differences = [key for key in values if key[2] == "P_minus_N"]

    for model, group, metric in differences:
        positive, negative = values[model, group, "pos_pct"], values[model, group, "neg_pct"]
        found = float(positive_negative_difference(positive, 100, negative, 100))
        assert found == pytest.approx(values[model, group, metric], abs=tolerance + 1e-9), (model, group)
    assert len(differences) == {"nollm_table10_unqover.csv": 72}.get(name, 69 * 4)


@needs_tables
def test_table_17_cells_are_counts_of_5000() -> None:
    """Every printed share is a whole number of replies to 5,000 questions, and no column exceeds 100."""
    values, _ = table("nollm_table17_unqover_nationality.csv")
    sums: defaultdict[tuple[str, str], float] = defaultdict(float)
    for (model, _, metric), value in values.items():
        if metric != "P_minus_N":
            assert value * 50 == pytest.approx(round(value * 50), abs=1e-9)
            sums[model, metric] += value

    assert len(sums) == 8
    assert all(total <= 100 for total in sums.values())


COLUMNS = [
    pytest.param(
        model,
        axis,
        metric,
        marks=[pytest.mark.xfail(reason="X-NLF-7: the column sums to 95.8", strict=True)]
        if (model, axis, metric) == ("PHI-3.5B", "race", "pos_pct")
        else [],
    )
    for model in ("TL-1.1B", "PHI-3.5B", "MST-7B", "LL-8B")
    for axis in ("gender", "religion", "race")
    for metric in ("pos_pct", "neg_pct")
]


@needs_tables
@pytest.mark.parametrize(("model", "axis", "metric"), COLUMNS)
def test_table_10_columns_sum_to_100(model: str, axis: str, metric: str) -> None:
    """Groups and unrelated replies are all replies, to 0.05 per printed cell."""
    values, _ = table("nollm_table10_unqover.csv")
    column = [
        value for key, value in values.items() if key[0] == model and key[2] == metric and key[1].startswith(axis)
    ]

    assert sum(column) == pytest.approx(100, abs=0.05 * len(column))


COUNTRIES = [
    pytest.param("russia", marks=[pytest.mark.xfail(reason="X-NLF-14: region printed as 'ea'", strict=True)]),
    "moldova",
    "iran",
    "haiti",
]


@needs_tables
@pytest.mark.parametrize("country", COUNTRIES)
def test_table_17_regions_are_in_the_legend(country: str) -> None:
    """The region printed beside a country is one the table explains."""
    values, notes = table("nollm_table17_unqover_nationality.csv")
    keys = [key for key in values if key[1].split("/")[1] == country]

    assert len(keys) == 12
    assert not any("not in legend" in notes.get(key, "") for key in keys)


@needs_tables
@pytest.mark.xfail(reason="X-NLF-9: LL-8B has the largest differences for gender, not the smallest", strict=True)
def test_llama_has_the_smallest_gender_difference() -> None:
    """What the paper's text says about table 10."""
    values, _ = table("nollm_table10_unqover.csv")
    sizes = {
        model: max(abs(values[model, f"gender/{group}", "P_minus_N"]) for group in ("male", "female"))
        for model in ("TL-1.1B", "PHI-3.5B", "MST-7B", "LL-8B")
    }

    assert min(sizes, key=lambda model: sizes[model]) == "LL-8B"
