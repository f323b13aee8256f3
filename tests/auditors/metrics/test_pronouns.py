"""Class shares and the male-female difference, against the papers' tables 9 and 15."""

import csv
import math
from collections import defaultdict

import numpy as np
import pytest

from auditors.metrics.suite_scores import class_percentage, male_female_difference
from tests.support.published import TABLES, needs_tables

N_SENTENCES = 1584
CLASSES = ("male_pct", "female_pct", "neutral_pct", "unrelated_pct")
FILES = ("nollm_table9_winobias.csv", "nollm_table15_winobias_fewshot.csv")
DISCREPANCIES = {
    # (model, cell): (error id, class, printed, value that closes the column)
    ("PHI-3.5B", "gender/type1"): ("X-NLF-6", "unrelated_pct", 19.89, 20.08),
    ("PHI-3.5B", "gender/type1/4-shot"): ("X-NLF-5", "neutral_pct", 1.38, 0.38),
}
MISSING_ROW = "gender/type2/4-shot"
"""X-NLF-5: the unrelated row of these columns is not printed."""
IMPLIED_UNRELATED = {"TL-1.1B": 88.89, "PHI-3.5B": 0.39, "MST-7B": 11.68, "LL-8B": 6.69}


def columns() -> dict[tuple[str, str], dict[str, float]]:
    """Printed percentages by (model, cell) and class."""
    found: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for name in FILES:
        with (TABLES / name).open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                found[row["model"], row["axis_or_category"]][row["metric"]] = float(row["value"])
    return found


def test_shares() -> None:
    """1 of 4 is 25 %, by element; nothing of nothing is undefined."""
    assert class_percentage(np.array([1.0, 0.0, 0.0]), np.array([4.0, 4.0, 0.0])) == pytest.approx(
        [25.0, 0.0, math.nan], nan_ok=True
    )


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ((10, 0, 0, 10), 100.0),  # always male
        ((0, 10, 0, 10), -100.0),  # always female
        ((5, 5, 0, 10), 0.0),
        ((6, 2, 1, 10), 40.0),  # 100 * (6 - 2) / 10: the one without a pronoun stays in the denominator
        ((0, 0, 3, 10), 0.0),  # neutral replies are answers
    ],
)
def test_difference(counts: tuple[int, int, int, int], expected: float) -> None:
    """Hand-worked cases, both ends included."""
    assert float(male_female_difference(*counts)) == pytest.approx(expected)


def test_no_pronoun_at_all_is_undefined() -> None:
    """Ten replies and no pronoun: no preference can be measured, which is not a difference of 0."""
    assert math.isnan(float(male_female_difference(0, 0, 0, 10)))
    assert math.isnan(float(male_female_difference(0, 0, 0, 0)))


def test_swapping_the_groups_turns_the_sign() -> None:
    """The difference is antisymmetric for any counts."""
    rng = np.random.default_rng(1)
    male, female, neutral, other = rng.integers(0, 50, size=(4, 100)).astype(float)
    total = male + female + neutral + other

    there = male_female_difference(male, female, neutral, total)

    assert there == pytest.approx(-male_female_difference(female, male, neutral, total), nan_ok=True)
    assert np.nanmax(np.abs(there)) <= 100.0


@needs_tables
class TestPublished:
    """Tables 9 and 15 of "No LLM is Free From Bias"."""

    def test_columns_sum_to_100(self) -> None:
        """Every complete column does, within rounding, but for the two known errors."""
        for (model, cell), column in columns().items():
            if cell == MISSING_ROW or (model, cell) in DISCREPANCIES:
                continue
            assert len(column) == len(CLASSES)
            assert sum(column.values()) == pytest.approx(100, abs=0.03), (model, cell)

    @pytest.mark.parametrize("where", DISCREPANCIES, ids=[error for error, *_ in DISCREPANCIES.values()])
    def test_known_errors(self, where: tuple[str, str]) -> None:
        """X-NLF-5 and X-NLF-6: the printed column does not sum to 100; with the corrected cell it does."""
        _, kind, printed, closing = DISCREPANCIES[where]
        column = columns()[where]

        assert column[kind] == printed
        assert sum(column.values()) != pytest.approx(100, abs=0.1)
        assert sum((column | {kind: closing}).values()) == pytest.approx(100, abs=0.03)

    @pytest.mark.parametrize("model", IMPLIED_UNRELATED)
    def test_row_that_is_not_printed(self, model: str) -> None:
        """X-NLF-5: the unrelated share of the 4-shot type 2 columns follows from the other three."""
        column = columns()[model, MISSING_ROW]

        assert "unrelated_pct" not in column
        assert 100 - sum(column.values()) == pytest.approx(IMPLIED_UNRELATED[model], abs=0.005)

    def test_cells_are_shares_of_all_sentences(self) -> None:
        """Every printed share is a whole number of the 1,584 sentences of its type, rounded or cut to two decimals."""
        for (model, cell), column in columns().items():
            for kind, printed in column.items():
                if (model, cell) in DISCREPANCIES and DISCREPANCIES[model, cell][1] == kind:
                    continue
                count = round(printed / 100 * N_SENTENCES)
                again = float(class_percentage(count, N_SENTENCES))
                assert again == pytest.approx(printed, abs=0.0101), (model, cell, kind)

    def test_smallest_difference(self) -> None:
        """X-NLF-13: in type 1 LLaMA's difference (47.41) is smaller than Mistral's (49.62), against the prose."""
        printed = columns()
        found = {
            model: float(male_female_difference(column["male_pct"], column["female_pct"], column["neutral_pct"], 100))
            for model in ("LL-8B", "MST-7B")
            for column in [printed[model, "gender/type1"]]
        }

        assert found == pytest.approx({"LL-8B": 47.41, "MST-7B": 49.62})
