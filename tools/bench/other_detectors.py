"""The detectors that ours is compared with: a sliding z test, a CUSUM, and one that knows its bet beforehand."""

import numpy as np
from numpy.typing import NDArray

from tools.simulations.drift import Floats, Stream


def known_bet_run_lengths(streams: tuple[Stream, Stream], n_runs: int, bet: float, run_length: float) -> Floats:
    """Requests until one side of the same detector alarms with one bet, told beforehand, and the best of blocks.

    What blocks and mixtures can gain at most at shares 80/20: every block has four scores of the others and one of the
    group, whatever the order in which they came. Such blocks cannot be had without keeping scores for later.
    """
    evidence, lengths, n = np.zeros(n_runs), np.zeros(n_runs), 0
    others, group = streams
    while not lengths.all():
        n += 5
        d = next(group) - sum(next(others) for _ in range(4)) / 4.0
        evidence = (5.0 + evidence) * (1.0 + bet * d)
        lengths[(evidence >= run_length) & (lengths == 0)] = n
        np.minimum(evidence, 1e200, out=evidence)
    return lengths


def sliding_z(scores: Floats, window: int, reference_mean: float | Floats, reference_sd: float | Floats) -> Floats:
    """|z| of the newest `window` scores against a reference, after each score.

    Args:
        scores: (runs, n).
        window: scores in the window; z is 0 until there are so many.
        reference_mean: of each run, (runs, 1), or of all.
        reference_sd: the same way.

    Returns: (runs, n).
    """
    sums = np.cumsum(scores, axis=1)
    sums[:, window:] -= sums[:, :-window].copy()
    found: Floats = np.abs(sums / window - reference_mean) / (reference_sd / np.sqrt(window))
    found[:, : window - 1] = 0.0
    return found


def cusum(scores: Floats, drift: float) -> Floats:
    """Page's CUSUM for a rise: max over s <= t of the sum of (score - drift) since s. (runs, n) to (runs, n)."""
    sums = np.cumsum(scores - drift, axis=1)
    padded = np.concatenate([np.zeros((len(sums), 1)), sums], axis=1)
    found: Floats = sums - np.minimum.accumulate(padded, axis=1)[:, :-1]
    return found


def first_crossings(statistic: Floats, threshold: float) -> NDArray[np.int64]:
    """Position (from 1) at which each run first reaches the threshold; 0 where it never does. (runs, n) to (runs,)."""
    reached = statistic >= threshold
    found: NDArray[np.int64] = np.where(reached.any(axis=1), reached.argmax(axis=1) + 1, 0)
    return found


def threshold_for(statistic: Floats, run_length: float) -> float:
    """Threshold at which the runs of a null statistic alarm once in `run_length` values on average.

    Args:
        statistic: (runs, n) of values without change.
        run_length: wanted, in values.

    The mean run length is estimated as for exponential waiting times: values watched, over runs that alarmed.
    """
    low, high = float(np.quantile(statistic, 0.5)), float(statistic.max())
    for _ in range(40):
        middle = (low + high) / 2
        crossed = first_crossings(statistic, middle)
        watched = np.where(crossed > 0, crossed, statistic.shape[1]).sum()
        if watched / max(1, int((crossed > 0).sum())) < run_length:
            low = middle
        else:
            high = middle
    return high
