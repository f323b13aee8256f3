"""A drift alarm with a stated false-alarm rate: Shiryaev-Roberts e-detectors on both sides of a fixed reference.

What is exact: while the conditional mean of the audited scores stays within the limits, the mean number of audits
until an alarm is at least `average_run_length`, for any dependence between audits. What is not: the limits come from a
finite reference, so the statement holds given that they cover the truth (they add a tolerance to a conservative
interval), and an audit whose inclusion probability is below every earlier one is counted with weight 1 instead of more.

With K streams the statement is about all of them together, counted in audited exchanges, each of which moves a stream
at most once. A gap moves once a block, and then begins as many tests as the block has exchanges. So S = (sum of all
R) / K grows by at most 1 an exchange in expectation, also when K grows, since that only lowers S; both rules of
`multiplicity` alarm only where S >= A. So the bound holds for a K that grows and never shrinks,
whatever the dependence between streams. Streams with an active alarm count in K and no longer in the sum.
"""

import math
from collections.abc import Mapping
from typing import Literal

import msgspec

from auditors.metrics.intervals import Interval
from auditors.metrics.sequential import BETS, log_mean_evidence, log_sum, shiryaev_roberts_step

LIMIT_FLOOR = 1e-3
"""Smallest limit: below it one ordinary score would be unbounded evidence of nothing that matters."""
KEPT_CONTRIBUTIONS = 10
"""Audits remembered on each side as those that spoke most for a change."""

Multiplicity = Literal["each", "mean"]
"""each: a stream alarms alone, at K * A. mean: at A on the mean of all streams, by those that are at A themselves."""

_BET_BEHIND = BETS[3]
"""Bet, about 0.1, of the CUSUM that says since when audits speak for a change: the last time that it was at 0."""


class DriftSettings(msgspec.Struct, frozen=True, kw_only=True):
    """When to call a change a drift; the [drift] section of the configuration."""

    average_run_length: float = 100_000.0
    """A: mean number of audited exchanges between two false alarms of all streams together, at least."""
    tolerance: float = 0.02
    """Added to the reference limits on the 0..1 scale."""
    multiplicity: Multiplicity = "each"
    reference_window: int = 2000
    """The first audits of a stream that make its reference, unless a run has one for it."""
    reference_run: str | None = None
    """Id of the suite run whose estimates are the reference."""
    references: Mapping[str, Interval] = {}
    """The run's intervals on the 0..1 scale by `auditors.streams.state.reference_name`."""

    def __post_init__(self) -> None:
        if self.average_run_length <= 1 or not 0 <= self.tolerance < 1 or self.reference_window < 2:
            raise ValueError(
                f"{self}: average_run_length must be over 1, tolerance in [0, 1), reference_window 2 or more"
            )

    def log_threshold(self, n_streams: int = 1) -> float:
        """Log evidence that a single one of so many streams needs to alarm by itself."""
        return math.log(self.average_run_length) + math.log(max(1, n_streams))


class Others(msgspec.Struct, frozen=True, kw_only=True):
    """What one stream needs to know of all others to decide whether to alarm."""

    count: int = 0
    log_evidence: float = -math.inf
    """Log of the sum of their R, those with an active alarm left out; used by multiplicity "mean" only."""


ALONE = Others()
"""No other stream is watched."""


class Contribution(msgspec.Struct, frozen=True, array_like=True):
    """One audit that spoke for a change."""

    exchange_id: str
    gain: float
    """weight * (y / limit - 1): what a bet of 1 would have won on it."""


class Behind(msgspec.Struct, frozen=True, array_like=True):
    """Which audits spoke most for a change to one side, since they began to."""

    cusum: float = 0.0
    """max(0, before + log(1 + bet * gain)); at 0 the list starts anew."""
    largest: list[Contribution] = []
    """The KEPT_CONTRIBUTIONS largest gains, the largest first; left as they are once the alarm is up."""


