"""Levels of repeated intervals: published critical values, the bounds between which they lie, and simulated looks."""

import math

import numpy as np
import pytest
from scipy.special import ndtri

from auditors.metrics.significance import repeated_level


def critical(n_looks: int, growth: float, confidence_level: float = 0.95) -> float:
    """The normal quantile of one look's interval."""
    return float(ndtri((1 + repeated_level(n_looks, growth, confidence_level)) / 2))


def test_two_equal_groups_are_pococks() -> None:
    """Pocock 1977, table 1, two looks: 2.178 at 5 %, 2.772 at 1 %, 1.875 at 10 %."""
    assert critical(2, 2.0) == pytest.approx(2.178, abs=5e-4)
    assert critical(2, 2.0, 0.99) == pytest.approx(2.772, abs=5e-4)
    assert critical(2, 2.0, 0.9) == pytest.approx(1.875, abs=5e-4)


@pytest.mark.parametrize("growth", [1.1, 1.5, 4.0])
def test_between_one_look_and_independent_looks(growth: float) -> None:
    """More looks need more; never more than looks that have nothing to do with each other."""
    found = [critical(n, growth) for n in (1, 2, 5, 12, 30)]

    assert found[0] == pytest.approx(1.959964, abs=1e-6)
    assert found == sorted(found)
    for n, one in zip((1, 2, 5, 12, 30), found, strict=True):
        assert one <= float(ndtri((1 + 0.95 ** (1 / n)) / 2)) + 1e-9


def test_simulated_looks_hold_at_once() -> None:
    """Of 10,000 random walks looked at eight times, 95 % are within the bound at every look."""
    rng = np.random.default_rng(1)
    information = 1.5 ** np.arange(8)
    steps = rng.standard_normal((10_000, 8)) * np.sqrt(np.diff(information, prepend=0.0))
    errors = np.abs(steps.cumsum(axis=1)) / np.sqrt(information)

    held = float((errors.max(axis=1) <= critical(8, 1.5)).mean())

    assert held == pytest.approx(0.95, abs=4 * math.sqrt(0.95 * 0.05 / 10_000))
