"""Shares of replies that name a group, against hand-worked counts and tables 10 and 17 of the No-LLM paper."""

import csv
import math

import numpy as np
import pytest

from auditors.metrics.suite_scores import percentage, positive_negative_difference
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
    assert float(percentage(1665, 5000)) == pytest.approx(33.3)
    assert float(positive_negative_difference(1665, 5000, 2555, 5000)) == pytest.approx(-17.8)


def test_ends() -> None:
    """Only for good is 100, only for bad -100, as often for both 0."""
    assert float(positive_negative_difference(10, 10, 0, 10)) == 100.0
    assert float(positive_negative_difference(0, 10, 10, 10)) == -100.0
    assert float(positive_negative_difference(3, 10, 6, 20)) == 0.0


def test_undefined_is_not_zero() -> None:
    """Without replies there is no share, and without one kind of question no difference."""
    assert math.isnan(float(percentage(0, 0)))
    assert math.isnan(float(positive_negative_difference(0, 0, 1, 2)))
    assert math.isnan(float(positive_negative_difference(1, 2, 0, 0)))


def test_arrays() -> None:
    """Rows are worked out one by one."""
    assert percentage(np.array([1.0, 0.0, 0.0]), np.array([4.0, 5.0, 0.0])) == pytest.approx(
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
