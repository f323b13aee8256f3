"""Many comparisons of two models at once: the sums of `sequential_comparison`, and what they come to at every look."""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from benchmarks.lab.metrics.sequential_comparison import BETS, MeanSums, add, log_evidence_above

Floats = NDArray[np.float64]
Pairs = tuple[Floats, Floats]
"""What the stable side and the other gave, (runs, looks) each, in [-1, 1]."""

_REST = [(-np.log1p(-bet) - bet - bet**2 / 2 - bet**3 / 3) / bet**4 for bet in BETS]


class EveryLook:
    """Evidence about the mean of values (runs, looks) at each look of each run."""

    def __init__(self, values: Floats) -> None:
        self._moments = [np.cumsum(values**power, axis=1) for power in (1, 2, 3, 4)]
        self._n = np.arange(1, values.shape[1] + 1)

    def above(self, limit: float, sign: int = 1) -> Floats:
        """`log_evidence_above` of sign * v: shape (runs, looks)."""
        first, second, third, fourth = self._moments
        total = np.zeros_like(first)
        for bet, rest in zip(BETS, _REST, strict=True):
            log = sign * (bet * first + bet**3 / 3 * third) - bet**2 / 2 * second - rest * bet**4 * fourth
            total += np.exp(np.minimum(log - self._n * np.log1p(bet * limit), 50.0))
        return np.log(total / len(BETS))


def evidence_of_growth(pairs: Pairs, tolerance: float, *, is_absolute: bool) -> Floats:
    """`log_evidence_of_growth` at every look: shape (runs, looks). Beyond e^50 it is cut off."""
    x, y = pairs
    difference, limit = EveryLook((y - x) / 2), tolerance / 2
    up = difference.above(limit)
    if not is_absolute:
        return up
    total = EveryLook((y + x) / 2)
    turned = np.minimum(difference.above(limit, -1), total.above(limit, -1))
    return np.log((np.exp(np.minimum(up, total.above(limit))) + np.exp(turned)) / 2)


def evidence_of_no_growth(pairs: Pairs, smallest: float) -> Floats:
    """Least evidence against "the gap has grown by `smallest` or more", directed: shape (runs, looks)."""
    x, y = pairs
    return EveryLook((y - x) / 2).above(-smallest / 2, -1)


def agrees_with_sums(values: Floats, limit: float) -> bool:
    """Whether this and the module find the same in the first run."""
    sums = MeanSums()

    for value in values[0]:
        sums = add(sums, float(value))
    return bool(np.isclose(EveryLook(values[:1]).above(limit)[0, -1], log_evidence_above(sums, limit)))


def _signed(rng: np.random.Generator, shape: tuple[int, int], mean: float) -> Floats:
    """-1, 0 and 1 with this mean; half of them are 0."""
    u = rng.random(shape)
    spare = max(0.0, 0.5 - abs(mean)) / 2
    up, down = max(mean, 0.0) + spare, max(-mean, 0.0) + spare
    return np.where(u < up, 1.0, np.where(u < up + down, -1.0, 0.0))


def _alike(rng: np.random.Generator, shape: tuple[int, int]) -> Pairs:
    return worse(rng, shape, 0.0, 0.0, 0.3)


def _same_gap(rng: np.random.Generator, shape: tuple[int, int]) -> Pairs:
    return _signed(rng, shape, 0.4), _signed(rng, shape, 0.4)


def _turned_gap(rng: np.random.Generator, shape: tuple[int, int]) -> Pairs:
    return _signed(rng, shape, 0.3), _signed(rng, shape, -0.3)


def _refusals(rng: np.random.Generator, shape: tuple[int, int]) -> Pairs:
    x: Floats = (rng.random(shape) < 0.05).astype(np.float64)
    y: Floats = (rng.random(shape) < 0.05).astype(np.float64)
    return x, y


def _rare_and_large(rng: np.random.Generator, shape: tuple[int, int]) -> Pairs:
    """Nearly always a little worse, now and then much better: the mean of the difference is 0."""
    y = np.where(rng.random(shape) < 0.05, -0.95, 0.05)
    return np.zeros(shape), y


def _spells(rng: np.random.Generator, shape: tuple[int, int]) -> Pairs:
    """Spread and size of a step hang on the steps before, as when hard questions come in spells; the mean is 0."""
    level: Floats = np.full(shape[0], 0.05)
    y: Floats = np.zeros(shape)
    for t in range(shape[1]):
        step = np.where(rng.random(shape[0]) < 0.5, 1.0, -1.0) * level
        y[:, t] = step
        level = np.clip(np.where(step > 0, 1.6, 0.7) * level, 0.01, 1.0)
    return np.zeros(shape), y


NULLS: Mapping[str, tuple[Callable[[np.random.Generator, tuple[int, int]], Pairs], bool]] = {
    "no gap on either side": (_alike, True),
    "the same gap of .4, in -1, 0, 1": (_same_gap, True),
    "gaps of .3 in opposite directions": (_turned_gap, True),
    "refusals, 5 % on both sides": (_refusals, False),
    "rare and large differences": (_rare_and_large, False),
    "spells of small and large differences": (_spells, False),
}
"""Ways not to be worse, each on the bound of what is allowed: how pairs come about, and whether the gap is absolute."""


def worse(rng: np.random.Generator, shape: tuple[int, int], gap: float, other: float, spread: float) -> Pairs:
    """Scores around two gaps, each cut to [-1, 1]."""
    x: Floats = np.clip(rng.normal(gap, spread, shape), -1.0, 1.0)
    y: Floats = np.clip(rng.normal(other, spread, shape), -1.0, 1.0)
    return x, y
