"""State of a live series: sums, bounds and a drift detector, updated by single measurements.
A stream is a number about a group on a model by an instrument; a new judge, prompt or embedder starts a new stream, a
new fingerprint of the model does not: an alarm is for that. Bounds and detectors weigh a value by q_min / q, q = p / f:
inclusion probability over the factor by which the moment's rates were lowered at most, known before the draw. So w (y -
m) has mean 0 given the past and no moment makes later values weigh less. The mean weighs by 1 / p, bounded
(`weighting.bounded_weight`), a sender's part on its own (`streams.sender_weights`). Approximate: an audit whose q is
below every earlier one has weight 1. A step to a number that is not finite raises NotFiniteError.
A missing judgement (MISSING) enters the bounds as 0 and 1 (a gap's as -1 and 1), so they hold whatever it would have
been. Refusals and unrelated replies are not missing: they are counted.
"""

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from auditors.metrics import sequential
from auditors.metrics.intervals import Interval, require_finite
from auditors.metrics.sequential import ConfidenceSums
from auditors.metrics.weighting import WeightedSums, add_weighted, bounded_weight, check_rate_factor, less
from auditors.streams import drift, gaps, pace, sender_weights
from auditors.streams import reference as learning
from auditors.streams.drift import ALONE, Detector, DriftSettings, Others
from auditors.streams.gaps import Block
from auditors.streams.pace import Pace
from auditors.streams.scales import GAP_SUFFIX, scaled
from auditors.types import Measurement, Status

MISSING: tuple[Status, ...] = ("malformed", "error", "thinking_exhausted")
"""Statuses of a measurement whose value exists but is unknown."""


UNKNOWN_SAMPLING = "unknown sampling"
"""Beginning of the instrument of exchanges that a sender sampled in an unknown way; they have streams of their own."""
THINKING = "thinking"
"""Member of a measurement's detail: the thinking setting of the model asked, if it is set."""
OWN_IDENTITIES = "own_identities"
"""Member of a measurement's detail: the thinking setting of the model asked, if it is set."""


class StreamKey(msgspec.Struct, frozen=True, kw_only=True):
    """The properties that two measurements of the same series share."""

    auditor: str
    metric: str
    axis: str
    """Empty when the measurement has none."""
    group: str
    model: str
    """The served model (name after aliases)."""
    instrument: str
    """UNKNOWN_SAMPLING where it is so, then the auditor's version with judge and prompt, or embedder, and thinking."""

    @property
    def id(self) -> str:
        """32 hexadecimal digits, fit for a URL and a primary key."""
        return hashlib.blake2b("\0".join(msgspec.structs.astuple(self)).encode(), digest_size=16).hexdigest()

    @property
    def is_sampling_known(self) -> bool:
        """Return whether its mean says something about the traffic, and may have an interval."""
        return not self.instrument.startswith(UNKNOWN_SAMPLING)


class StreamState(msgspec.Struct, frozen=True, kw_only=True):
    """Everything remembered of a stream; plain numbers, so it survives JSON."""

    sums: WeightedSums = WeightedSums()
    """Sums of y in [0, 1], over all audits with a value."""
    low: ConfidenceSums = ConfidenceSums()
    """The same values and every missing one as 0: gives the lower bound."""
    high: ConfidenceSums | None = None
    """The same values and every missing one as 1: gives the upper bound. None while none is missing: as `low`."""
    excluded: dict[str, int] = {}
    """Audits without a value, by status: counted, never scored."""
    least_own: float = 1.0
    """Smallest q so far without the sender's part; an older state begins here again, as only known parts may scale."""
    largest_weight: float = 1.0
    """The largest weight that the next exchange may have for its sender's rate (L of `streams.sender_weights`)."""
    n_cut: int = 0
    """Exchanges with a value whose weight was cut to that."""
    cut_weight: float = 0.0
    """Total that was cut off the weights in `sums`."""
    detector: Detector | None = None
    """The detector; None until there is a reference."""
    block: Block | None = None
    before_window: WeightedSums | None = None
    """Part of `sums` that is not in the window: monitored against a suite run, or before a new level was accepted."""
    half: WeightedSums | None = None
    """Sums of the window's first half, while the reference is learned."""
    declined_run: str | None = None
    """The suite run that is no longer the reference, since another level was accepted."""
    pace: Pace | None = None
    above: WeightedSums | None = None
    """Sums of 1 for a judge's score above 0, and of 0 for others; None before the first since it is kept."""
    damaged: str | None = None
    """Reason why nothing is added to it any more, until the stream is started again; None if it is sound."""

    def __post_init__(self) -> None:
        require_finite(self, self.least_own + self.largest_weight + self.cut_weight)

    @property
    def alarm(self) -> bool:
        """True from the alarm until it is acknowledged."""
        return self.detector is not None and self.detector.alarm

    @property
    def window(self) -> WeightedSums:
        """The audits that the reference is learned from so far, while there is none or it goes on learning."""
        return self.sums if self.before_window is None else less(self.sums, self.before_window)

    @property
    def cut_share(self) -> float:
        """The weight that was cut off, as a share of what there would be without; bounds the bias of the mean."""
        return self.cut_weight / (self.sums.w + self.cut_weight) if self.sums.n else 0.0

    @property
    def n_missing(self) -> int:
        """Audits whose value exists and is not known."""
        return sum(self.excluded.get(status, 0) for status in MISSING)


