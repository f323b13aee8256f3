"""From the latencies of each turn to percentiles, and their ratios with intervals over rounds. Pure."""

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

RESAMPLES = 4000
LEVELS = (50, 99)


class Ratio(msgspec.Struct, frozen=True):
    """One arm's percentile over another's."""

    value: float
    lower: float
    upper: float
    """95 % interval."""


def percentile(rounds: Sequence[Floats], level: float) -> float:
    """Of all latencies of one arm together, in seconds."""
    return float(np.percentile(np.concatenate(rounds), level))


def ratio(arm: Sequence[Floats], base: Sequence[Floats], level: float, rng: np.random.Generator) -> Ratio:
    """The arm's percentile over the base's, both over all rounds, with a bootstrap interval.

    Args:
        arm: latencies of each round, in seconds.
        base: the same rounds of the arm it is compared with.
        level: percentile, in (0, 100).
        rng: draws the resamples.

    Returns: whole rounds are drawn with replacement, both arms' together, since what else the machine did met both;
        then requests within each round. With few rounds the interval says little about other days.
    Raises: ValueError when the arms differ in their rounds, or a round has no latency.
    """
    if len(arm) != len(base) or not arm or not all(map(len, (*arm, *base))):
        raise ValueError(f"{len(arm)} and {len(base)} rounds: both arms need the same rounds, with answers in each")
    draws = []
    for _ in range(RESAMPLES):
        chosen = rng.integers(len(arm), size=len(arm))
        drawn = [percentile([_redrawn(side[one], rng) for one in chosen], level) for side in (arm, base)]
        draws.append(drawn[0] / drawn[1])
    lower, upper = np.quantile(draws, [0.025, 0.975])
    return Ratio(percentile(arm, level) / percentile(base, level), float(lower), float(upper))


def _redrawn(latencies: Floats, rng: np.random.Generator) -> Floats:
    return rng.choice(latencies, size=len(latencies))
