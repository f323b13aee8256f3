"""Class shares and the male-female difference, against the papers' tables 9 and 15."""

import math

import pytest

from auditors.metrics.suite_scores import male_female_difference


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
