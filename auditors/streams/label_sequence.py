"""A mean corrected by labels, with bounds that hold at all times: a prediction-powered betting sequence.
Label t is drawn without replacement from judged exchanges. With w its exchange's share in the mean, q the probability
of its draw among those left, r = w / q, J the judge's mean, and a trust tau fixed before the label, Z = tau * J + sum
over earlier labels of w (person - tau * judge) + r (person - tau * judge) has the people's mean as its mean given the
past, within bounds known before. Capital is bet on "more than m" and "less than m"; the interval has each m against
which neither has reached 2 / alpha. Four fifths of the error belong to the labels, a fifth to J. That the frame is a
sample shows in J alone, so labels should be few next to it. Bets are tuned for HORIZON labels.
Source: Waudby-Smith & Ramdas 2023, arXiv:2010.09686, section 4 (hedged capital, each side apart); Shekhar et al. 2023,
arXiv:2305.06884 (without replacement); Angelopoulos, Duchi & Zrnic 2023, arXiv:2311.01453 (trust).
"""

import math
from collections.abc import Callable

import msgspec

from auditors.metrics.intervals import Interval

LABELS_SHARE = 0.8
"""Share of the error probability that belongs to the labels; the rest belongs to the judge's mean."""
HORIZON = 100
"""Labels for which the bets are tuned; the bounds hold for any number."""
LARGEST_BET = 0.95
"""Largest share of the capital that a single label can lose."""
PRIOR_LABELS = 3
"""Labels in agreement with the judge that the trust begins with."""
LEAST_VARIANCE = 0.01
HALVINGS = 14
"""Halvings of [0, 1] in which a bound lies; it errs to the safe side."""


def judge_level(confidence_level: float) -> float:
    """Return the confidence level that the interval of the judge's mean needs."""
    return 1.0 - (1.0 - LABELS_SHARE) * (1.0 - confidence_level)


class Draw(msgspec.Struct, frozen=True, kw_only=True):
    """The draw of a labelled exchange from its frame; scores are on the scale from 0 to 1."""

    frame: str | None
    """Identity of the frame, in which shares sum to 1; None: drawn evenly from the stream itself."""
    share: float
    """Share of the exchange in the mean of the frame."""
    probability: float
    """Probability of the draw among the exchanges of the frame that were left."""
    largest: float
    """Largest share / probability in the frame at its first draw; later ones are smaller."""
    largest_judge: float
    """The same of share / probability * judge."""
    largest_rest: float
    """The same of share / probability * (1 - judge)."""


class _Bet(msgspec.Struct, frozen=True):
    """One label: Z = z + trust * J, its bounds without trust * J too, and the bet on it."""

    z: float
    low: float
    high: float
    trust: float
    stake: float


class _Moments:
    def __init__(self) -> None:
        self.n, self.x, self.y, self.xx, self.xy = 0, 0.0, 0.0, 0.0, 0.0

    def add(self, x: float, y: float) -> None:
        self.n += 1
        off_x, off_y = x - self.x, y - self.y
        self.x += off_x / self.n
        self.y += off_y / self.n
        self.xx += off_x * (x - self.x)
        self.xy += off_x * (y - self.y)


class LabelSequence:
    """Bounds of a stream's mean by labels in the order in which they came."""

    def __init__(self, judge: float, judge_bounds: Interval, judge_variance: float, confidence_level: float = 0.95):
        """`judge`: mean on 0..1; `judge_bounds`: at `judge_level(confidence_level)`, scaling first bets and trust."""
        self.judge = judge
        self.judge_bounds = judge_bounds
        self._log_limit = math.log(2.0 / (LABELS_SHARE * (1.0 - confidence_level)))
        self._prior = max(LEAST_VARIANCE, judge_variance)
        self._bets: list[_Bet] = []
        self._moments, self._spread = _Moments(), _Moments()
        self._earlier: dict[str | None, tuple[float, float]] = {}

    @property
    def trust(self) -> float:
        """Trust of the next label, 0..1."""
        prior = PRIOR_LABELS * self._prior
        return min(1.0, max(0.0, (self._moments.xy + prior) / (self._moments.xx + prior)))

    def add(self, judge: float, person: float, draw: Draw) -> None:
        """Add the next label; both scores are in [0, 1]."""
        trust, t, ratio = self.trust, len(self._bets) + 1, draw.share / draw.probability
        people, judged = self._earlier.get(draw.frame, (0.0, 0.0))
        base = people - trust * judged
        z = base + ratio * (person - trust * judge)
        low = base - trust * draw.largest_judge
        high = base + trust * draw.largest_rest + (1.0 - trust) * draw.largest
        variance = (self._prior + self._spread.xx) / t
        horizon = max(HORIZON, t * math.log1p(t) / math.log1p(HORIZON))
        self._bets.append(_Bet(z, low, high, trust, math.sqrt(2.0 * self._log_limit / (variance * horizon))))
        self._spread.add(z + trust * self.judge, 0.0)
        self._moments.add(ratio * judge, ratio * person)
        if draw.frame is not None:
            self._earlier[draw.frame] = people + draw.share * person, judged + draw.share * judge

    def value(self) -> float:
        """Return the mean of Z over the labels, 0 to 1; NaN without any."""
        return min(1.0, max(0.0, self._spread.x)) if self._bets else math.nan

    def excludes(self, mean: float) -> bool:
        """Return whether the interval excludes this mean."""
        return max(self._log_capital(mean, above=True), self._log_capital(mean, above=False)) >= self._log_limit

    def interval(self) -> Interval:
        """Return the bounds, in [0, 1]; all of it without labels. Bounds that cross meet in the middle."""
        lower = _last(lambda mean: self._log_capital(mean, above=True) >= self._log_limit)
        upper = 1.0 - _last(lambda distance: self._log_capital(1.0 - distance, above=False) >= self._log_limit)
        middle = (lower + upper) / 2.0
        return Interval(min(lower, middle), max(upper, middle))

    def _log_capital(self, mean: float, *, above: bool) -> float:
        """Return the log capital of the bets that the true mean is above, or below, this one; it is monotone in it."""
        judge, total = self.judge_bounds.lower if above else self.judge_bounds.upper, 0.0
        for bet in self._bets:
            centre = mean - bet.trust * judge
            gain = bet.z - centre if above else centre - bet.z
            worst_loss = centre - bet.low if above else bet.high - centre
            stake = bet.stake if bet.stake * worst_loss <= LARGEST_BET else LARGEST_BET / worst_loss
            total += math.log1p(stake * gain)
        return total


def _last(holds: Callable[[float], bool]) -> float:
    """Return the end of the part of [0, 1], from 0 on, in which `holds` is true; 0 if it is empty."""
    if not holds(0.0):
        return 0.0
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
