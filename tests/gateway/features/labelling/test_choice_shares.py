"""Shares of choices: by hand, and whether their intervals cover where choices of a cluster are alike."""

import random

import pytest

from gateway.features.labelling.choice_shares import Choice, choice_shares
from tests.support.long import repeated

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


@pytest.mark.statistical
@repeated(1000, quick=40)
@pytest.mark.parametrize("alike", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("share", [0.5, 0.8])
def test_intervals_cover_where_choices_are_alike(alike: float, share: float, times: int) -> None:
    """At least 93 % of 1,000 (binomial error 0.7 points), also where all ten choices of a cluster are the same."""
    draws = random.Random(f"{alike} {share}")
    n_covering = 0
    for _ in range(times):
        made = []
        for cluster in range(30):
            common = draws.random() < share
            for _ in range(10):
                is_man = common if draws.random() < alike else draws.random() < share
                made += choices("man" if is_man else "woman", cluster=str(cluster))
        found = choice_shares(made)["gender", "man"]
        n_covering += found.lower <= share <= found.upper
    assert n_covering >= 0.93 * times - 1
