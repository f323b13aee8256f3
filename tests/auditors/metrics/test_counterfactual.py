"""The counterfactual contrasts: worked values, unbiasedness by enumeration, bad input."""

import itertools

import numpy as np
import pytest

from auditors.metrics.dispersion import distance_excess, excess_of_each, signed_difference

E = np.eye(4)


class TestDistanceExcess:
    def test_two_constant_sides(self) -> None:
        """Each side always says one thing, unlike the other's: |e1 - e2|^2 / 2 = 1; opposite ones 2."""
        assert distance_excess([E[0], E[0]], [E[1], E[1]]) == 1.0
        assert distance_excess([E[0], E[0]], [-E[0], -E[0]]) == 2.0

    def test_its_mean_is_the_distance_of_the_means(self) -> None:
        """Over every draw from two distributions the mean is |m_o - m_s|^2 / 2 exactly: 0 for equal ones."""
        left, right = [E[0], E[1], E[2]], [E[2], E[3], E[3]]
        for one, other in [(left, right), (left, left), (right, right)]:
            draws = itertools.product(one, one, other, other)
            mean = np.mean([distance_excess([a, b], [c, d]) for a, b, c, d in draws])
            gap = np.mean(one, axis=0) - np.mean(other, axis=0)
            assert mean == pytest.approx(gap @ gap / 2, abs=1e-12)


class TestSignedDifference:
    @pytest.mark.parametrize(("asked", "swapped", "value"), [(3, 1, 0.5), (1, 3, -0.5), (2, 2, 0), (1, 0, 1)])
    def test_values(self, asked: float, swapped: float, value: float) -> None:
        """Relative to the sum, and antisymmetric."""
        assert signed_difference(asked, swapped) == value

    def test_nothing_on_either_side(self) -> None:
        """0 against 0 is undefined, not equal."""
        assert np.isnan(signed_difference(0, 0))


class TestExcessOfEach:
    def test_two_draws_a_side_are_the_live_excess(self) -> None:
        """The mean over the swapped side is `distance_excess`, whatever the lengths of the vectors."""
        rng = np.random.default_rng(5)
        for _ in range(20):
            o, s = rng.normal(size=(2, 6)), rng.normal(size=(2, 6))
            assert excess_of_each(o, 3 * s).mean() == pytest.approx(distance_excess(o, s), abs=1e-12)

    def test_its_mean_is_the_distance_of_the_means_for_any_number(self) -> None:
        """Over every draw of three against two from two distributions the mean is |m_o - m_s|^2 / 2 exactly."""
        left, right = [E[0], E[1]], [E[1], E[2]]
        for one, other in [(left, right), (left, left)]:
            draws = itertools.product(one, one, one, other, other)
            mean = np.mean([excess_of_each([a, b, c], [d, e]).mean() for a, b, c, d, e in draws])
            gap = np.mean(one, axis=0) - np.mean(other, axis=0)
            assert mean == pytest.approx(gap @ gap / 2, abs=1e-12)
