"""Lists the streams that moved at a false discovery rate, and bounds the mean since a change.
The e-value of n audits' Shiryaev-Roberts evidence R is R / f(n), f(n) = 2.11 (n + 1) log^2(n + 1), valid at every
stopping time: R - n is a supermartingale from 0, so summation by parts bounds E[R / f] by the sum of 1 / f(m) < 1. A
change's beginning is chosen by the data, so the sequence from the j-th value has level 5 % / f(j).
"""

import math
from collections.abc import Mapping

from auditors.metrics import sequential
from auditors.metrics.intervals import Interval
from auditors.streams.drift import Detector
from auditors.streams.state import StreamState

_SUM_OF_INVERSES = 2.11
"""Slightly more than the sum of 1 / (j log^2 j) from j = 2 on."""


def log_e_value(state: StreamState, *, is_gap: bool) -> float | None:
    """Return the log of the e-value of a stream; None without evidence, or without a count of its audits."""
    detector = state.detector
    if detector is None or not detector.n_seen:
        return None
    n = detector.n_begun if is_gap else detector.n_seen
    if not n:
        return None
    if state.block is not None:
        n += state.block.group.n + state.block.others.n
    return detector.log_evidence - math.log(spent(n))


def moved(log_e_values: Mapping[str, float], n_streams: int, false_discovery_rate: float) -> list[str]:
    """The streams that moved, largest e-value first: e-BH at this mean share of false ones, for any dependence. Streams
    not in the mapping have no evidence. Raises ValueError out of (0, 1). Wang & Ramdas 2022, arXiv:2009.02824, def. 2.
    """
    if not 0.0 < false_discovery_rate < 1.0:
        raise ValueError(f"the false discovery rate {false_discovery_rate} is outside (0, 1)")
    ranked = sorted(log_e_values.items(), key=lambda entry: -entry[1])
    most = math.log(n_streams / false_discovery_rate) if n_streams else math.inf
    n_moved = max((k for k, (_, log_e) in enumerate(ranked, start=1) if log_e + math.log(k) >= most), default=0)
    return [stream for stream, _ in ranked[:n_moved]]


def since_change(detector: Detector) -> Interval | None:
    """95 % interval of the mean since the change, on 0..1; None where its sums lack values or the mean has moved on."""
    behind = detector.change_evidence
    if not behind.level.n or behind.sums.n != behind.level.n or behind.level.mean is None:
        return None
    begun_at = detector.n_seen - behind.level.n + 1
    bounds = sequential.interval(behind.sums, 1.0 - (1.0 - 0.95) / spent(begun_at))
    return bounds if bounds.lower <= behind.level.mean <= bounds.upper else None


def spent(n: int) -> float:
    """Return f(n) of the module's docstring."""
    return _SUM_OF_INVERSES * (n + 1) * math.log(n + 1) ** 2
