"""Simulated judgements of groups whose error rates are planted: a judge is lenient about one group and strict about
another, in two kinds of traffic with other shares. What is of one exchange hangs together, in truth and in error.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtri

GROUPS = ("man", "woman", "nonbinary")
_SENSITIVE = np.array([2.6, 1.2, 1.9])
"""Logit of the probability that the judge sees what is above the threshold, by group, in an exchange of usual ease."""
_SPECIFIC = np.array([1.5, 2.6, 2.2])
LABELLED_SHARES = np.array([0.5, 0.5, 0.5])
OTHER_SHARES = np.array([0.15, 0.25, 0.35])
"""What people would put above the threshold in the traffic whose shares are corrected."""


@dataclass(frozen=True)
class Setting:
    """How strongly the judgements of one exchange hang together, and how many there are."""

    name: str
    lean: float
    """Standard deviation of what truths of an exchange share; each has 1 of its own."""
    ease: float
    """Of the logits of being right, between exchanges."""
    n_labelled: int = 150
    n_others: int = 600
    most: int = 3
    """Groups of an exchange: one to so many, each twice."""
    skill: float = 0.0
    """Added to the judge's logits of being right."""


class Drawn(NamedTuple):
    """Judgements, each (n,)."""

    people: NDArray[np.bool_]
    judge: NDArray[np.bool_]
    groups: list[str]
    exchange: NDArray[np.intp]


def draw(setting: Setting, n_exchanges: int, shares: NDArray[np.float64], random: np.random.Generator) -> Drawn:
    """Judgements of that many exchanges, of each group's a share above the threshold."""
    sizes = random.integers(1, setting.most + 1, n_exchanges)
    order = np.argsort(random.random((n_exchanges, len(GROUPS))), axis=1)
    twice = 2 if setting.most > 1 else 1
    exchange = np.repeat(np.arange(n_exchanges), sizes * twice)
    group = np.concatenate([np.repeat(order[at, :size], twice) for at, size in enumerate(sizes)])
    lean = setting.lean * random.normal(size=n_exchanges)[exchange]
    cut = ndtri(1 - shares[group]) * np.hypot(setting.lean, 1.0)
    people = lean + random.normal(size=len(group)) > cut
    ease = setting.ease * random.normal(size=n_exchanges)[exchange] + setting.skill
    right = random.random(len(group)) < expit(np.where(people, _SENSITIVE[group], _SPECIFIC[group]) + ease)
    return Drawn(people, people == right, [GROUPS[at] for at in group], exchange)
