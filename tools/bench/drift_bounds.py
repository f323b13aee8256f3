"""How soon a gap between two groups can be found at all: information, and the least delay at a given run length.

The null hypothesis is every pair of laws of scores in [0, 1] whose means are equal. Of those, the nearest one to what
is really there is the hardest to tell from it. A detector that keeps its run length under all of them keeps it under
that one, where Page's CUSUM of the true likelihood ratio has the least worst-case delay of all (Moustakides 1986,
doi:10.1214/aos/1176350164). So no detector that promises the run length for any scores is faster than this CUSUM, which
knows both laws. One that starts with no evidence, as ours and the CUSUM do, has its worst case right then.
"""

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

CELLS = 1200
"""Steps between 0 and the threshold in which the CUSUM is followed."""


class Law(msgspec.Struct, frozen=True):
    """A law of scores with finitely many values."""

    levels: tuple[float, ...]
    """In [0, 1], with 0 and 1 among them, so that the nearest law of another mean has the same values."""
    shares: tuple[float, ...]

    @property
    def mean(self) -> float:
        return float(np.dot(self.levels, self.shares))

    @property
    def variance(self) -> float:
        return float(np.dot(np.square(self.levels), self.shares)) - self.mean**2


def nearest_with_mean(law: Law, mean: float) -> Law:
    """The law P of this mean with the least KL(law, P): shares / (1 + tilt (level - mean)); 0 < mean < 1."""
    off, shares = np.array(law.levels) - mean, np.array(law.shares)
    low, high = -1.0 / (1.0 - mean), 1.0 / mean
    for _ in range(100):
        tilt = (low + high) / 2.0
        if (shares * off / (1.0 + tilt * off)).sum() > 0.0:
            low = tilt
        else:
            high = tilt
    return Law(law.levels, tuple((shares / (1.0 + tilt * off)).tolist()))


def nearest_without_gap(others: Law, group: Law, share: float) -> tuple[Law, Law]:
    """Laws of the others and the group that have one mean and are hardest to tell from these; share: of the group."""
    low, high = sorted((others.mean, group.mean))
    means = np.linspace(low, high, 1001)[1:-1].tolist()
    pairs = [(nearest_with_mean(others, mean), nearest_with_mean(group, mean)) for mean in means]
    return min(pairs, key=lambda pair: information(others, group, pair, share))


def information(others: Law, group: Law, null: tuple[Law, Law], share: float) -> float:
    """Mean log likelihood ratio of a request, in nats, where the null hypothesis does not hold."""
    shares, ratios = steps(others, group, null, share)
    return float(shares @ ratios)


def least_delay(others: Law, group: Law, null: tuple[Law, Law], share: float, run_length: float) -> float:
    """Requests from the opening of the gap until the CUSUM alarms, on average; its mean run length is `run_length`."""
    shares, ratios = steps(others, group, null, share)
    null_shares, _ = steps(*null, null, share)
    low, high = 0.0, float(np.log(run_length)) + float(ratios.max())
    for _ in range(16):
        threshold = (low + high) / 2.0
        if mean_run_length(null_shares, ratios, threshold) < run_length:
            low = threshold
        else:
            high = threshold
    return mean_run_length(shares, ratios, (low + high) / 2.0)


def steps(others: Law, group: Law, null: tuple[Law, Law], share: float) -> tuple[Floats, Floats]:
    """Shares of the possible kinds of requests (side and score), and the log likelihood ratio of each."""
    true = _joint(others, group, share)
    possible = true > 0.0
    return true[possible], np.log(true[possible] / _joint(*null, share)[possible])


def _joint(others: Law, group: Law, share: float) -> Floats:
    return np.concatenate([(1.0 - share) * np.array(others.shares), share * np.array(group.shares)])


def mean_run_length(shares: Floats, ratios: Sequence[float] | Floats, threshold: float) -> float:
    """Of max(0, sum + ratio) until it reaches the threshold, from 0: a Markov chain, interpolated between its cells."""
    width = threshold / CELLS
    moves, cells = np.zeros((CELLS, CELLS)), np.arange(CELLS)
    for share, ratio in zip(shares, ratios, strict=True):
        at = np.maximum(0.0, cells + ratio / width)
        left = np.floor(at).astype(np.int64)
        for column, part in ((left, 1.0 - (at - left)), (left + 1, at - left)):
            inside = column < CELLS
            np.add.at(moves, (cells[inside], column[inside]), share * part[inside])
    return float(np.linalg.solve(np.eye(CELLS) - moves, np.ones(CELLS))[0])