def stream_key(measurement: Measurement, model: str, *, is_sampling_known: bool = True) -> StreamKey:
    """The stream a measurement belongs to; the reference group does not split streams."""
    instrument = _instrument(measurement)
    return StreamKey(
        auditor=measurement.auditor,
        metric=measurement.metric,
        axis=measurement.axis or "",
        group=measurement.group or "",
        model=model,
        instrument=instrument if is_sampling_known else f"{UNKNOWN_SAMPLING}, {instrument}",
    )


def gap_key(key: StreamKey) -> StreamKey:
    """The stream of the gap between this stream's group and the others of its axis."""
    return msgspec.structs.replace(key, metric=key.metric + GAP_SUFFIX)


def record(
    state: StreamState,
    measurement: Measurement,
    probability: float,
    settings: DriftSettings,
    *,
    rate_factor: float = 1.0,
    sender_rate: float = 1.0,
    others: Others = ALONE,
    exchange_id: str = "",
    at: float | None = None,
) -> StreamState:
    """The stream after one measurement: `update` when it has a value, `exclude` when it has none."""
    if measurement.status != "ok" or measurement.value is None:
        return exclude(state, measurement.status, probability, rate_factor=rate_factor, sender_rate=sender_rate)
    y = scaled(measurement.metric, measurement.value)
    run_reference = settings.references.get(reference_name(measurement.metric, measurement.axis, measurement.group))
    if measurement.judge is not None:
        counted = sender_weights.counted_probability(probability, sender_rate, state.largest_weight)
        weight = measurement.weight * bounded_weight(counted, rate_factor)
        above = add_weighted(state.above or WeightedSums(), float(measurement.value > 0.0), weight)
        state = msgspec.structs.replace(state, above=above)
    return update(
        state,
        y,
        probability,
        settings,
        rate_factor=rate_factor,
        sender_rate=sender_rate,
        others=others,
        exchange_id=exchange_id,
        reference=run_reference,
        at=at,
        size=measurement.weight,
    )


def exclude(
    state: StreamState, status: Status, probability: float = 1.0, *, rate_factor: float = 1.0, sender_rate: float = 1.0
) -> StreamState:
    """The stream after an audit without a value: one more in `excluded`; a missing one moves the bounds apart."""
    if status not in MISSING:
        return msgspec.structs.replace(state, excluded=_one_more(state, status))
    relative = _relative(state, probability, rate_factor, sender_rate)
    apart = _apart(state, status, _weight(state, relative))
    return msgspec.structs.replace(apart, least_own=min(state.least_own, relative))


def update(
    state: StreamState,
    y: float,
    probability: float,
    settings: DriftSettings,
    *,
    rate_factor: float = 1.0,
    sender_rate: float = 1.0,
    others: Others = ALONE,
    exchange_id: str = "",
    reference: Interval | None = None,
    at: float | None = None,
    size: float = 1.0,
) -> StreamState:
    """The stream after a value y on [0, 1]. The first `reference_window` values make the reference, unless a suite run
    does; each later one steps the detector, and some close the reference in. `probability`: of reaching this auditor;
    `rate_factor`: see `types`; `sender_rate`: the stated part, all in (0, 1]; `exchange_id`: kept when it speaks for a
    change; `reference`: a suite run's interval; `at`: Unix seconds; `size`: factor of all weights in (0, 1], the mean
    is E[size y] / E[size]. Raises ValueError out of range.
    """
    relative = _relative(state, probability, rate_factor, sender_rate)
    if not 0.0 < size <= 1.0:
        raise ValueError(f"size {size} is outside (0, 1]")
    counted = sender_weights.counted_probability(probability, sender_rate, state.largest_weight)
    weight = size * bounded_weight(counted, rate_factor)
    value = _Value(y, size * _weight(state, relative), add_weighted(state.sums, y, weight), exchange_id, at=at)
    cut = size * bounded_weight(probability, rate_factor) - weight
    moved = _weighed(_moved(state, value, _Watch(settings, others, reference)), sender_rate, settings, cut)
    return msgspec.structs.replace(moved, least_own=min(state.least_own, relative))


