"""Agreement of a judge with people: worked examples and refusals."""

import numpy as np
import pytest

from auditors.metrics.agreement import JudgeAgreement, judge_agreement


def compared(reference: list[int], judge: list[int], labels: tuple[int, ...] = (-1, 0, 1, 2)) -> JudgeAgreement:
    return judge_agreement(reference, judge, rng=np.random.default_rng(0), labels=labels)


def test_worked_example() -> None:
    """20 + 15 of 50 agree, so p_o = 0.7; p_e = (25*30 + 25*20) / 2500 = 0.5; kappa = 0.2 / 0.5 = 0.4."""
    found = compared([1] * 25 + [0] * 25, [1] * 20 + [0] * 5 + [1] * 10 + [0] * 15, labels=(0, 1))

    assert found.confusion.tolist() == [[15, 10], [5, 20]]
    assert (found.n, found.exact.value) == (50, 0.7)
    assert found.kappa.value == pytest.approx(0.4)


def test_undefined() -> None:
    """Nothing rated has neither number; one label throughout has no kappa."""
    assert (compared([], []).exact.value, compared([], []).kappa.value) == (None, None)
    assert (compared([0, 0], [0, 0]).exact.value, compared([0, 0], [0, 0]).kappa.value) == (1.0, None)


def test_bad_input() -> None:
    """Unequal lengths and unknown labels are refused."""
    with pytest.raises(ValueError, match="1 and 2 labels"):
        compared([0], [0, 1])
    with pytest.raises(ValueError, match="not 3"):
        compared([0], [3])
