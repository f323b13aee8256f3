"""Measures the reduction of a gap: 1 - |after| / |before|, with an interval paired by question (protocols 2.13)."""

from collections.abc import Callable

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from auditors.metrics.bootstrap import crossed_noise, is_one_value
from benchmarks.reporting.compare import aligned
from benchmarks.suites.common.estimation import MIN_CLUSTERS, Cell, estimate, point, too_few

Floats = NDArray[np.float64]

LEVEL = 0.95
LARGEST_STEP = 64.0
"""A gap that may be so many times as large as before is not told from anything."""
HALVINGS = 24


class Reduction(msgspec.Struct, frozen=True, kw_only=True):
    """Share of the gap that is gone: 1 all of it, 0 none, below 0 it grew; also where it turned round."""

    value: float | None
    lower: float | None = None
    upper: float | None = None
    reason: str | None = None
    is_unstable: bool = False
    """The gap before is not told from 0, or hardly: a share of it says nothing."""


def reduction(before: Cell, after: Cell, *, seed: int) -> Reduction:
    """Return the reduction of the gap between two cells of the same number over replies to the same questions.
    The interval of the ratio of signed gaps, folded at 0, covers at least as often as that of the sizes. It is given
    only where the gap before is told from 0: else the ratio can be anything. Source: Fieller 1954,
    https://www.jstor.org/stable/2984043 (a resampled ratio covers 80 % with a gap of 2.5 standard errors).
    """
    a, b = aligned(before, after)
    was, now = point(a), point(b)
    if was is None or now is None:
        side, cell = ("before", before) if was is None else ("after", after)
        return Reduction(value=None, reason=f"undefined {side}: {cell.undefined}")
    if was == 0:
        return Reduction(value=None, reason="the gap before is 0: there is nothing to reduce")
    value = 1 - abs(now) / abs(was)
    if len(a.clusters) < MIN_CLUSTERS:
        return Reduction(value=value, reason=too_few(a))
    first = estimate(before, seed=seed)
    if first.lower is None or first.upper is None or first.lower <= 0 <= first.upper:
        fault = "has no interval" if first.lower is None else f"({first.lower:.3f} to {first.upper:.3f}) holds 0"
        return Reduction(value=value, is_unstable=True, reason=f"unstable: the interval of the gap before {fault}")
    # Of clusters whose gap is undefined nothing counts on this side.
    gaps = np.asarray(b.statistic(b.sums))
    if is_one_value(gaps[~np.isnan(gaps)]):
        return Reduction(value=value, reason="no interval: every question has the same gap after")
    ends = _ratio_interval(a, b, now / was)
    if ends is None:
        return Reduction(
            value=value, is_unstable=True, reason="unstable: the gap before is too small to tell an end of the interval"
        )
    most = max(map(abs, ends))
    least = 0.0 if ends[0] <= 0 <= ends[1] else min(map(abs, ends))
    return Reduction(value=value, lower=min(value, 1 - most), upper=max(value, 1 - least))


def _ratio_interval(a: Cell, b: Cell, ratio: float) -> tuple[float, float] | None:
    """Every r for which "after - r * before = 0" is not refuted at LEVEL (Fieller), paired; None where unbounded."""
    width, both = a.sums.shape[1], np.hstack([a.sums, b.sums])
    factors = list(a.factors.values())

    def is_refuted(r: float) -> bool:
        def difference(sums: Floats) -> Floats:
            return np.asarray(b.statistic(sums[..., width:]) - r * a.statistic(sums[..., :width]))

        noise = crossed_noise(both, factors, lambda sums: difference(sums)[..., None])
        value, variance = float(difference(both.sum(axis=0))), float(noise.variance[0])
        return value * value > variance * float(stdtrit(max(1.0, min(noise.degrees, 1e6)), (1 + LEVEL) / 2)) ** 2

    lower, upper = _end(is_refuted, ratio, -1.0), _end(is_refuted, ratio, 1.0)
    return None if lower is None or upper is None else (lower, upper)


def _end(is_refuted: Callable[[float], bool], start: float, sign: float) -> float | None:
    """Return the first value that is refuted, going from `start` in the direction of `sign`; None without any."""
    step = 0.25
    while not is_refuted(start + sign * step):
        step *= 2
        if step > LARGEST_STEP:
            return None
    inside, outside = 0.0, step
    for _ in range(HALVINGS):
        middle = (inside + outside) / 2
        inside, outside = (inside, middle) if is_refuted(start + sign * middle) else (middle, outside)
    return start + sign * outside
