"""A drift alarm with a stated false-alarm rate: Shiryaev-Roberts e-detectors on both sides of a reference.
Exact: while the conditional mean stays within the limits, the mean number of audits until an alarm is at least
`average_run_length`, for any dependence, also with limits made of earlier audits, and from an acknowledgement on. Not
exact: limits come from a finite reference, and an audit whose probability is below every earlier one has weight 1.
K streams are counted together: S = (sum of all R) / K grows by at most 1 an exchange in expectation, also when K grows.
A gap begins as many tests as its block has exchanges. A stream alarms where S >= A and its own R >= A. Streams with an
alarm count in K, not in the sum; those below A * LEAST_SHARE are left out, which only lowers S.
"""

import math
from collections.abc import Mapping
from typing import Literal, NamedTuple

import msgspec

from auditors.metrics import sequential
from auditors.metrics.intervals import Interval, require_finite
from auditors.metrics.sequential import BETS, ConfidenceSums, log_mean_evidence, log_sum, shiryaev_roberts_step
from auditors.metrics.weighting import WeightedSums

LIMIT_FLOOR = 1e-3
"""Smallest limit: below it one ordinary score would be unbounded evidence of nothing that matters."""
KEPT_CONTRIBUTIONS = 10
"""Audits remembered on each side as those that spoke most for a change."""

LEAST_SHARE = 0.01
"""Part of A from which the evidence of another stream counts: without those below, S is too small by this at most."""

_BET_BEHIND = BETS[3]
"""Bet, about 0.1, of the CUSUM that says since when audits speak for a change: the last time that it was at 0."""


class DriftSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings for calling a change a drift; the [drift] section of the configuration."""

    average_run_length: float = 100_000.0
    """A: mean number of audited exchanges between two false alarms of all streams together, at least."""
    tolerance: float = 0.02
    """Added to the reference limits on the 0..1 scale."""
    reference_window: int = 2000
    """The first audits of a stream that make its reference, unless a run has one for it."""
    smallest_change: float = 0.1
    """Smallest change to be found, on the 0..1 scale: until then a stream's own reference goes on learning."""
    reference_run: str | None = None
    """Id of the suite run whose estimates are the reference."""
    references: Mapping[str, Interval] = {}
    """The run's intervals on the 0..1 scale by `auditors.streams.state.reference_name`."""
    equivalence_margin: float | None = None
    """Distance on the 0..1 scale below which a change is shown to be smaller (`smaller`)."""
    false_discovery_rate: float = 0.05
    """Largest mean share of streams that did not move in the list of those that moved (`auditors.streams.moves`)."""
    max_weight_share: float = 0.05
    """Largest share of a stream that an exchange may weigh for its sender's rate (`streams.sender_weights`)."""

    def __post_init__(self) -> None:
        if self.average_run_length <= 1 or not 0 <= self.tolerance < 1 or self.reference_window < 2:
            raise ValueError(
                f"{self}: average_run_length must be over 1, tolerance in [0, 1), reference_window 2 or more"
            )
        for name in ("smallest_change", "max_weight_share", "equivalence_margin"):
            if (value := getattr(self, name)) is not None and not 0.0 < value <= 1.0:
                raise ValueError(f"{self}: {name} must be in (0, 1]")

    def log_threshold(self, n_streams: int = 1) -> float:
        """Log evidence that a single one of so many streams needs to alarm by itself."""
        return math.log(self.average_run_length) + math.log(max(1, n_streams))


class Others(msgspec.Struct, frozen=True, kw_only=True):
    """The state of all other streams that a stream needs to decide on an alarm."""

    count: int = 0
    log_evidence: float = -math.inf
    """Log of the sum of their R, those with an active alarm left out."""


ALONE = Others()


class Contribution(msgspec.Struct, frozen=True, array_like=True):
    """One audit that spoke for a change."""

    exchange_id: str
    gain: float
    """weight * (y / limit - 1): what a bet of 1 would have won on it."""

    def __post_init__(self) -> None:
        require_finite(self, self.gain)


class Level(msgspec.Struct, frozen=True, array_like=True):
    """Sums of n values, each weighted with the inverse of its probability."""

    n: int = 0
    w: float = 0.0
    wy: float = 0.0

    def __post_init__(self) -> None:
        require_finite(self, self.w + self.wy)

    @property
    def mean(self) -> float | None:
        return self.wy / self.w if self.n else None

    def plus(self, n: int, w: float, wy: float) -> "Level":
        return Level(self.n + n, self.w + w, self.wy + wy)


class Behind(msgspec.Struct, frozen=True, array_like=True):
    """Audits that spoke most for a change to a side, since they began to."""

    cusum: float = 0.0
    """Current value of max(0, before + log(1 + bet * gain)); at 0 the list starts again."""
    largest: list[Contribution] = []
    """The KEPT_CONTRIBUTIONS largest gains, the largest first; left as they are once the alarm is up."""
    since: float | None = None
    """Unix time of the exchange with which the CUSUM left 0; None at 0, and where no time was given."""
    level: Level = Level()
    """The values since then, those after the alarm among them."""
    sums: ConfidenceSums = ConfidenceSums()
    """The same values for an interval; fewer where they began before this was kept."""

    def __post_init__(self) -> None:
        require_finite(self, self.cusum + (self.since or 0.0))


