"""Inverse-probability weighting: hand-worked sums, closed forms, agreement with numpy, unbiasedness."""

import functools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditors.metrics.weighting import WeightedSums, add, hajek_mean, kish_effective_n, less, weighted_variance

samples = st.lists(st.tuples(st.floats(0, 1), st.floats(0.01, 1)), min_size=2, max_size=50)


def total(pairs: list[tuple[float, float]]) -> WeightedSums:
    return functools.reduce(lambda sums, pair: add(sums, *pair), pairs, WeightedSums())


def test_hand_worked_sample() -> None:
    """Values 1, 0 with probabilities 1/2, 1/4 stand for 2 and 4 exchanges."""
    sums = total([(1.0, 0.5), (0.0, 0.25)])

    assert hajek_mean(sums) == 2 / 6
    assert kish_effective_n(sums) == 36 / 20


def test_the_later_part_of_a_sample() -> None:
    """What is left of the sums of four values without those of the first two is the sums of the last two."""
    pairs = [(1.0, 0.5), (0.0, 0.25), (0.5, 1.0), (0.25, 0.5)]

    assert less(total(pairs), total(pairs[:2])) == total(pairs[2:])


def test_an_empty_sample_is_undefined() -> None:
    """No value gives NaN for the mean and the variance, 0 for what was counted."""
    empty = WeightedSums()

    assert math.isnan(hajek_mean(empty))
    assert math.isnan(weighted_variance(empty))
    assert kish_effective_n(empty) == 0.0


@given(samples)
def test_agrees_with_numpy_in_two_passes(pairs: list[tuple[float, float]]) -> None:
    """Running sums give what a two-pass computation gives."""
    y, w = np.array([p[0] for p in pairs]), 1 / np.array([p[1] for p in pairs])
    mean = np.average(y, weights=w)
    n_eff = w.sum() ** 2 / (w**2).sum()
    sums = total(pairs)

    assert hajek_mean(sums) == pytest.approx(mean, abs=1e-9)
    assert weighted_variance(sums) == pytest.approx(
        np.average((y - mean) ** 2, weights=w) * n_eff / (n_eff - 1), abs=1e-6
    )


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_value_that_is_not_finite_is_refused(value: float) -> None:
    """NaN never enters a sum."""
    with pytest.raises(ValueError, match="not finite"):
        add(WeightedSums(), value, 0.5)
