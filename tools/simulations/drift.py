"""Seeded streams of scores, and how long our detectors watch them before they alarm. Many runs at once.

A stream is a function of (rng, number of runs) that yields one (runs,) array of scores after the other.
"""

import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from auditors.metrics.intervals import Interval
from auditors.metrics.weighting import WeightedSums, hajek_mean, weighted_variance
from auditors.streams import drift, gaps
from auditors.streams import reference as learning
from auditors.streams.drift import DriftSettings
from auditors.streams.gaps import Block
from tools.simulations.stream_bank import DetectorBank

Floats = NDArray[np.float64]
Stream = Iterator[Floats]
Maker = Callable[[np.random.Generator, int], Stream]

JUDGED = {0.10: (0.78, 0.16, 0.04, 0.02), 0.20: (0.60, 0.25, 0.10, 0.05)}
"""Shares of the judge's four scores, on the 0..1 scale, by the mean they give (0.100 and 0.200)."""


def bernoulli(rng: np.random.Generator, n_runs: int, mean: float) -> Stream:
    """Independent zeros and ones: the widest scores there are at this mean."""
    while True:
        yield (rng.random(n_runs) < mean).astype(np.float64)


def judged(rng: np.random.Generator, n_runs: int, mean: float) -> Stream:
    """Independent scores on the judge's four steps."""
    steps = np.cumsum(JUDGED[mean])
    while True:
        yield np.minimum(3, np.searchsorted(steps, rng.random(n_runs), side="right")) / 3.0


def seldom_wild(rng: np.random.Generator, n_runs: int, mean: float) -> Stream:
    """A quarter of the scores is 0 or 1, independently, the others are the mean itself: a quarter of the variance."""
    while True:
        is_wild = rng.random(n_runs) < 0.25
        yield np.where(is_wild, (rng.random(n_runs) < mean).astype(np.float64), mean)


def clustered(rng: np.random.Generator, n_runs: int, mean: float) -> Stream:
    """Calm and wild spells that last 50 scores on average; the mean given the past is `mean` throughout.

    In a calm spell every score is the mean itself, in a wild one it is 0 or 1.
    """
    is_wild = rng.random(n_runs) < 0.5
    while True:
        is_wild ^= rng.random(n_runs) < 0.02
        yield np.where(is_wild, (rng.random(n_runs) < mean).astype(np.float64), mean)


def wandering(rng: np.random.Generator, n_runs: int, mean: float, *, deepest: float) -> Stream:
    """Zeros and ones whose mean wanders between mean - deepest and mean, slowly: strongly autocorrelated.

    The phase is a random walk, folded at both ends; lag-one correlation of the means is over 0.99.
    """
    phase = rng.random(n_runs) * 2
    while True:
        phase = (phase + 0.02 * rng.standard_normal(n_runs)) % 2.0
        depth = deepest * np.abs(1.0 - phase)
        yield (rng.random(n_runs) < mean - depth).astype(np.float64)


def alike(stream: Stream, n_streams: int, rng: np.random.Generator, share: float) -> Stream:
    """Families of streams side by side: each takes this share of its scores from the first of its family."""
    for y in stream:
        families = y.reshape(-1, n_streams).copy()
        takes = rng.random(families.shape) < share
        yield np.where(takes, families[:, :1], families).ravel()


def sticky(rng: np.random.Generator, n_runs: int, mean: float, *, repeats: float) -> Stream:
    """Each score is the one before with this probability, else a new zero or one: the mean given the past moves."""
    y = (rng.random(n_runs) < mean).astype(np.float64)
    while True:
        y = np.where(rng.random(n_runs) < repeats, y, (rng.random(n_runs) < mean).astype(np.float64))
        yield y


def run_lengths(stream: Stream, n_runs: int, lower: float, upper: float, run_length: float, at_most: int) -> Floats:
    """Audits until our detector alarms, or at_most, of each run.

    Args:
        stream: the scores of all runs.
        n_runs: how many.
        lower: limit of the falling side.
        upper: limit of the rising side.
        run_length: A, the threshold.
        at_most: the runs are cut here, which only makes their mean smaller.
    """
    bank = DetectorBank(np.full(n_runs, lower), np.full(n_runs, upper))
    weight, lengths = np.ones(n_runs), np.full(n_runs, float(at_most))
    waiting = np.ones(n_runs, dtype=bool)
    for n, y in enumerate(itertools.islice(stream, at_most), start=1):
        alarmed = waiting & (bank.step(y, weight) >= run_length)
        lengths[alarmed] = n
        waiting &= ~alarmed
        if not waiting.any():
            break
    return lengths


