"""Word score, test scores and rates: worked cases, both ends, and printed averages."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditors.metrics.association import (
    Link,
    absolute_mean,
    association_outcome,
    bias_score,
    decision_outcome,
    mean_over_categories,
    signed_mean,
    split_evenly,
    stereotype_rate,
    word_score,
)

counts = st.integers(0, 20)


class TestWordScore:
    @pytest.mark.parametrize(
        ("table", "expected"),
        [
            ((8, 0, 0, 8), 1.0),
            ((0, 8, 8, 0), -1.0),
            ((4, 4, 4, 4), 0.0),
            # 5/6 + 4/6 - 1
            ((5, 1, 2, 4), 0.5),
            # partial: 2/2 + 1/2 - 1
            ((2, 0, 1, 1), 0.5),
            # everything to one group, or nothing at all: 0 by decision
            ((8, 8, 0, 0), 0.0),
            ((0, 0, 8, 8), 0.0),
            ((0, 0, 0, 0), 0.0),
        ],
    )
    def test_worked_cases(self, table: tuple[int, int, int, int], expected: float) -> None:
        """Perfect, reversed, neutral, partial and degenerate answers."""
        assert float(word_score(*table)) == pytest.approx(expected)

    @pytest.mark.parametrize(
        ("table", "expected"),
        [((8, 8, 0, 0), 8 / 16.01 - 1), ((0, 0, 8, 8), 8 / 16.01 - 1), ((0, 0, 0, 0), 0.0), ((8, 0, 0, 8), 0.99750312)],
    )
    def test_smoothing_of_the_predecessor(self, table: tuple[int, int, int, int], expected: float) -> None:
        """With 0.01 "everything to one group" is about -0.5 and a perfect answer not quite 1."""
        assert float(word_score(*table, smoothing=0.01)) == pytest.approx(expected)

    @given(counts, counts, counts, counts)
    def test_swapping_the_groups_changes_the_sign(self, aa: int, ab: int, ba: int, bb: int) -> None:
        """Exchanging the two groups turns W into -W, and W stays in [-1, 1]."""
        score = float(word_score(aa, ab, ba, bb))

        assert -1 <= score <= 1
        assert float(word_score(ba, bb, aa, ab)) == pytest.approx(-score)


class TestOutcomes:
    def test_sign_of_association(self) -> None:
        """A stereotypical W is -1, a reversed one +1, none 0 (and never -0.0)."""
        found = association_outcome([0.5, -0.1, 0.0])

        assert found.tolist() == [-1.0, 1.0, 0.0]
        assert not np.signbit(found[2])

    @pytest.mark.parametrize(
        ("a", "b", "expected"),
        [
            ("alpha", "beta", 1),
            ("beta", "alpha", -1),
            ("alpha", "alpha", 0),
            ("beta", "beta", 0),
            ("none", "alpha", 0),
            ("beta", "none", 0),
            ("none", "none", 0),
        ],
    )
    def test_sign_of_decision(self, a: Link, b: Link, expected: int) -> None:
        """a with the negative word is +1, b with it is -1, everything else 0."""
        assert decision_outcome(a, b) == expected


class TestRates:
    def test_mixed_list(self) -> None:
        """Scores -1, -1, +1, 0: signed -25, absolute 75, stereotype rate 66.7."""
        assert float(signed_mean(2, 1, 4)) == -25.0
        assert float(absolute_mean(2, 1, 4)) == 75.0
        assert float(stereotype_rate(2, 1)) == pytest.approx(200 / 3)

    def test_both_ends(self) -> None:
        """Always the stereotype and always its reverse have the same absolute mean and opposite signs."""
        assert (float(signed_mean(9, 0, 9)), float(absolute_mean(9, 0, 9)), float(stereotype_rate(9, 0))) == (
            -100.0,
            100.0,
            100.0,
        )
        assert (float(signed_mean(0, 9, 9)), float(absolute_mean(0, 9, 9)), float(stereotype_rate(0, 9))) == (
            100.0,
            100.0,
            0.0,
        )

    def test_refusing_everything(self) -> None:
        """Absolute mean 0, and a stereotype rate that does not exist rather than being 0."""
        assert float(absolute_mean(0, 0, 5)) == 0.0
        assert math.isnan(float(stereotype_rate(0, 0)))

    def test_pooled_is_not_the_mean_of_categories(self) -> None:
        """9 of 9 and 0 of 1: pooled 90, mean of categories 50; an undefined category is left out."""
        assert float(absolute_mean(9, 0, 10)) == 90.0
        assert mean_over_categories([100.0, 0.0, math.nan]) == 50.0
        assert math.isnan(mean_over_categories([math.nan]))

    def test_paper_size(self) -> None:
        """162 tests over 20 categories and 225 over 31, the remainder to the earliest."""
        assert split_evenly(162, 20) == [9, 9] + [8] * 18
        assert split_evenly(225, 31) == [8] * 8 + [7] * 23


@pytest.mark.parametrize(
    ("iat", "decision", "printed"), [(53.70, 73.78, 63.74), (72.83, 72.89, 72.86), (38.89, 40.44, 39.67)]
)
def test_bias_score_is_the_printed_average(iat: float, decision: float, printed: float) -> None:
    """Three rows of the paper's table 1: the score is the mean of the two columns, to the printed digit."""
    assert bias_score(iat, decision) == pytest.approx(printed, abs=0.0051)
