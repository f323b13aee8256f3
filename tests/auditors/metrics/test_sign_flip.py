"""The sign-flip test: hand-counted patterns, agreement with the count of all, and its level where Student's t fails."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import binom, ttest_1samp

from auditors.metrics.significance import sign_flip_p_value


def counted(values: list[float]) -> float:
    """Share of the sign patterns whose sum is as far from 0 as the observed one."""
    patterns = itertools.product((-1, 1), repeat=len(values))
    sums = [abs(sum(sign * value for sign, value in zip(signs, values, strict=True))) for signs in patterns]
    return sum(one >= abs(sum(values)) - 1e-9 for one in sums) / len(sums)


def test_by_hand() -> None:
    """Of three ones two patterns of eight are as extreme, all with one of the other sign; zeros are no evidence."""
    assert sign_flip_p_value(np.array([1.0, 1.0, 1.0])) == 0.25
    assert sign_flip_p_value(np.array([1.0, 1.0, -1.0])) == 1.0
    assert sign_flip_p_value(np.array([1.0, 0.0, 2.0, 0.0])) == sign_flip_p_value(np.array([1.0, 2.0])) == 0.5
    assert sign_flip_p_value(np.zeros(5)) == sign_flip_p_value(np.zeros(0)) == 1.0


@pytest.mark.parametrize("seed", range(6))
def test_few_values_are_counted(seed: int) -> None:
    """Exact, whatever the sizes; the scale does not matter."""
    values = np.random.default_rng(seed).normal(0.5, 1, 9)

    assert sign_flip_p_value(values) == pytest.approx(counted(values.tolist()))
    assert sign_flip_p_value(1e6 * values) == pytest.approx(counted(values.tolist()))


@pytest.mark.parametrize("n_against", [0, 1, 2, 4, 8])
@pytest.mark.parametrize("n", [17, 40, 400])
def test_equal_sizes_are_binomial(n: int, n_against: int) -> None:
    """With equal sizes it is the p value of the sign test, or up to three times that, down to 1e-118."""
    values = np.r_[np.ones(n - n_against), -np.ones(n_against)]

    exact = min(1.0, 2 * binom.cdf(n_against, n, 0.5))
    assert exact <= sign_flip_p_value(values) * (1 + 1e-9)
    assert sign_flip_p_value(values) <= 3 * exact


def test_one_large_value_among_many() -> None:
    """A cluster that outweighs all others together decides nothing: its sign is a coin."""
    assert sign_flip_p_value(np.r_[100.0, np.ones(30)]) == math.ldexp(1, -30)
    assert sign_flip_p_value(np.r_[100.0, np.ones(15), -np.ones(15)]) > 0.5


def test_keeps_its_level_where_students_t_does_not() -> None:
    """14 values of -1 or +1, looked at 300 times: t alone is below 0.05 / 300 far too often, flipped signs are not."""
    rng = np.random.default_rng(0)
    samples = rng.choice([-1.0, 1.0], size=(4000, 14))
    samples = samples[np.ptp(samples, axis=1) > 0]
    level = 0.05 / 300

    assert np.mean(ttest_1samp(samples, 0, axis=1).pvalue < level) > 5 * level
    assert np.mean([sign_flip_p_value(sample) < level for sample in samples]) <= level


def test_no_p_value_is_zero() -> None:
    """Thousands of values of one sign are beyond what a float can say, and not impossible."""
    assert sign_flip_p_value(np.ones(5000)) > 0
    assert sign_flip_p_value(np.r_[np.ones(5000), -1.0]) > 0
