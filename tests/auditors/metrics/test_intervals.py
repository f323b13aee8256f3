"""Wilson's interval and Student's quantile without scipy are those of scipy."""

import pytest
from scipy.special import ndtri, stdtrit
from scipy.stats import binomtest

from auditors.metrics.intervals import student_quantile, wilson_interval
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


@pytest.mark.parametrize(("degrees", "error"), [(2, 8e-3), (5, 2e-4), (10, 1e-5), (30, 1e-6), (1e9, 1e-6)])
@pytest.mark.parametrize("probability", [0.025, 0.3, 0.5, 0.95, 0.975])
def test_it_is_near_the_exact_one(probability: float, degrees: float, error: float) -> None:
    """From 2 degrees on, within what its docstring says."""
    assert student_quantile(probability, degrees) == pytest.approx(stdtrit(degrees, probability), rel=error, abs=1e-12)


def test_infinite_and_too_few_degrees() -> None:
    """Without end it is the normal quantile; below 2 the expansion fails and says so."""
    assert student_quantile(0.975, float("inf")) == pytest.approx(ndtri(0.975))
    with pytest.raises(ValueError, match=r"not 1\.5"):
        student_quantile(0.975, 1.5)
