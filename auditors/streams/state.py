"""State of a live series: sums, bounds and a drift detector, updated by one measurement at a time. Pure, no I/O.

One stream is one number about one group on one model by one instrument; a change of judge, prompt or embedder starts a
new stream. The served model's fingerprint does not: that its answers changed is what an alarm is for.

Exact: the running sums and counts; the inverse-probability weights; the detector's run length given its limits
(`streams.drift`). Approximate: an audit whose inclusion probability is below every earlier one is counted with weight 1
instead of more. What the sums then say is in auditors.streams.estimates.

A judgement that is missing (malformed or an error, see MISSING) enters the lower bound as 0 and the upper bound as 1,
so the bounds hold whatever it would have been; in a gap, as -1 and as 1. Refusals and unrelated replies are no missing
values: they are counted, and the mean is that of the answers that can be scored.
"""

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from auditors.metrics import confidence
from auditors.metrics.confidence import ConfidenceSums
from auditors.metrics.intervals import Interval
from auditors.metrics.weighting import (
    WeightedSums,
    add,
    add_weighted,
    check_probability,
    fixed_time_interval,
    less,
)
from auditors.streams import drift, gaps
from auditors.streams.drift import ALONE, Detector, DriftSettings, Others
from auditors.streams.gaps import Block
from auditors.streams.scales import GAP_SUFFIX, scaled
from auditors.types import Measurement, Status

MISSING: tuple[Status, ...] = ("malformed", "error")
"""There is a value, and nobody knows it."""


class StreamKey(msgspec.Struct, frozen=True, kw_only=True):
    """What makes two measurements parts of one series."""

    auditor: str
    metric: str
    axis: str
    """Empty when the measurement has none."""
    group: str
    model: str
    """The served model (name after aliases)."""
    instrument: str
    """Auditor version with judge and prompt, or with the embedder."""

    @property
    def id(self) -> str:
        """32 hexadecimal digits, fit for a URL and a primary key."""
        return hashlib.blake2b("\0".join(msgspec.structs.astuple(self)).encode(), digest_size=16).hexdigest()


class StreamState(msgspec.Struct, frozen=True, kw_only=True):
    """Everything remembered of one stream; plain numbers, so it survives JSON."""

    sums: WeightedSums = WeightedSums()
    """Of y in [0, 1], over all audits with a value."""
    low: ConfidenceSums = ConfidenceSums()
    """The same values and every missing one as 0: gives the lower bound."""
    high: ConfidenceSums | None = None
    """The same values and every missing one as 1: gives the upper bound. None while none is missing: as `low`."""
    excluded: dict[str, int] = {}
    """Audits without a value, by status: counted, never scored."""
    min_probability: float = 1.0
    """Smallest inclusion probability so far."""
    detector: Detector | None = None
    """None until there is a reference."""
    block: Block | None = None
    """The open block of a gap stream."""
    before_window: WeightedSums | None = None
    """Part of `sums` that was monitored against a suite run, and is no part of the window that came after it."""

    @property
    def alarm(self) -> bool:
        """True from the alarm until it is acknowledged."""
        return self.detector is not None and self.detector.alarm

    @property
    def n_missing(self) -> int:
        """Audits whose value exists and is not known."""
        return sum(self.excluded.get(status, 0) for status in MISSING)


def stream_key(measurement: Measurement, model: str) -> StreamKey:
    """The stream a measurement belongs to; the reference group does not split streams."""
    return StreamKey(
        auditor=measurement.auditor,
        metric=measurement.metric,
        axis=measurement.axis or "",
        group=measurement.group or "",
        model=model,
        instrument=_instrument(measurement),
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
    others: Others = ALONE,
    exchange_id: str = "",
) -> StreamState:
    """The stream after one measurement: `update` when it has a value, `exclude` when it has none."""
    if measurement.status != "ok" or measurement.value is None:
        return exclude(state, measurement.status, probability)
    y = scaled(measurement.metric, measurement.value)
    reference = settings.references.get(reference_name(measurement.metric, measurement.axis, measurement.group))
    return update(state, y, probability, settings, others=others, exchange_id=exchange_id, reference=reference)


def exclude(state: StreamState, status: Status, probability: float = 1.0) -> StreamState:
    """The stream after an audit without a value: one more in `excluded`; a missing one moves the bounds apart."""
    if status not in MISSING:
        return msgspec.structs.replace(state, excluded=_one_more(state, status))
    apart = _apart(state, status, _weight(state, probability))
    return msgspec.structs.replace(apart, min_probability=min(state.min_probability, probability))


def update(
    state: StreamState,
    y: float,
    probability: float,
    settings: DriftSettings,
    *,
    others: Others = ALONE,
    exchange_id: str = "",
    reference: Interval | None = None,
) -> StreamState:
    """The stream after one value.

    The first `reference_window` values make the reference, unless a suite run does; each later one steps the detector.
    Where a run was the reference before, those are the first after it.

    Args:
        state: the stream before it.
        y: score on [0, 1].
        probability: with which this exchange reached this auditor, in (0, 1].
        settings: reference and detector.
        others: the other streams, for the threshold.
        exchange_id: kept when the value speaks for a change.
        reference: the suite run's interval, where there is one for this stream.

    Raises: ValueError if y or probability is out of range.
    """
    value = _Value(y, _weight(state, probability), exchange_id)
    moved = _moved(state, value, add(state.sums, y, probability), settings, others, reference)
    return msgspec.structs.replace(moved, min_probability=min(state.min_probability, probability))


