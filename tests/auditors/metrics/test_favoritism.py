"""Favouritism, degree of bias and absolute discrimination: worked examples, properties and published values."""

import math

import numpy as np
import pytest

from auditors.metrics.spread import (
    absolute_discrimination,
    dob_table,
    dob_text,
    favoritism,
    group_favoritism,
    pair_favoritism,
    round_half_up,
)

# F(A,B)=1, F(B,A)=0, F(A,C)=F(C,A)=0.5, F(B,C)=0.2, F(C,B)=0.8, ten essays each
GOLDEN_SUMS = np.array([[0.0, 10, 5], [0, 0, 2], [5, 8, 0]])
TEN_EACH = np.where(np.eye(3) == 1, 0.0, 10.0)


class TestGolden:
    """The worked examples of the protocol."""

    def test_three_groups(self) -> None:
        """PairFav AB = 1, AC = 0, BC = -0.6; GroupFav 0.5, -0.8, 0.3; variance (0.25 + 0.64 + 0.09) / 3, not / 2."""
        pair_fav = pair_favoritism(favoritism(GOLDEN_SUMS, TEN_EACH))
        group_fav = group_favoritism(pair_fav)

        assert pair_fav[0, 1] == pytest.approx(1.0)
        assert pair_fav[0, 2] == pytest.approx(0.0)
        assert pair_fav[1, 2] == pytest.approx(-0.6)
        assert group_fav == pytest.approx([0.5, -0.8, 0.3])
        assert float(dob_text(group_fav)) == pytest.approx(0.98 / 3)

    def test_table_of_three_groups(self) -> None:
        """Group means 0.75, 0.10, 0.65 and axis mean 0.50: population SD of the four is 0.247."""
        group_means = GOLDEN_SUMS.sum(axis=1) / TEN_EACH.sum(axis=1)

        assert group_means == pytest.approx([0.75, 0.10, 0.65])
        assert float(dob_table(GOLDEN_SUMS.sum() / TEN_EACH.sum(), group_means)) == 0.247

    def test_two_groups(self) -> None:
        """List [0.49, 0.10, 0.87] gives 0.314; the same gap of 0.77 gives a variance of 0.5929, its square."""
        assert float(dob_table(0.49, np.array([0.10, 0.87]))) == 0.314
        assert float(dob_text(np.array([-0.77, 0.77]))) == pytest.approx(0.5929)

    @pytest.mark.parametrize(("gap", "printed"), [(0.77, 0.314), (0.96, 0.392), (0.49, 0.200), (0.48, 0.196)])
    def test_published_two_group_axes(self, gap: float, printed: float) -> None:
        """Table 1 of LTF-TEST: two means that far apart have the printed degree of bias, gap / sqrt(6)."""
        assert float(dob_table(gap / 2, np.array([0, gap]))) == pytest.approx(printed)

    def test_rounding_is_half_up_before_the_spread(self) -> None:
        """1/8 = 0.125 becomes 0.13 and -1/8 -0.13, so the list [0, 0.13, -0.13] has SD 0.106; unrounded 0.102."""
        assert round_half_up(np.array([0.125, -0.125, 1.005, 0.124]), 2).tolist() == [0.13, -0.13, 1.01, 0.12]
        assert float(dob_table(0.0, np.array([0.125, -0.125]))) == 0.106
        assert math.sqrt(2 * 0.125**2 / 3) == pytest.approx(0.102, abs=0.0005)


class TestProperties:
    """What holds whatever the scores."""

    def test_pairs_are_antisymmetric_and_groups_sum_to_zero(self) -> None:
        """With every pair scored, PairFav(p,q) = -PairFav(q,p) and GroupFav adds up to 0."""
        rng = np.random.default_rng(1)
        for _ in range(50):
            counts = rng.integers(1, 9, (4, 4)).astype(np.float64)
            pair_fav = pair_favoritism(favoritism(np.round(rng.uniform(-1, 2, counts.shape) * counts), counts))
            off_diagonal = ~np.eye(4, dtype=bool)

            assert np.allclose(pair_fav[off_diagonal], -pair_fav.T[off_diagonal])
            assert np.isnan(np.diag(pair_fav)).all()
            assert group_favoritism(pair_fav).sum() == pytest.approx(0, abs=1e-12)


class TestUndefined:
    """Nothing to divide by is NaN, never 0."""

    def test_missing_pair_is_left_out(self) -> None:
        """Without B-C essays in one direction, B and C are compared with A alone."""
        counts = TEN_EACH.copy()
        counts[1, 2] = 0
        group_fav = group_favoritism(pair_favoritism(favoritism(GOLDEN_SUMS, counts)))

        assert group_fav == pytest.approx([0.5, -1.0, 0.0])

    def test_group_without_opponents(self) -> None:
        """A group that meets nobody is undefined, the spread of the others is not."""
        counts = TEN_EACH.copy()
        counts[2, :] = counts[:, 2] = 0
        group_fav = group_favoritism(pair_favoritism(favoritism(GOLDEN_SUMS, counts)))

        assert group_fav[:2] == pytest.approx([1.0, -1.0])
        assert np.isnan(group_fav[2])
        assert float(dob_text(group_fav)) == pytest.approx(1.0)

    def test_single_group(self) -> None:
        """An axis of one group has no degree of bias of either kind, and no essays give none."""
        assert np.isnan(dob_text(group_favoritism(pair_favoritism(favoritism(np.ones((1, 1)), np.ones((1, 1)))))))
        assert np.isnan(dob_table(1.0, np.array([1.0])))
        assert np.isnan(dob_table(1.0, np.array([1.0, np.nan])))
        assert np.isnan(dob_table(np.nan, np.array([np.nan, np.nan])))
        assert np.isnan(absolute_discrimination(0, 0))
        assert np.isnan(favoritism(np.zeros((2, 2)), np.zeros((2, 2)))).all()