class Detector(msgspec.Struct, frozen=True, kw_only=True):
    """State of one two-sided detector; plain numbers, so it survives JSON."""

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

    @property
    def log_evidence(self) -> float:
        """Log of the mean of R over bets and sides; -inf before the first audit."""
        return log_mean_evidence(self.rising, self.falling)

    @property
    def direction(self) -> Literal["rising", "falling"]:
        """The side with more evidence."""
        return "rising" if log_mean_evidence(self.rising) >= log_mean_evidence(self.falling) else "falling"

    @property
    def behind(self) -> list[str]:
        """Exchanges that speak most for a change to that side, the strongest first."""
        kept = self.behind_rising if self.direction == "rising" else self.behind_falling
        return list(dict.fromkeys(one.exchange_id for one in kept.largest))


def start(reference: Interval, settings: DriftSettings, run: str | None = None) -> Detector:
    """A detector of departures from a reference.

    Args:
        reference: interval of the reference mean on the 0..1 scale; never taken from the monitored audits.
        settings: gives the tolerance added on both sides.
        run: the suite run that the reference comes from.
    """
    return Detector(
        reference=reference,
        reference_run=run,
        upper_limit=_limit(reference.upper + settings.tolerance),
        lower_limit=1.0 - _limit(1.0 - reference.lower + settings.tolerance),
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
) -> Detector:
    """The detector after one value.

    Args:
        detector: state before this value.
        y: score in [0, 1].
        weight: p_min / p_i in (0, 1], p_min being known before this value.
        settings: gives the threshold.
        starts: audits that the value is made of: more than one for a block of a gap.
        others: the other streams, at this moment.
        exchange_id: what was audited, kept when it speaks for a change; empty keeps nothing.
        falling_id: kept instead when it speaks for a fall; None when the value is of a single exchange.

    Raises: ValueError if y, weight or starts is out of range.
    """
    rising = shiryaev_roberts_step(detector.rising, y, detector.upper_limit, weight, starts)
    falling = shiryaev_roberts_step(detector.falling, 1.0 - y, 1.0 - detector.lower_limit, weight, starts)
    if detector.alarm:
        return msgspec.structs.replace(detector, rising=rising, falling=falling, n_seen=detector.n_seen + 1)
    up, down = y / detector.upper_limit - 1.0, (1.0 - y) / (1.0 - detector.lower_limit) - 1.0
    return msgspec.structs.replace(
        detector,
        rising=rising,
        falling=falling,
        n_seen=detector.n_seen + 1,
        alarm=_alarms(rising, falling, settings, others),
        behind_rising=_kept(detector.behind_rising, exchange_id, weight * up),
        behind_falling=_kept(detector.behind_falling, exchange_id if falling_id is None else falling_id, weight * down),
    )


def acknowledge(detector: Detector) -> Detector:
    """The same detector with its alarm lowered and its evidence back at nothing; reference and limits stay."""
    return Detector(
        reference=detector.reference,
        reference_run=detector.reference_run,
        upper_limit=detector.upper_limit,
        lower_limit=detector.lower_limit,
    )


def _alarms(rising: list[float], falling: list[float], settings: DriftSettings, others: Others) -> bool:
    alone = settings.log_threshold(1 if settings.multiplicity == "mean" else 1 + others.count)
    if max(*rising, *falling) < alone:  # the mean is no larger than the largest: the usual, cheap answer
        return False
    evidence = log_mean_evidence(rising, falling)
    if settings.multiplicity == "mean":
        together = log_sum([evidence, others.log_evidence]) - math.log(1 + others.count)
        return min(evidence, together) >= alone
    return evidence >= alone


def _kept(behind: Behind, exchange_id: str, gain: float) -> Behind:
    cusum = max(0.0, behind.cusum + math.log1p(_BET_BEHIND * gain))
    largest = behind.largest if cusum > 0.0 else []
    if exchange_id and gain > 0.0 and (len(largest) < KEPT_CONTRIBUTIONS or gain > largest[-1].gain):
        ranked = sorted([*largest, Contribution(exchange_id, round(gain, 6))], key=lambda one: -one.gain)
        largest = ranked[:KEPT_CONTRIBUTIONS]
    return Behind(cusum, largest)


def _limit(value: float) -> float:
    return min(1.0, max(LIMIT_FLOOR, value))
