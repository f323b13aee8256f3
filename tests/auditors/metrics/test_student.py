"""Student's quantile without scipy is scipy's."""

import pytest
from scipy.special import ndtri, stdtrit

from auditors.metrics.intervals import student_quantile


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