def learned_run_lengths(
    stream: Stream, n_runs: int, settings: DriftSettings, at_most: int, *, n_streams: int = 1
) -> Floats:
    """Audits from the end of the reference window until a stream that makes its own reference alarms, or at_most.

    References are learned by `streams.reference` itself, for each run apart. With `n_streams` the runs are families of
    as many streams that lie side by side and stay within one exchange of each other: each alarms at that times A, and
    the length is that of the first alarm of the family.
    """
    window, log_threshold = settings.reference_window, settings.log_threshold(n_streams)
    threshold, size = math.exp(log_threshold), n_runs * n_streams
    sums, squares, ones = np.zeros(size), np.zeros(size), np.ones(size)
    bank, references = DetectorBank(np.zeros(size), ones.copy()), [Interval(0.0, 1.0)] * size
    looked = [WeightedSums()] * size
    learns, looks = np.ones(size, dtype=bool), {window * 2**k for k in range(learning.LOOKS)}
    lengths, waiting = np.full(n_runs, float(at_most)), np.ones(n_runs, dtype=bool)
    for n, y in enumerate(itertools.islice(stream, window + at_most), start=1):
        if n > window:
            reached = (bank.step(y, ones) >= threshold).reshape(n_runs, n_streams)
            learns &= ~reached.ravel()
            alarmed = waiting & reached.any(axis=1)
            lengths[alarmed] = n - window
            waiting &= ~alarmed
            if not waiting.any():
                break
        sums += y
        squares += y * y
        if n not in looks:
            continue
        for one in np.flatnonzero(learns):
            seen = WeightedSums(n=n, w=float(n), ww=float(n), wy=float(sums[one]), wyy=float(squares[one]))
            closer = learning.first(seen) if n == window else learning.narrowed(references[one], looked[one], seen)
            if closer is None:
                learns[one] = False
                continue
            references[one], looked[one] = closer, seen
            limits = drift.limits_of(closer, settings)
            bank.limit(int(one), limits.lower, limits.upper)
            found = learning.smallest_change(
                limits,
                hajek_mean(seen),
                weighted_variance(seen),
                log_threshold=log_threshold,
                wanted=settings.smallest_change,
            )
            learns[one] = found is None or found > settings.smallest_change
    return lengths


def family_run_lengths(
    stream: Stream, n_runs: int, n_streams: int, limit: float, run_length: float, at_most: int, *, on_mean: bool
) -> Floats:
    """Exchanges until the first alarm of a family of streams that every exchange moves, or at_most, of each run.

    `stream` yields (n_runs * n_streams,) scores, the streams of a run side by side. `on_mean` alarms at A on the mean
    evidence, else each stream alarms at n_streams * A.
    """
    size = n_runs * n_streams
    bank = DetectorBank(np.full(size, limit), np.full(size, limit))
    weight, lengths, waiting = np.ones(size), np.full(n_runs, float(at_most)), np.ones(n_runs, dtype=bool)
    for n, y in enumerate(itertools.islice(stream, at_most), start=1):
        evidence = bank.step(y, weight).reshape(n_runs, n_streams)
        reached = evidence.mean(axis=1) if on_mean else evidence.max(axis=1) / n_streams
        alarmed = waiting & (reached >= run_length)
        lengths[alarmed] = n
        waiting &= ~alarmed
        if not waiting.any():
            break
    return lengths


def gap_run_lengths(
    rng: np.random.Generator,
    n_runs: int,
    streams: tuple[Stream, Stream],
    share: float,
    limit: float,
    run_length: float,
    at_most: int,
) -> Floats:
    """Requests until the detector of a gap alarms, or at_most, of each run.

    Args:
        rng: says which group a request concerns.
        n_runs: how many runs.
        streams: scores of the others, and of the group.
        share: of the requests that concern the group.
        limit: largest difference that is no drift, either way, in the metric's 0..1 unit.
        run_length: A.
        at_most: requests.
    """
    bank = DetectorBank(np.full(n_runs, (1.0 - limit) / 2.0), np.full(n_runs, (1.0 + limit) / 2.0))
    blocks, lengths = [Block()] * n_runs, np.full(n_runs, float(at_most))
    waiting = np.ones(n_runs, dtype=bool)
    for n, others, group in zip(range(1, at_most + 1), *streams, strict=False):
        is_group = rng.random(n_runs) < share
        y, weight, starts = np.zeros((3, n_runs))
        for run in np.flatnonzero(waiting):
            sides = ([float(group[run])], []) if is_group[run] else ([], [float(others[run])])
            blocks[run], closed = gaps.add(blocks[run], *sides, 1.0)
            if closed is not None:
                y[run], weight[run], starts[run] = closed.y, closed.weight, closed.n_exchanges
        alarmed = waiting & (bank.step(y, weight, starts) >= run_length)
        lengths[alarmed] = n
        waiting &= ~alarmed
        if not waiting.any():
            break
    return lengths
