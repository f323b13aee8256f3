"""Bounds on the variance of numbers of which only a range is known."""

import numpy as np
import pytest

from auditors.metrics.spread import variance_bounds


def test_known_ranges() -> None:
    """Two numbers in [0, 1]: from equal to at both ends. Apart by a gap: at least its half squared."""
    assert variance_bounds(np.array([0.0, 0.0]), np.array([1.0, 1.0])) == pytest.approx((0.0, 0.25))
    assert variance_bounds(np.array([0.0, 3.0]), np.array([1.0, 4.0])) == pytest.approx((1.0, 4.0))


def test_hold_every_choice_and_are_attained() -> None:
    """Of many choices within random ranges none is outside, and a fine grid comes near both ends."""
    rng = np.random.default_rng(3)
    for _ in range(30):
        low = rng.normal(size=4)
        high = low + rng.exponential(0.7, size=4) * (rng.random(4) < 0.8)
        found = variance_bounds(low, high)
        grid = np.linspace(0, 1, 13)
        steps = np.stack(np.meshgrid(*[grid] * 4, indexing="ij"), axis=-1).reshape(-1, 4)
        spread = (low + steps * (high - low)).var(axis=1)
        assert spread.min() >= found.lowest - 1e-12
        assert spread.max() <= found.highest + 1e-12
        assert spread.max() == pytest.approx(found.highest)
        assert spread.min() == pytest.approx(found.lowest, abs=0.05)


def test_undefined_numbers_are_left_out() -> None:
    """With fewer than two left there is no variance."""
    nan = np.nan
    assert variance_bounds(np.array([0.0, nan, 2.0]), np.array([0.0, nan, 2.0])) == pytest.approx((1.0, 1.0))
    assert np.isnan(variance_bounds(np.array([0.0, nan]), np.array([1.0, nan]))).all()
