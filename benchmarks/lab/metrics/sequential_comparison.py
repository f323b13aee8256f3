"""Tests if the gap of a model is larger than that of another: evidence and bounds that hold at every look.
Pairs of the same question: x of the stable model or policy, y of the other, in [-1, 1]. A *directed* gap (an excess, a
refusal rate) has grown when E[y] > E[x], an *absolute* one (a signed difference) when |E[y]| > |E[x]|.
Construction. For v in [-1, 1] with one mean m and a bet in (0, 1), log(1 + u), u = bet * v, is never less than u -
u^2/2 + u^3/3 - rest * u^4, rest making it equal at u = -bet. So exp(sum of that) / (1 + bet * limit)^n has a mean of at
most 1 at every stopping time while m <= limit: an e-value, averaged over sixteen bets (`log_evidence_above`), of a = y
- x and b = y + x. As |g_y| - |g_x| = max(min(A, B), min(-A, -B)) with A = g_y - g_x and B = g_y + g_x, the absolute gap
has grown by more than a tolerance only if A and B are both above it or both below its negative: each case gives the
smaller of two e-values, and their mean is an e-value against "it has not grown". So bounds of A and B bound the growth.
Assumed: each value has the same mean given everything before it; for the evidence, that no such mean is above the
limit. The state is five sums, which do not depend on the order of the values and can be added.
"""

import math
from collections.abc import Sequence
from typing import Literal

import msgspec

from auditors.metrics.intervals import Interval
from auditors.metrics.sequential import log_sum

BETS: tuple[float, ...] = tuple(0.005 * 190.0 ** (i / 15) for i in range(16))
"""Fixed mixture of bets: sixteen values from 0.005 to 0.95 in geometric steps."""
_REST = tuple((-math.log1p(-bet) - bet - bet**2 / 2 - bet**3 / 3) / bet**4 for bet in BETS)
_TERMS = tuple((bet, -(bet**2) / 2, bet**3 / 3, -rest * bet**4) for bet, rest in zip(BETS, _REST, strict=True))
_HALVINGS = 32

Direction = Literal["directed", "absolute"]


class MeanSums(msgspec.Struct, frozen=True, array_like=True):
    """Everything that is remembered of n values in [-1, 1]."""

    n: int = 0
    total: float = 0.0
    """Sum of v."""
    squares: float = 0.0
    cubes: float = 0.0
    fourths: float = 0.0
    """Sum of v^4."""

    @property
    def mirrored(self) -> "MeanSums":
        """The sums of -v."""
        return MeanSums(self.n, -self.total, self.squares, -self.cubes, self.fourths)


class GapSums(msgspec.Struct, frozen=True, array_like=True):
    """Sums of a gap in both models."""

    difference: MeanSums = MeanSums()
    """Sums of (y - x) / unit."""
    total: MeanSums = MeanSums()
    """Sums of (y + x) / unit."""
    unit: float = 2.0
    """Number that divides a score so that it lies in [-1, 1]."""

    @property
    def n(self) -> int:
        return self.difference.n

    @property
    def means(self) -> tuple[float, float]:
        """Mean of the stable side and of the other; NaN without a pair. Of assigned values an estimate of them."""
        if not self.n:
            return math.nan, math.nan
        a, b = (self.unit * sums.total / sums.n for sums in (self.difference, self.total))
        return (b - a) / 2, (b + a) / 2


def add(sums: MeanSums, value: float) -> MeanSums:
    """The sums with one more value. Raises ValueError for one outside [-1, 1]."""
    if not -1.0 <= value <= 1.0:
        raise ValueError(f"value {value} must be in [-1, 1]")
    square = value * value
    return MeanSums(
        sums.n + 1,
        sums.total + value,
        sums.squares + square,
        sums.cubes + square * value,
        sums.fourths + square * square,
    )


def add_pair(gap: GapSums, stable: float, other: float) -> GapSums:
    """The sums with a pair (stable side, other side) in [-1, 1] more. ValueError out of range or for assigned sums."""
    if gap.unit != GapSums().unit:
        raise ValueError("these are sums of assigned values, to which no pair can be added")
    if not (-1.0 <= stable <= 1.0 and -1.0 <= other <= 1.0):
        raise ValueError(f"values {stable} and {other} must be in [-1, 1]")
    return GapSums(add(gap.difference, (other - stable) / 2), add(gap.total, (other + stable) / 2), gap.unit)


def assigned_gap(share: float) -> GapSums:
    """Empty sums for traffic that is split: each exchange goes to the other side with probability `share`."""
    if not 0.0 < share < 1.0:
        raise ValueError(f"share {share} must be in (0, 1)")
    return GapSums(unit=2.0 / min(share, 1.0 - share) + 2.0)