def record_gap(
    state: StreamState,
    group: Sequence[float],
    rest: Sequence[float],
    probability: float,
    settings: DriftSettings,
    *,
    others: Others = ALONE,
    exchange_id: str = "",
    reference: Interval | None = None,
) -> StreamState:
    """A gap stream after one exchange: nothing but its open block moves until both sides have a score.

    Args:
        state: the stream before it.
        group: scores of its group in this exchange, on [0, 1].
        rest: scores of the other groups of the axis.
        probability: with which this exchange reached this auditor, in (0, 1].
        settings: reference and detector.
        others: the other streams, for the threshold.
        exchange_id: kept when it speaks most in a block that speaks for a change.
        reference: the suite run's interval, where it has one for this gap; else the first blocks make it.
    """
    block, closed = gaps.add(state.block or Block(), group, rest, probability, exchange_id)
    state = msgspec.structs.replace(state, block=block)
    if closed is None:
        return state
    value = _Value(closed.y, closed.weight, closed.rising_id, closed.falling_id, starts=closed.n_exchanges)
    return _moved(state, value, add_weighted(state.sums, closed.y, closed.weight), settings, others, reference)


def miss_gap(
    state: StreamState, status: Status, probability: float, *, has_group: bool, has_others: bool
) -> StreamState:
    """A gap stream after an exchange that lacks a score of its axis: the bounds move apart, and nothing else.

    Args:
        state: the stream before it.
        status: why the score is missing, one of MISSING.
        probability: with which this exchange reached this auditor, in (0, 1].
        has_group: whether the exchange concerns the stream's group.
        has_others: whether it concerns another group of the axis.
    """
    block, weight = gaps.miss(state.block or Block(), probability, has_group=has_group, has_others=has_others)
    return _apart(msgspec.structs.replace(state, block=block), status, weight)


def reference_name(metric: str, axis: str | None, group: str | None) -> str:
    """The key of `DriftSettings.references`."""
    return "/".join((metric, axis or "", group or ""))


def acknowledge(state: StreamState) -> StreamState:
    """The stream with its alarm lowered and its detector restarted on the same reference, a gap's with a new block."""
    if state.detector is None:
        return state
    block = gaps.afresh(state.block) if state.block is not None else None
    return msgspec.structs.replace(state, detector=drift.acknowledge(state.detector), block=block)


class _Value(NamedTuple):
    """One value of a stream and what its detector is to know of it (see `drift.step`)."""

    y: float
    weight: float
    exchange_id: str
    falling_id: str | None = None
    starts: int = 1


def _moved(
    state: StreamState,
    value: _Value,
    sums: WeightedSums,
    settings: DriftSettings,
    others: Others,
    reference: Interval | None,
) -> StreamState:
    """The stream after a value that makes `sums` of its sums."""
    if _has_lost_its_run(state, reference):
        state = msgspec.structs.replace(state, detector=None, before_window=state.sums)
    return msgspec.structs.replace(
        state,
        sums=sums,
        low=confidence.add(state.low, value.y, value.weight),
        high=confidence.add(state.high, value.y, value.weight) if state.high else None,
        detector=_watched(state, value, sums, settings, others, reference),
    )


def _has_lost_its_run(state: StreamState, reference: Interval | None) -> bool:
    """Whether the detector's reference is a suite run that is the reference no more; an active alarm keeps it."""
    detector = state.detector
    return detector is not None and detector.reference_run is not None and reference is None and not detector.alarm


def _watched(
    state: StreamState,
    value: _Value,
    sums: WeightedSums,
    settings: DriftSettings,
    others: Others,
    reference: Interval | None,
) -> Detector | None:
    detector = state.detector
    run = settings.reference_run if reference is not None else None
    if detector is not None and detector.reference_run != run and not detector.alarm:
        detector = None  # another reference is another question: the evidence so far does not answer it
    if detector is None and reference is not None:
        detector = drift.start(reference, settings, run)
    if detector is not None:
        return drift.step(
            detector,
            value.y,
            value.weight,
            settings,
            starts=value.starts,
            others=others,
            exchange_id=value.exchange_id,
            falling_id=value.falling_id,
        )
    window = sums if state.before_window is None else less(sums, state.before_window)
    return drift.start(fixed_time_interval(window, 0.95), settings) if window.n >= settings.reference_window else None


def _apart(state: StreamState, status: Status, weight: float) -> StreamState:
    return msgspec.structs.replace(
        state,
        excluded=_one_more(state, status),
        low=confidence.add(state.low, 0.0, weight),
        high=confidence.add(state.high or state.low, 1.0, weight),
    )


def _one_more(state: StreamState, status: Status) -> dict[str, int]:
    return {**state.excluded, status: state.excluded.get(status, 0) + 1}


def _weight(state: StreamState, probability: float) -> float:
    check_probability(probability)
    return min(1.0, state.min_probability / probability)


def _instrument(measurement: Measurement) -> str:
    if measurement.judge is not None:
        return f"v{measurement.auditor_version} {measurement.judge.model} {measurement.judge.prompt_sha256[:12]}"
    return " ".join([f"v{measurement.auditor_version}", *filter(None, [measurement.detail.get("embedder")])])