def record_gap(
    state: StreamState,
    group: Sequence[float],
    rest: Sequence[float],
    probability: float,
    settings: DriftSettings,
    *,
    rate_factor: float = 1.0,
    sender_rate: float = 1.0,
    others: Others = ALONE,
    exchange_id: str = "",
    reference: Interval | None = None,
    at: float | None = None,
) -> StreamState:
    """A gap stream after an exchange; only its open block moves until both sides score (`group`, `rest`; [0, 1])."""
    relative = _relative(state, probability, rate_factor, sender_rate)
    block, closed = gaps.add(state.block or Block(), group, rest, relative, exchange_id)
    state = msgspec.structs.replace(state, block=block)
    if group or rest:
        state = _weighed(state, sender_rate, settings)
    if closed is None:
        return state
    sums = add_weighted(state.sums, closed.y, closed.weight)
    value = _Value(closed.y, closed.weight, sums, closed.rising_id, closed.falling_id, closed.n_exchanges, at)
    return _moved(state, value, _Watch(settings, others, reference))


def miss_gap(
    state: StreamState,
    status: Status,
    probability: float,
    *,
    rate_factor: float = 1.0,
    sender_rate: float = 1.0,
    has_group: bool,
    has_others: bool,
) -> StreamState:
    """A gap stream after an exchange that lacks a score of its axis: the bounds move apart, and nothing else."""
    relative = _relative(state, probability, rate_factor, sender_rate)
    block, weight = gaps.miss(state.block or Block(), relative, has_group=has_group, has_others=has_others)
    return _apart(msgspec.structs.replace(state, block=block), status, weight)


def reference_name(metric: str, axis: str | None, group: str | None) -> str:
    """The key of `DriftSettings.references`."""
    return "/".join((metric, axis or "", group or ""))


def acknowledge(state: StreamState, *, accept_new_level: bool = False) -> StreamState:
    """The stream without alarm, its detector restarted; accept_new_level: first with a new reference, unmonitored."""
    if state.detector is None:
        return state
    block = gaps.afresh(state.block) if state.block is not None else None
    if not accept_new_level:
        return msgspec.structs.replace(state, detector=drift.acknowledge(state.detector), block=block)
    run = state.detector.reference_run or state.declined_run
    return msgspec.structs.replace(
        state, detector=None, block=block, before_window=state.sums, half=None, declined_run=run
    )


class _Value(NamedTuple):
    """One value of a stream and what its detector is to know of it (see `drift.step`)."""

    y: float
    weight: float
    sums: WeightedSums
    """The stream's, with this value."""
    exchange_id: str
    falling_id: str | None = None
    starts: int = 1
    at: float | None = None


class _Watch(NamedTuple):
    """Settings of the detector, the other streams and the suite run's interval."""

    settings: DriftSettings
    others: Others
    reference: Interval | None


def _moved(state: StreamState, value: _Value, watch: _Watch) -> StreamState:
    if state.declined_run is not None and state.declined_run == watch.settings.reference_run:
        watch = watch._replace(reference=None)
    if _has_lost_its_run(state, watch.reference):
        state = msgspec.structs.replace(state, detector=None, before_window=state.sums, half=None)
    moved = msgspec.structs.replace(
        state,
        sums=value.sums,
        low=sequential.add(state.low, value.y, value.weight),
        high=sequential.add(state.high, value.y, value.weight) if state.high else None,
        pace=state.pace if value.at is None else pace.add(state.pace, value.at),
    )
    detector = _watched(state, value, watch)
    moved = msgspec.structs.replace(moved, detector=detector)
    if detector is None:
        return _learned(moved, watch)
    return _looked_again(moved, detector, watch) if detector.next_look else moved


def _has_lost_its_run(state: StreamState, reference: Interval | None) -> bool:
    """Return whether the reference is a suite run that no longer is the reference; an active alarm keeps it."""
    detector = state.detector
    return detector is not None and detector.reference_run is not None and reference is None and not detector.alarm


