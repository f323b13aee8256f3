"""Tests of group differences: worked cases, ends, degenerate input, scipy's values."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from auditors.metrics.significance import one_way_anova, pooled_t, within_item_permutation

samples = st.lists(st.floats(0, 1).map(lambda value: round(value, 3)), min_size=3, max_size=8)


class TestAnova:
    @given(samples, samples, samples)
    def test_agrees_with_scipy(self, a: list[float], b: list[float], c: list[float]) -> None:
        """F and p are scipy's."""
        if all(np.ptp(group) < 0.01 for group in (a, b, c)):
            return
        expected = stats.f_oneway(a, b, c)

        found = one_way_anova([a, b, c])
        if expected.statistic < 1e-9:  # equal means: scipy's F may round below 0, where its p is NaN
            assert found == pytest.approx((0.0, 1.0), abs=1e-6)
        else:
            assert found == pytest.approx((expected.statistic, expected.pvalue), rel=1e-6, abs=1e-9)

    def test_two_groups_are_the_t_test(self) -> None:
        """F = t squared with the same p, and t is scipy's."""
        a, b = [0.1, 0.4, 0.3, 0.2], [0.5, 0.4, 0.6]
        f, t, expected = one_way_anova([a, b]), pooled_t(a, b), stats.ttest_ind(a, b)

        assert f.statistic == pytest.approx(t.statistic**2)
        assert f.p_value == pytest.approx(t.p_value)
        assert t == pytest.approx((expected.statistic, expected.pvalue))

    @pytest.mark.parametrize("groups", [[], [[1.0, 2.0]], [[1.0], []], [[1.0], [2.0]], [[1.0, 1.0], [2.0, 2.0]]])
    def test_undefined(self, groups: list[list[float]]) -> None:
        """Too few groups or values, or no spread within, give NaN."""
        assert math.isnan(one_way_anova(groups).p_value)


class TestPermutation:
    def test_a_constant_shift_is_found(self) -> None:
        """One identity always 0.5 further away in 30 items: the smallest p there is."""
        table = np.random.default_rng(1).random((30, 1)) + np.array([0.0, 0.0, 0.5])
        found = within_item_permutation(table, rng=np.random.default_rng(2), n_permutations=199)

        assert found.statistic == pytest.approx(np.std([0, 0, 0.5]))
        assert found.p_value == 1 / 200

    @pytest.mark.simulation
    def test_false_alarms_are_nominal(self) -> None:
        """Without a difference p <= 0.05 in about 5 % of 400 seeded tables (5 sigma: 0.055)."""
        rng = np.random.default_rng(3)
        hits = [
            within_item_permutation(rng.random((12, 3)), rng=rng, n_permutations=99).p_value <= 0.05 for _ in range(400)
        ]

        assert np.mean(hits) < 0.105

    def test_undefined_and_refused(self) -> None:
        """No items give NaN; another shape or a NaN raises."""
        rng = np.random.default_rng(0)

        assert math.isnan(within_item_permutation(np.empty((0, 3)), rng=rng).p_value)
        for bad in ([1.0, 2.0], [[math.nan, 1.0]]):
            with pytest.raises(ValueError, match="finite"):
                within_item_permutation(bad, rng=rng)
