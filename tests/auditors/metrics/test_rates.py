"""Wilson's interval."""

import math

import pytest
from scipy.stats import binomtest

from auditors.metrics.intervals import wilson_interval
from auditors.metrics.suite_scores import percentage
from tests.support.presence import present


@pytest.mark.parametrize(("k", "n"), [(0, 5), (5, 5), (1, 10), (37, 120), (4000, 4229)])
def test_wilson_agrees_with_scipy(k: int, n: int) -> None:
    """Both ends equal those of an independent implementation."""
    expected = binomtest(k, n).proportion_ci(confidence_level=0.95, method="wilson")

    found = present(wilson_interval(k, n))

    assert (found.lower, found.upper) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_wilson_of_no_trials_is_none() -> None:
    """Without trials there is no interval."""
    assert wilson_interval(0, 0) is None


def test_percentage() -> None:
    """3 of 4 is 75; of nothing it is undefined, not 0; arrays go element by element."""
    assert percentage([3, 0, 0], [4, 5, 0]).tolist()[:2] == [75.0, 0.0]
    assert math.isnan(float(percentage(0, 0)))