def add_assigned(gap: GapSums, value: float, *, is_other: bool, share: float) -> GapSums:
    """The sums with one more exchange of split traffic, answered on one side only. Its score (value - c) * (1 / share
    or -1 / (1 - share)), c being the mean before it, has the mean g_y - g_x whatever the traffic does: exchanges may
    depend on each other and on the past. The draw of the side must be independent for each exchange; split by user, one
    user's exchanges are one unit. `gap`: made by `assigned_gap` with this share; `value`: in [-1, 1]; `is_other`: with
    probability `share`. Raises ValueError for a value out of range or another share.
    """
    if not math.isclose(gap.unit, assigned_gap(share).unit):
        raise ValueError(f"these sums are not of a share of {share}: the share must stay as it was")
    if not -1.0 <= value <= 1.0:
        raise ValueError(f"value {value} must be in [-1, 1]")
    centre = min(1.0, max(-1.0, sum(gap.means) / 2)) if gap.n else 0.0
    weight = 1.0 / share if is_other else 1.0 / (1.0 - share)
    score = (value - centre) * weight
    difference, total = (score if is_other else -score), score + 2.0 * centre
    return GapSums(add(gap.difference, difference / gap.unit), add(gap.total, total / gap.unit), gap.unit)


def log_evidence_above(sums: MeanSums, limit: float) -> float:
    """Logarithm of the e-value against "the mean of v is at most `limit`"; 0 (no evidence) before the first value. At
    most a share alpha of all such streams ever come to log(1 / alpha). Source: betting martingale of Waudby-Smith &
    Ramdas 2023, arXiv:2010.09686, section 4, with fixed bets. Deviation: factors bounded from below to the fourth order
    (to the second: Fan, Grama & Liu 2015, arXiv:1311.6273, lemma 4.1), so that sums suffice: it lowers evidence.
    """
    logs = [
        term[0] * sums.total
        + term[1] * sums.squares
        + term[2] * sums.cubes
        + term[3] * sums.fourths
        - sums.n * math.log1p(bet * limit)
        for bet, term in zip(BETS, _TERMS, strict=True)
    ]
    return log_sum(logs) - math.log(len(BETS))


def log_evidence_below(sums: MeanSums, limit: float) -> float:
    """Return log evidence, as `log_evidence_above` does, against "the mean of v is at least `limit`"."""
    return log_evidence_above(sums.mirrored, -limit)


def bounds(sums: MeanSums, error: float) -> Interval:
    """Bounds of the mean; each end holds at all times at once with probability 1 - error or more. In [-1, 1]."""
    if not 0.0 < error < 1.0:
        raise ValueError(f"error {error} is outside (0, 1)")
    upper = _upper(sums, error)
    lower = -_upper(sums.mirrored, error)
    return Interval(lower, upper) if lower <= upper else Interval((lower + upper) / 2, (lower + upper) / 2)


def log_evidence_of_growth(gap: GapSums, tolerance: float = 0.0, direction: Direction = "absolute") -> float:
    """Logarithm of the e-value against "the gap has grown by no more than `tolerance`" (module docstring)."""
    limit = tolerance / gap.unit
    up = log_evidence_above(gap.difference, limit)
    if direction == "directed":
        return up
    grown = min(up, log_evidence_above(gap.total, limit))
    turned = min(log_evidence_below(gap.difference, -limit), log_evidence_below(gap.total, -limit))
    return log_sum([grown, turned]) - math.log(2.0)


def growth_bounds(gap: GapSums, error: float, direction: Direction = "absolute") -> Interval:
    """Bounds of the growth E[y] - E[x], in [-2, 2], or |E[y]| - |E[x]|, in [-1, 1]; over all looks, each end is ever
    wrong with at most the probability `error`. Raises ValueError if error is outside (0, 1).
    """
    if not 0.0 < error < 1.0:
        raise ValueError(f"error {error} is outside (0, 1)")
    if direction == "directed":
        a = bounds(gap.difference, error)
        return Interval(max(-2.0, gap.unit * a.lower), min(2.0, gap.unit * a.upper))
    # Each end of the growth depends on one end of A and one of B: half of the error each.
    a, b = bounds(gap.difference, error / 2), bounds(gap.total, error / 2)
    upper = max(min(a.upper, b.upper), min(-a.lower, -b.lower))
    lower = -max(min(-a.lower, b.upper), min(a.upper, -b.lower))
    return Interval(max(-1.0, gap.unit * lower), min(1.0, gap.unit * upper))


def growth(gap: GapSums, direction: Direction = "absolute") -> float:
    """Return the growth of the gap by the means so far; NaN without a pair."""
    x, y = gap.means
    return y - x if direction == "directed" else abs(y) - abs(x)


def log_mean_evidence(logs: Sequence[float]) -> float:
    """Logarithm of the mean of e-values, however dependent: an e-value against "none has grown". It is at log(1 /
    alpha) whenever one of K is at log(K / alpha): at least what dividing alpha finds. Raises ValueError for none.
    """
    if not logs:
        raise ValueError("the mean of no evidence is undefined")
    return log_sum(logs) - math.log(len(logs))


def _upper(sums: MeanSums, error: float) -> float:
    """Smallest limit in [-1, 1] from which on every mean is refuted."""
    needed = math.log(1.0 / error)
    low, high = -1.0, 1.0
    if log_evidence_below(sums, high) < needed:
        return high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if log_evidence_below(sums, middle) >= needed:
            high = middle
        else:
            low = middle
    return high