def _watched(state: StreamState, value: _Value, watch: _Watch) -> Detector | None:
    detector, reference = state.detector, watch.reference
    run = watch.settings.reference_run if reference is not None else None
    if detector is not None and detector.reference_run != run and not detector.alarm:
        detector = None  # another reference is another question: the evidence so far does not answer it
    if detector is None and reference is not None:
        detector = drift.start(reference, watch.settings, run)
    if detector is None:
        return None
    return drift.step(
        detector,
        value.y,
        value.weight,
        watch.settings,
        starts=value.starts,
        others=watch.others,
        exchange_id=value.exchange_id,
        falling_id=value.falling_id,
        at=value.at,
        inverse=value.sums.w - state.sums.w,
    )


def _learned(state: StreamState, watch: _Watch) -> StreamState:
    """A stream without a detector after a value of its window; the last one of the window starts it."""
    window, settings = state.window, watch.settings
    if window.n < settings.reference_window:
        return msgspec.structs.replace(state, half=window) if window.n == settings.reference_window // 2 else state
    detector = drift.start(learning.first(window), settings, window=window)
    moved = state.half is not None and learning.has_moved(state.half, window)
    detector = msgspec.structs.replace(detector, moved_while_learning=moved)
    return msgspec.structs.replace(state, detector=_with_next_look(detector, watch), half=None)


def _looked_again(state: StreamState, detector: Detector, watch: _Watch) -> StreamState:
    """A stream whose reference goes on learning, after one more value; an alarm ends that at once."""
    window = state.window
    if detector.alarm:
        return msgspec.structs.replace(state, detector=msgspec.structs.replace(detector, next_look=0))
    if window.n < detector.next_look:
        return state
    closer = learning.narrowed(detector.reference, detector.window or WeightedSums(), window)
    if closer is None:
        moved = msgspec.structs.replace(detector, next_look=0, moved_while_learning=True)
        return msgspec.structs.replace(state, detector=moved)
    detector = drift.close_in(detector, closer, window, watch.settings)
    return msgspec.structs.replace(state, detector=_with_next_look(detector, watch))


def _with_next_look(detector: Detector, watch: _Watch) -> Detector:
    """The detector with the number of audits at which its reference is to be looked at again, if at all."""
    n = detector.window.n if detector.window is not None else 0
    wanted, log_threshold = watch.settings.smallest_change, watch.settings.log_threshold(1 + watch.others.count)
    before = learning.before_change(detector)
    change = learning.smallest_change(detector.limits, *before, log_threshold=log_threshold, wanted=wanted)
    can_find = change is not None and change <= wanted
    next_look = 0 if can_find else learning.next_look(n, watch.settings.reference_window)
    return msgspec.structs.replace(detector, next_look=next_look)


def _apart(state: StreamState, status: Status, weight: float) -> StreamState:
    return msgspec.structs.replace(
        state,
        excluded=_one_more(state, status),
        low=sequential.add(state.low, 0.0, weight),
        high=sequential.add(state.high or state.low, 1.0, weight),
    )


def _one_more(state: StreamState, status: Status) -> dict[str, int]:
    return {**state.excluded, status: state.excluded.get(status, 0) + 1}


def _weighed(state: StreamState, sender_rate: float, settings: DriftSettings, cut: float = 0.0) -> StreamState:
    if sender_rate * state.largest_weight == 1.0:
        return state
    return msgspec.structs.replace(
        state,
        largest_weight=sender_weights.next_largest(state.largest_weight, sender_rate, settings.max_weight_share),
        n_cut=state.n_cut + sender_weights.is_cut(sender_rate, state.largest_weight),
        cut_weight=state.cut_weight + max(0.0, cut),
    )


def _relative(state: StreamState, probability: float, rate_factor: float, sender_rate: float) -> float:
    """Return q with the sender's part relative to its largest weight; over 1 where only others' rates were lowered."""
    check_rate_factor(rate_factor)
    return sender_weights.relative_probability(probability, sender_rate, state.largest_weight) / rate_factor


def _weight(state: StreamState, relative: float) -> float:
    return min(1.0, state.least_own / relative)


def _instrument(measurement: Measurement) -> str:
    if measurement.judge is not None:
        parts: list[str | None] = [measurement.judge.model, measurement.judge.prompt_sha256[:12]]
    else:
        parts = [measurement.detail.get(name) for name in ("embedder", OWN_IDENTITIES, "sampling")]
    if thinking := measurement.detail.get(THINKING):
        parts.append(f"thinking={thinking}")
    return " ".join([f"v{measurement.auditor_version}", *filter(None, parts)])