class Smaller(msgspec.Struct, frozen=True, array_like=True):
    """A margin, and the time of the audit from which on each showed that the change is smaller."""

    margin: float
    since: float | None


class Detector(msgspec.Struct, frozen=True, kw_only=True):
    """State of a two-sided detector; plain numbers, so it survives JSON."""

    reference: Interval
    """Interval of the reference mean, on the 0..1 scale."""
    reference_run: str | None = None
    """The suite run it comes from; None for the stream's own first audits."""
    upper_limit: float
    """Null hypothesis of the rising side: mean(y) <= upper_limit."""
    lower_limit: float
    """Null hypothesis of the falling side: mean(y) >= lower_limit."""
    rising: list[float] = msgspec.field(default_factory=lambda: [0.0] * len(BETS))
    falling: list[float] = msgspec.field(default_factory=lambda: [0.0] * len(BETS))
    n_seen: int = 0
    """Values (of a gap: blocks) since the detector was started or acknowledged."""
    alarm: bool = False
    """Latched until `acknowledge`."""
    behind_rising: Behind = Behind()
    behind_falling: Behind = Behind()
    window: WeightedSums | None = None
    """The audits that made the reference at its last look; None for a run's, and for one made before this was kept."""
    next_look: int = 0
    """Audits of the window at which the reference closes in further; 0 once it is final (`streams.reference`)."""
    moved_while_learning: bool = False
    """True if the halves of its window had different means: of the first window, or at the look that ended learning."""
    first: Level = Level()
    """The first window: with `seen`, what there is of the time before a change."""
    seen: Level = Level()
    """Values since the detector was started or acknowledged."""
    watched: ConfidenceSums = ConfidenceSums()
    """The same for an interval, since this is kept."""
    n_begun: int = 0
    """Audits in these values, of a gap more than values; 0 where it began before this was kept."""
    smaller: Smaller | None = None
    """Set while the change against the reference is shown to be smaller than the margin."""

    def __post_init__(self) -> None:
        ends = self.reference.lower + self.reference.upper + self.upper_limit + self.lower_limit
        require_finite(self, ends + sum(self.rising) + sum(self.falling))

    @property
    def limits(self) -> Interval:
        return Interval(self.lower_limit, self.upper_limit)

    @property
    def log_evidence(self) -> float:
        """Log of the mean of R over bets and sides; -inf before the first audit."""
        return log_mean_evidence(self.rising, self.falling)

    @property
    def direction(self) -> Literal["rising", "falling"]:
        """The side with more evidence; of an alarm the side that raised it, whatever came after."""
        if self.alarm:
            return "rising" if self.behind_rising.cusum >= self.behind_falling.cusum else "falling"
        return "rising" if log_mean_evidence(self.rising) >= log_mean_evidence(self.falling) else "falling"

    @property
    def change_evidence(self) -> Behind:
        """Return the audits that are evidence for a change in `direction`."""
        return self.behind_rising if self.direction == "rising" else self.behind_falling

    @property
    def behind(self) -> list[str]:
        """Exchanges that speak most for a change to that side, the strongest first."""
        return list(dict.fromkeys(contribution.exchange_id for contribution in self.change_evidence.largest))

    @property
    def shift_at_most(self) -> float:
        """Largest distance, on 0..1, of reference and later mean that both 95 % intervals (2.5 % a side) allow."""
        lower, upper = sequential.lower_bound(self.watched), sequential.upper_bound(self.watched)
        return min(1.0, max(upper - self.reference.lower, self.reference.upper - lower))

    @property
    def before(self) -> Level:
        """The values of the time before that change: the first window, and what came after it and speaks for none."""
        since = self.change_evidence.level
        return self.first.plus(self.seen.n - since.n, self.seen.w - since.w, self.seen.wy - since.wy)


def start(
    reference: Interval, settings: DriftSettings, run: str | None = None, window: WeightedSums | None = None
) -> Detector:
    """Start on a reference interval (0..1) that no later audit moves; `run`: of the suite run, `window`: own audits."""
    limits = limits_of(reference, settings)
    return Detector(
        reference=reference,
        reference_run=run,
        upper_limit=limits.upper,
        lower_limit=limits.lower,
        window=window,
        first=Level() if window is None else Level(window.n, window.w, window.wy),
    )


def limits_of(reference: Interval, settings: DriftSettings) -> Interval:
    """The limits that a detector has with a reference: the tolerance is added on both sides."""
    upper = _limit(reference.upper + settings.tolerance)
    return Interval(1.0 - _limit(1.0 - reference.lower + settings.tolerance), upper)


