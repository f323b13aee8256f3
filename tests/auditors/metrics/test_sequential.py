"""The interval and the e-detector: known cases, a readable reference, run lengths and coverage by seeded simulation."""

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditors.metrics.intervals import Interval
from auditors.metrics.sequential import BETS, empirical_bernstein_interval, log_mean_evidence, shiryaev_roberts_step

NOTHING = [0.0] * len(BETS)


class TestEmpiricalBernsteinInterval:
    def test_hand_worked_case(self) -> None:
        """n = 1000, V = .25, 95 %: sqrt(2 * .25 * ln 80 / 1000) + 7 ln 80 / 2997."""
        width = math.sqrt(0.5 * math.log(80) / 1000) + 7 * math.log(80) / (3 * 999)

        found = empirical_bernstein_interval(0.5, 0.25, 1000, 0.95)

        assert (found.lower, found.upper) == pytest.approx((0.5 - width, 0.5 + width))

    @pytest.mark.parametrize(("n", "variance"), [(0, math.nan), (1, math.nan), (1.0, 0.1), (50, math.nan)])
    def test_too_little_to_know(self, n: float, variance: float) -> None:
        """One value or none, or no variance, leaves the whole range."""
        assert empirical_bernstein_interval(0.5, variance, n, 0.95) == Interval(0.0, 1.0)

    @given(st.floats(0, 1), st.floats(0, 0.25), st.floats(0, 1e6), st.floats(0.01, 0.999))
    def test_bounds_hold_the_mean(self, mean: float, variance: float, n: float, level: float) -> None:
        """Bounds lie in [0, 1] around the mean."""
        found = empirical_bernstein_interval(mean, variance, n, level)

        assert 0 <= found.lower <= mean <= found.upper <= 1

    @pytest.mark.statistical
    @pytest.mark.parametrize("mean", [0.02, 0.1, 0.5])
    def test_coverage(self, mean: float) -> None:
        """At least 93.5 % of 2,000 95 % intervals hold the mean; at exactly 0.95 coverage this fails with p < 0.002."""
        rng = np.random.default_rng(11)
        samples = rng.random((2000, 100)) < mean
        held = 0
        for sample in samples:
            found = empirical_bernstein_interval(float(sample.mean()), float(sample.var(ddof=1)), 100, 0.95)
            held += found.lower <= mean <= found.upper

        assert held / 2000 >= 0.95


class TestShiryaevRobertsStep:
    def test_agrees_with_the_plain_recursion(self) -> None:
        """R <- (starts + R)(1 + bet w (y/m - 1)), for 300 random steps; naming one audit changes no digit."""
        rng = random.Random(5)
        plain, logs = np.zeros(8), NOTHING
        for _ in range(300):
            y, weight, starts = rng.random(), rng.choice([1.0, 0.25]), rng.choice([1, 2, 7])
            plain = (starts + plain) * (1 + np.geomspace(0.02, 0.9, 8) * weight * (y / 0.45 - 1))
            logs = shiryaev_roberts_step(logs, y, 0.45, weight, starts=starts)

        assert [math.expm1(s) for s in logs] == pytest.approx(plain.tolist(), rel=1e-9)
        assert log_mean_evidence(logs) == pytest.approx(math.log(plain.mean()), rel=1e-9)
        assert shiryaev_roberts_step(logs, 0.3, 0.45, starts=1) == shiryaev_roberts_step(logs, 0.3, 0.45)
        with pytest.raises(ValueError, match="one audit or more, not of 0"):
            shiryaev_roberts_step(logs, 0.3, 0.45, starts=0)

    def test_evidence_does_not_overflow(self) -> None:
        """A hundred thousand steps against a tiny limit stay finite."""
        logs = NOTHING
        for _ in range(2000):
            logs = shiryaev_roberts_step(logs, 1.0, 0.001)

        assert math.isfinite(log_mean_evidence(logs))
        assert log_mean_evidence(logs) > 700

    @given(st.lists(st.floats(0, 1), max_size=30), st.floats(0.01, 1), st.floats(0.01, 1))
    def test_evidence_stays_finite_and_positive(self, values: list[float], limit: float, weight: float) -> None:
        """Any values in range leave finite numbers, none negative."""
        logs = NOTHING
        for y in values:
            logs = shiryaev_roberts_step(logs, y, limit, weight)

        assert all(math.isfinite(s) and s >= 0 for s in logs)

    @pytest.mark.parametrize(("y", "limit", "weight"), [(1.1, 0.5, 1), (-0.1, 0.5, 1), (0.5, 0, 1), (0.5, 0.5, 1.5)])
    def test_values_out_of_range_are_refused(self, y: float, limit: float, weight: float) -> None:
        """Scores, limits and weights have ranges, and NaN is in none."""
        with pytest.raises(ValueError, match=r"must be in \[0, 1\]"):
            shiryaev_roberts_step(NOTHING, y, limit, weight)
        with pytest.raises(ValueError, match=r"must be in \[0, 1\]"):
            shiryaev_roberts_step(NOTHING, math.nan, limit, weight)
