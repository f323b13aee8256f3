"""Resampling of stimuli within categories and of crossed factors: known variances, edges, and coverage."""

import numpy as np
import pytest
from numpy.typing import NDArray

from auditors.metrics.bootstrap import (
    cluster_bootstrap,
    crossed_bootstrap,
    crossed_noise,
    stratified_bootstrap,
    student_tail,
)
from tests.support.presence import present

Floats = NDArray[np.float64]


def mean(sums: Floats) -> Floats:
    """Of rows of (sum, count)."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(sums[..., 0] / sums[..., 1])


def of(values: Floats) -> Floats:
    """Rows for `mean`, one a value."""
    return np.stack([values.ravel(), np.ones(values.size)], axis=1)


def rng() -> np.random.Generator:
    return np.random.default_rng(7)


class TestStratified:
    def test_differences_between_strata_are_no_noise(self) -> None:
        """Two strata, 0 and 100 apart: the error is that within them, sqrt(sum of n_h s_h²) / n; a plain one is 25."""
        values = np.concatenate([np.tile([0.0, 2.0], 10), np.tile([100.0, 102.0], 10)])
        strata = np.repeat([0, 1], 20)
        found = stratified_bootstrap(of(values), strata, mean, rng=rng(), n_resamples=5_000)
        wanted = np.sqrt(2 * 20 * values[:20].var(ddof=1)) / 40

        assert found.standard_error == pytest.approx(wanted, rel=0.03)
        assert present(cluster_bootstrap(of(values), mean, rng=rng()).standard_error) > 7

    @pytest.mark.parametrize("strata", [np.arange(30), np.r_[np.zeros(29, np.intp), 1], np.zeros(30, np.intp)])
    def test_strata_of_one_row_are_taken_together(self, strata: NDArray[np.intp]) -> None:
        """Thirty strata of one row, one beside a larger one, or none at all: each is one whole, with its own noise."""
        values = np.random.default_rng(2).normal(size=30)
        found = stratified_bootstrap(of(values), strata, mean, rng=rng(), n_resamples=20_000)

        assert found.standard_error == pytest.approx(values.std(ddof=1) / np.sqrt(30), rel=0.03)

    def test_edges(self) -> None:
        """One row has no interval; equal rows are degenerate; shapes that do not fit are refused."""
        assert stratified_bootstrap(of(np.ones(1)), np.zeros(1, np.intp), mean, rng=rng()).interval is None
        assert stratified_bootstrap(of(np.ones(9)), np.zeros(9, np.intp), mean, rng=rng()).is_degenerate
        with pytest.raises(ValueError, match="must have shape"):
            stratified_bootstrap(of(np.ones(9)), np.zeros(8, np.intp), mean, rng=rng())


class TestCrossed:
    def test_variance_of_two_factors(self) -> None:
        """Mean of 30 x 40 cells: the variance on average over 60 draws is σa² / 30 + σb² / 40 + σ² / 1200."""
        random = np.random.default_rng(4)
        a, b = np.repeat(np.arange(30), 40), np.tile(np.arange(40), 30)
        found = []
        for _ in range(60):
            effects = random.normal(0, 1, 30)[a] + random.normal(0, 2, 40)[b] + random.normal(0, 3, 1200)
            noise = crossed_noise(of(effects), [a, b], lambda sums: mean(sums)[..., None])
            found.append(noise.variance[0])

        assert np.mean(found) == pytest.approx(1 / 30 + 4 / 40 + 9 / 1200, rel=0.1)

    def test_few_levels_have_few_degrees_of_freedom(self) -> None:
        """Nine levels that make nearly all of the variance: about eight degrees, and a wider interval."""
        random = np.random.default_rng(6)
        level = np.repeat(np.arange(9), 50)
        values = random.normal(0, 10, 9)[level] + random.normal(0, 0.1, 450)
        noise = crossed_noise(of(values), [level], lambda sums: mean(sums)[..., None])

        assert noise.degrees == pytest.approx(8, rel=0.05)
        assert student_tail(8, 0.95) == pytest.approx(0.01056, rel=0.01)

    def test_one_level_undefined_without_it(self) -> None:
        """A level that holds all there is to count leaves nothing when left out; what is left still has a variance."""
        sums = np.zeros((20, 2))
        sums[:10, 1] = 1
        sums[:5, 0] = 1
        level = np.repeat([0, 1], 10)
        noise = crossed_noise(sums, [level], lambda rows: mean(rows)[..., None])

        assert np.isfinite(noise.variance).all()
        assert crossed_bootstrap(sums, [level], mean, rng=rng()).interval is not None


@pytest.mark.simulation
def test_intervals_cover_where_rows_alone_do_not() -> None:
    """120 draws of 20 x 20 cells with both factors: 95 % intervals cover in 107 to 120; by rows in fewer than 80."""
    random, covered, by_rows = np.random.default_rng(9), 0, 0
    a, b = np.repeat(np.arange(20), 20), np.tile(np.arange(20), 20)
    for _ in range(120):
        sums = of(random.normal(0, 1, 20)[a] + random.normal(0, 1, 20)[b] + random.normal(0, 1, 400))
        found = present(crossed_bootstrap(sums, [a, b], mean, rng=random, n_resamples=500).interval)
        plain = present(cluster_bootstrap(sums, mean, rng=random, n_resamples=500).interval)
        covered += found.lower <= 0 <= found.upper
        by_rows += plain.lower <= 0 <= plain.upper

    assert 107 <= covered <= 120
    assert by_rows < 80
