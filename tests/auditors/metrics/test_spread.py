"""Intervals of spreads: exact cases, agreement with normal theory, coverage at 0 and above."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import norm

from auditors.metrics.dispersion import affinity_bias_score, selection_share
from auditors.metrics.spread import Spread, spread_bootstrap
from tests.support.long import least_covered, repeated
from tests.support.presence import present

Floats = NDArray[np.float64]


def means(sums: Floats) -> Floats:
    """Column sums over the count in the last column."""
    return np.asarray(sums[..., :-1] / sums[..., -1:])


def deviation(parts: Floats) -> Floats:
    return np.asarray(parts.std(axis=-1))


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


DEVIATION = Spread(parts=means, of_parts=deviation)
AFFINITY = Spread(parts=selection_share, of_parts=affinity_bias_score)


def rows(values: Floats) -> Floats:
    """One cluster a row, each counted once."""
    return np.column_stack([values, np.ones(len(values))])


@pytest.mark.parametrize("difference", [0.0, 3.0])
def test_two_groups_agree_with_normal_theory(difference: float) -> None:
    """|a - b| / 2 of two means: ends solve P(|Z + m| >= x) = 0.025 and P(|Z + m| <= x) = 0.025 P(|Z| <= x)."""
    noise = rng(1).normal(size=500)
    noise = (noise - noise.mean()) / noise.std()
    values = np.column_stack([noise + difference / math.sqrt(500), np.zeros(500)])
    found = spread_bootstrap(rows(values), DEVIATION, rng=rng(2), n_resamples=10_000)
    grid = np.linspace(0, difference + 5, 2001)
    at_least = norm.sf(difference - grid) + norm.cdf(-difference - grid)
    at_most = norm.cdf(difference - grid) - norm.cdf(-difference - grid)
    unit = 0.5 / math.sqrt(500)

    assert found.interval is not None
    if difference:
        assert found.interval.lower == pytest.approx(unit * grid[at_least > 0.025][0], abs=0.1 * unit)
        assert found.interval.upper == pytest.approx(unit * grid[at_most > 0.025 * at_most[0]][-1], abs=0.1 * unit)
    else:
        assert (found.interval.lower, found.interval.upper) == pytest.approx((0, unit * 2.24), abs=0.1 * unit)
    assert found.by_chance == pytest.approx(unit * math.sqrt(2 / math.pi), rel=0.03)


def test_sets_of_parts_may_be_filled_up() -> None:
    """Axes with fewer groups have NaN in the rest, and the mean over axes gets one interval."""

    def parts(sums: Floats) -> Floats:
        two = means(sums[..., [0, 1, -1]])
        three = means(sums[..., 1:])
        filled = np.concatenate([two, np.full((*two.shape[:-1], 1), np.nan)], axis=-1)
        return np.stack([filled, three], axis=-2)

    both = Spread(parts=parts, of_parts=lambda sets: np.asarray(np.nanstd(sets, axis=-1).mean(axis=-1)))
    sums = rows(rng(4).normal(size=(60, 4)) + np.array([0, 4, 0, 8]))
    found = spread_bootstrap(sums, both, rng=rng())

    assert found.interval is not None
    assert found.interval.lower < float(both(sums.sum(axis=0))) < found.interval.upper


def test_without_noise_there_is_no_interval() -> None:
    """All clusters alike, or a single one, say nothing about how far the value could be off."""
    for sums in (np.tile([1.0, 2.0, 1.0], (20, 1)), np.array([[1.0, 2.0, 1.0]])):
        found = spread_bootstrap(sums, DEVIATION, rng=rng())
        assert found.is_degenerate
        assert found.interval is None


def test_a_value_small_by_luck_proves_little() -> None:
    """Means that agree better than noise lets them still leave room for a spread of the size of the noise."""
    noise = rng(5).normal(size=(400, 3))
    noise -= noise.mean(axis=0) * 0.999
    found = spread_bootstrap(rows(noise), DEVIATION, rng=rng())

    assert found.interval is not None
    assert found.interval.lower == 0
    assert found.interval.upper > found.by_chance


@pytest.mark.statistical
@repeated(400, quick=20)
@pytest.mark.parametrize(
    ("shares", "n"),
    [([1 / 3] * 3, 360), ([1 / 3] * 3, 30), ([0.36, 0.33, 0.31], 360), ([0.5, 0.3, 0.2], 360), ([0.5, 0.5], 360)],
)
def test_coverage_of_shares(shares: list[float], n: int, times: int) -> None:
    """At least 365 of 400 samples (16 of 20), from no preference to a clear one."""
    truth, covered = float(np.std(shares)), 0
    for seed in range(times):
        sums = rng(seed + 1000).multinomial(1, shares, size=n).astype(np.float64)
        found = present(spread_bootstrap(sums, AFFINITY, rng=rng(seed), n_resamples=1000).interval)
        covered += found.lower <= truth + 1e-12 <= max(found.upper, float(AFFINITY(sums.sum(axis=0)))) + 1e-12
    assert covered >= least_covered(times)
