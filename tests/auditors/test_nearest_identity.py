"""The most normal identity: the smallest mean distance, with what it cannot be told from."""

import pytest

from auditors.nearest_identity import MostNormal, most_normal
from auditors.types import Estimate
from tests.support.presence import present


def distance(value: float | None, half_width: float = 0.01) -> Estimate:
    """An identity's mean distance with its interval."""
    if value is None:
        return Estimate(metric="representative_distance", value=None, n=0, reason="no audit yet")
    lower, upper = value - half_width, value + half_width
    return Estimate(metric="representative_distance", value=value, lower=lower, upper=upper, n=9)


def test_the_smallest_distance_is_named() -> None:
    """Man .10, woman .14, non-binary .30, each +- .01: the man, by .04, told from both."""
    found = present(most_normal({"woman": distance(0.14), "non_binary": distance(0.30), "man": distance(0.10)}))

    assert (found.group, found.value, found.runner_up, found.not_told_apart) == ("man", 0.10, "woman", [])
    assert found.gap == pytest.approx(0.04)


def test_every_interval_is_compared() -> None:
    """A tie is not told apart; nor is a farther identity that may be anywhere or is without a distance."""
    tied = most_normal({"woman": distance(0.1), "man": distance(0.1)})
    assert tied == MostNormal(group="man", value=0.1, runner_up="woman", gap=0.0, not_told_apart=["woman"])
    found = present(most_normal({"a": distance(0.10), "b": distance(0.15), "c": distance(0.40, half_width=0.35)}))

    assert (found.runner_up, found.not_told_apart) == ("b", ["c"])
    found = present(most_normal({"a": distance(None), "b": distance(0.2), "c": distance(0.5)}))

    assert (found.group, found.not_told_apart) == ("b", ["a"])


@pytest.mark.parametrize("values", [{}, {"a": 0.1}, {"a": 0.1, "b": None}])
def test_one_identity_is_not_compared(values: dict[str, float | None]) -> None:
    """With fewer than two distances nothing is nearest."""
    assert most_normal({group: distance(value) for group, value in values.items()}) is None
