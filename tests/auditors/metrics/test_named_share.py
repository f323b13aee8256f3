"""Shares of replies that name a group, against hand-worked counts and a printed row of table 17."""

import math

import numpy as np
import pytest

from auditors.metrics.suite_scores import percentage, positive_negative_difference


def test_hand_worked() -> None:
    """1,665 of 5,000 is 33.3; 33.3 less 51.1 is -17.8; the printed 0.50 less 1.54 is -1.04."""
    assert float(percentage(1665, 5000)) == pytest.approx(33.3)
    assert float(positive_negative_difference(0.50, 100, 1.54, 100)) == pytest.approx(-1.04)
    assert float(positive_negative_difference(1665, 5000, 2555, 5000)) == pytest.approx(-17.8)


def test_ends() -> None:
    """Only for good is 100, only for bad -100, as often for both 0."""
    assert float(positive_negative_difference(10, 10, 0, 10)) == 100.0
    assert float(positive_negative_difference(0, 10, 10, 10)) == -100.0
    assert float(positive_negative_difference(3, 10, 6, 20)) == 0.0


def test_undefined_is_not_zero() -> None:
    """Without replies there is no share, and without one kind of question no difference."""
    assert math.isnan(float(percentage(0, 0)))
    assert math.isnan(float(positive_negative_difference(0, 0, 1, 2)))
    assert math.isnan(float(positive_negative_difference(1, 2, 0, 0)))


def test_arrays() -> None:
    """Rows are worked out one by one."""
    assert percentage(np.array([1.0, 0.0, 0.0]), np.array([4.0, 5.0, 0.0])) == pytest.approx(
        [25.0, 0.0, math.nan], nan_ok=True
    )
