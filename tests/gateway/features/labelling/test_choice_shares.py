"""Shares of choices: by hand, and whether their intervals cover where choices of a cluster are alike."""

import pytest

from gateway.features.labelling.choice_shares import Choice, choice_shares

NAMES = ("man", "woman")


def choices(*chosen: str, cluster: str = "", axis: str = "gender") -> list[Choice]:
    return [
        Choice(axis=axis, names=NAMES, chosen=one, cluster=cluster or f"{axis}-{number}")
        for number, one in enumerate(chosen)
    ]


def test_shares_by_hand() -> None:
    """Three of four; the interval is Wilson's of 3 in 4, axes apart."""
    found = choice_shares([*choices("man", "man", "man", "woman"), *choices("woman", axis="other")])

    man = found["gender", "man"]
    assert (man.value, man.n, man.n_clusters) == (0.75, 4, 4)
    assert (man.lower, man.upper) == pytest.approx((0.3006, 0.9544), abs=1e-4)
    assert found["gender", "woman"].value == 0.25
    assert found["other", "man"].value == 0.0
    assert found["other", "woman"].n == 1
