"""Cluster bootstrap, paired permutation and Holm's adjustment."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from auditors.metrics import bootstrap
from auditors.metrics.bootstrap import cluster_bootstrap, expanded_tail, holm, paired_swap_p_value
from tests.support.presence import present

Floats = NDArray[np.float64]


def ratio(sums: Floats) -> Floats:
    """Percentage of column 0 in column 1."""
    with np.errstate(invalid="ignore"):
        result: Floats = 100 * sums[..., 0] / sums[..., 1]
    return result


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_drawing_patterns_equals_drawing_clusters() -> None:
    """The fast form agrees with a readable loop over clusters drawn one by one, within Monte Carlo error."""
    sums = np.array([[1.0, 2], [0, 1], [3, 3], [1, 2], [0, 4], [2, 2], [1, 1], [0, 1], [2, 5], [1, 3]])
    draw = rng(1)
    slow = [ratio(sums[draw.integers(0, len(sums), len(sums))].sum(axis=0)) for _ in range(4_000)]
    tail = 100 * expanded_tail(10, 0.95)

    fast = cluster_bootstrap(sums, ratio, rng=rng(2), n_resamples=4_000)

    assert fast.interval is not None
    assert (fast.interval.lower, fast.interval.upper) == pytest.approx(np.percentile(slow, [tail, 100 - tail]), abs=2.0)


def test_many_different_clusters_are_drawn_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory has a bound however many clusters differ, and the draws are the same."""
    sums = np.array([[k, 3.0 * k] for k in range(1, 1_000)], dtype=np.float64)
    whole = bootstrap.resampled_sums(sums, rng=rng(), n_resamples=1_500)
    monkeypatch.setattr(bootstrap, "_NUMBERS_AT_ONCE", 100_000)

    assert bootstrap.resampled_sums(sums, rng=rng(), n_resamples=1_500) == pytest.approx(whole)


def test_expanded_tail_is_hesterbergs_for_ten_clusters_and_plain_for_many() -> None:
    """For n = 10 the tail is Φ(-sqrt(10 / 9) * 2.2622) = 0.0086; for n = 100,000 it is 0.025."""
    assert expanded_tail(10, 0.95) == pytest.approx(0.00855, abs=1e-4)
    assert expanded_tail(100_000, 0.95) == pytest.approx(0.025, abs=1e-5)


def test_one_cluster_has_no_interval() -> None:
    """Nothing can be resampled from one cluster."""
    found = cluster_bootstrap(np.array([[1.0, 2.0]]), ratio, rng=rng())

    assert found.interval is None
    assert found.is_degenerate


def test_undefined_resamples_are_counted_not_zero() -> None:
    """Resamples without a denominator are left out and counted: about (2/3)^3 of them here."""
    sums = np.array([[1.0, 1.0], [0, 0], [0, 0]])

    found = cluster_bootstrap(sums, ratio, rng=rng(), n_resamples=3000)

    assert found.n_undefined == pytest.approx(3000 * (2 / 3) ** 3, rel=0.1)
    assert present(found.interval).lower == 100.0


@pytest.mark.simulation
@pytest.mark.parametrize(("n_clusters", "size"), [(10, 46), (36, 54), (48, 1), (79, 54)])
def test_coverage_is_near_its_claim(n_clusters: int, size: int) -> None:
    """Between 92 % and 98 % of 500 intervals hold the planted 62 %; by chance a run misses that with p < 0.03."""
    draw, hits = rng(n_clusters), 0
    for _ in range(500):
        totals = np.full(n_clusters, size)
        sums = np.stack([draw.binomial(totals, 0.62), totals], axis=1).astype(np.float64)
        found = cluster_bootstrap(sums, ratio, rng=draw, n_resamples=1000).interval
        hits += found is not None and found.lower <= 62 <= found.upper

    assert 0.92 <= hits / 500 <= 0.98


class TestPairedSwap:
    """Permutation p value of a paired difference."""

    def test_exact_value_for_three_clusters(self) -> None:
        """Of 2^3 swaps of (0, 0, 0) and (1, 1, 1) of 1 only the two extreme ones are as far apart: p = 1/4."""
        zeros, ones = np.array([[0.0, 1.0]] * 3), np.array([[1.0, 1.0]] * 3)

        found = paired_swap_p_value(zeros, ones, ratio, rng=rng(), n_permutations=20_000)

        assert found == pytest.approx(0.25, abs=0.01)

    def test_undefined_difference_is_nan(self) -> None:
        """Without a denominator on one side there is no p value."""
        assert math.isnan(paired_swap_p_value(np.zeros((3, 2)), np.ones((3, 2)), ratio, rng=rng()))

    @pytest.mark.simulation
    def test_null_p_values_are_calibrated(self) -> None:
        """Under no difference at most about 5 % of p values are below 0.05 (400 seeded runs, failure < 1 %)."""
        draw, hits = rng(5), 0
        for _ in range(400):
            total = np.full(20, 10.0)
            a, b = (np.stack([draw.binomial(10, 0.5, 20).astype(np.float64), total], axis=1) for _ in range(2))
            hits += paired_swap_p_value(a, b, ratio, rng=draw, n_permutations=399) <= 0.05

        assert hits <= 32


class TestHolm:
    """Step-down adjustment."""

    def test_worked_example(self) -> None:
        """0.01, 0.04, 0.03 become 3 * 0.01, then max(0.03, 2 * 0.03) = 0.06, then max(0.06, 0.04) = 0.06."""
        assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])

    def test_undefined_is_not_a_comparison(self) -> None:
        """NaN stays NaN and does not make the others larger."""
        found = holm([math.nan, 0.04])

        assert math.isnan(found[0])
        assert found[1] == 0.04

    def test_unequal_shares(self) -> None:
        """0.01 with half of alpha, 0.012 and 0.04 with a quarter: 0.02, then 0.5 * 0.048, then 0.25 * 0.16."""
        assert holm([0.01, 0.012, 0.04], [2, 1, 1]) == pytest.approx([0.02, 0.024, 0.04])