def close_in(detector: Detector, reference: Interval, window: WeightedSums, settings: DriftSettings) -> Detector:
    """Return the detector with a reference inside its own, made of audits of `window` that it has seen already."""
    limits = limits_of(reference, settings)
    return msgspec.structs.replace(
        detector,
        reference=reference,
        upper_limit=min(limits.upper, detector.upper_limit),
        lower_limit=max(limits.lower, detector.lower_limit),
        window=window,
    )


def step(
    detector: Detector,
    y: float,
    weight: float,
    settings: DriftSettings,
    *,
    starts: int = 1,
    others: Others = ALONE,
    exchange_id: str = "",
    falling_id: str | None = None,
    at: float | None = None,
    inverse: float = 1.0,
) -> Detector:
    """The detector after a value y in [0, 1] of weight p_min / p in (0, 1], p_min being known before it. `starts`:
    audits in the value; `exchange_id`: kept when it speaks for a change ("" keeps nothing), `falling_id` for a fall
    (None: a single exchange); `at`: Unix seconds; `inverse`: weight in the means. Raises ValueError out of range.
    """
    rising = shiryaev_roberts_step(detector.rising, y, detector.upper_limit, weight, starts)
    falling = shiryaev_roberts_step(detector.falling, 1.0 - y, 1.0 - detector.lower_limit, weight, starts)
    seen = detector.seen.plus(1, inverse, inverse * y)
    moved = msgspec.structs.replace(detector, rising=rising, falling=falling, n_seen=detector.n_seen + 1, seen=seen)
    up, down = y / detector.upper_limit - 1.0, (1.0 - y) / (1.0 - detector.lower_limit) - 1.0
    ids = exchange_id, exchange_id if falling_id is None else falling_id
    value = _Value(y, weight, inverse, at)
    moved = msgspec.structs.replace(
        moved,
        alarm=detector.alarm or _alarms(rising, falling, settings, others),
        watched=sequential.add(detector.watched, y, weight),
        n_begun=detector.n_begun + starts if detector.n_begun or not detector.n_seen else 0,
        behind_rising=_behind_after(detector.behind_rising, ids[0], weight * up, value, is_over=detector.alarm),
        behind_falling=_behind_after(detector.behind_falling, ids[1], weight * down, value, is_over=detector.alarm),
    )
    smaller = _smaller_after(moved, settings.equivalence_margin, at)
    return moved if smaller == detector.smaller else msgspec.structs.replace(moved, smaller=smaller)


def _smaller_after(detector: Detector, margin: float | None, at: float | None) -> Smaller | None:
    if margin is None or detector.alarm or detector.shift_at_most >= margin:
        return None
    before = detector.smaller
    return before if before is not None and before.margin == margin else Smaller(margin, at)


def acknowledge(detector: Detector) -> Detector:
    """The same detector, its alarm lowered and its evidence back at nothing; reference and limits stay, for good."""
    return Detector(
        reference=detector.reference,
        reference_run=detector.reference_run,
        upper_limit=detector.upper_limit,
        lower_limit=detector.lower_limit,
        window=detector.window,
        moved_while_learning=detector.moved_while_learning,
        first=detector.first,
    )


def _alarms(rising: list[float], falling: list[float], settings: DriftSettings, other_streams: Others) -> bool:
    least = settings.log_threshold()
    if max(*rising, *falling) < least:  # the mean is no larger than the largest: the usual, cheap answer
        return False
    evidence = log_mean_evidence(rising, falling)
    together = log_sum([evidence, other_streams.log_evidence]) - math.log(1 + other_streams.count)
    return min(evidence, together) >= least


class _Value(NamedTuple):
    """Parts of a value that the means and intervals before and since take."""

    y: float
    weight: float
    inverse: float
    at: float | None


def _behind_after(behind: Behind, exchange_id: str, gain: float, value: _Value, *, is_over: bool) -> Behind:
    """Update the evidence with another value; once the alarm is up (`is_over`) only the mean since goes on."""
    level = behind.level.plus(1, value.inverse, value.inverse * value.y)
    sums = sequential.add(behind.sums, value.y, value.weight)
    if is_over:
        return msgspec.structs.replace(behind, level=level, sums=sums)
    cusum = max(0.0, behind.cusum + math.log1p(_BET_BEHIND * gain))
    if cusum == 0.0:
        return _NOTHING_BEHIND
    largest = behind.largest if behind.cusum > 0.0 else []
    if exchange_id and gain > 0.0 and (len(largest) < KEPT_CONTRIBUTIONS or gain > largest[-1].gain):
        ranked = sorted(
            [*largest, Contribution(exchange_id, round(gain, 6))], key=lambda contribution: -contribution.gain
        )
        largest = ranked[:KEPT_CONTRIBUTIONS]
    return Behind(cusum, largest, behind.since if behind.cusum > 0.0 else value.at, level, sums)


_NOTHING_BEHIND = Behind()


def _limit(value: float) -> float:
    return min(1.0, max(LIMIT_FLOOR, value))
