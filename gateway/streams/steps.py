"""Computes how a single audit moves the streams that it concerns: pure, between their rows being read and written."""

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from auditors.metrics.sequential import log_sum
from auditors.streams import sender_weights
from auditors.streams import state as live
from auditors.streams.drift import DriftSettings, Others
from auditors.streams.scales import SCALES, scaled
from auditors.streams.soundness import require_sound
from auditors.streams.state import StreamKey, StreamState
from auditors.types import Measurement, Status
from gateway.store.streams import Family, Stream, family_of

_STEP_ERRORS = (ArithmeticError, LookupError, TypeError, ValueError)
"""Errors that adding a value to a state raises if the state, or the value, is wrong."""


class Audited(msgspec.Struct, frozen=True, kw_only=True):
    """The measurements of a single audit of a single exchange, and how it came to be audited."""

    found: Sequence[Measurement]
    exchange_id: str
    at: float
    """Time at which the exchange was received."""
    model: str
    probability: float
    """The sender's part included."""
    rate_factor: float = 1.0
    sender_rate: float | None = 1.0
    """The part of the probability that its sender stated; None: unknown, and it moves streams of their own."""


Counted = dict[int, float]
"""id() of a measurement to the probability whose inverse it weighs in its stream, as `sender_weights` limits it."""


class Part(NamedTuple):
    """One audit's measurements by the streams they concern."""

    audit: Audited
    keyed: Sequence[tuple[StreamKey, Measurement]]
    own: Mapping[str, Sequence[Measurement]]
    """Measurements by id of the stream."""
    scores: Mapping[Family, Sequence["Score"]]
    """Scores by the family of gap streams."""

    @classmethod
    def of(cls, audit: Audited) -> "Part":
        is_known = audit.sender_rate is not None
        keyed = [
            (live.stream_key(measurement, audit.model, is_sampling_known=is_known), measurement)
            for measurement in audit.found
            if measurement.metric in SCALES
        ]
        own: dict[str, list[Measurement]] = {}
        for key, measurement in keyed:
            own.setdefault(key.id, []).append(measurement)
        return cls(audit, keyed, own, _scores_by_family(keyed))

    @property
    def with_gaps(self) -> Iterable[StreamKey]:
        return (key for key, measurement in self.keyed if _has_gap(measurement))


class Step(NamedTuple):
    """Moves every stream that a single audit concerns."""

    audit: Audited
    settings: DriftSettings
    others: "OtherStreams"
    counted: Counted

    def moved(self, stream: Stream, measurements: Sequence[Measurement] | None, scores: Sequence["Score"]) -> Stream:
        """The stream after an audit, by its values or a gap's scores; damaged by its state. Raises faults."""
        if stream.state.damaged:
            self._count(measurements or (), StreamState())
            return stream
        try:
            return self._step(stream, measurements, scores)
        except _STEP_ERRORS as exc:
            self._step(msgspec.structs.replace(stream, state=StreamState()), measurements, scores)
            reason = f"its numbers cannot take another value: {exc}"[:200]
            damaged = msgspec.structs.replace(stream.state, damaged=reason)
            return msgspec.structs.replace(stream, state=damaged, updated_at=time.time())

    def _step(self, stream: Stream, measurements: Sequence[Measurement] | None, scores: Sequence["Score"]) -> Stream:
        """Raises ValueError also where what would be stored could not be read again."""
        moved = self.gap(stream, scores) if measurements is None else self.single(stream, measurements)
        require_sound(moved.state)
        self.others.learn(moved)
        return moved

    def _count(self, measurements: Sequence[Measurement], state: StreamState) -> None:
        audit = self.audit
        probability = sender_weights.counted_probability(audit.probability, self._sender_rate, state.largest_weight)
        self.counted.update({id(measurement): probability for measurement in measurements})

    @property
    def _sender_rate(self) -> float:
        return 1.0 if self.audit.sender_rate is None else self.audit.sender_rate

    def single(self, stream: Stream, measurements: Sequence[Measurement]) -> Stream:
        state, other_streams = stream.state, self.others.than(stream)
        for measurement in measurements:
            self._count([measurement], state)
            state = live.record(
                state,
                measurement,
                self.audit.probability,
                self.settings,
                rate_factor=self.audit.rate_factor,
                sender_rate=self._sender_rate,
                others=other_streams,
                exchange_id=self.audit.exchange_id,
                at=self.audit.at,
            )
        return self._moved(stream, state)

    def gap(self, stream: Stream, scores: Sequence["Score"]) -> Stream:
        mine = [score for score in scores if score.group == stream.key.group]
        rest = [score for score in scores if score.group != stream.key.group]
        state = live.record_gap(
            stream.state,
            [score.y for score in mine if score.y is not None],
            [score.y for score in rest if score.y is not None],
            self.audit.probability,
            self.settings,
            rate_factor=self.audit.rate_factor,
            sender_rate=self._sender_rate,
            others=self.others.than(stream),
            exchange_id=self.audit.exchange_id,
            reference=self.settings.references.get(
                live.reference_name(stream.key.metric, stream.key.axis, stream.key.group)
            ),
            at=self.audit.at,
        )
        if missing := [score.status for score in scores if score.status in live.MISSING]:
            state = live.miss_gap(
                state,
                missing[0],
                self.audit.probability,
                rate_factor=self.audit.rate_factor,
                sender_rate=self._sender_rate,
                has_group=bool(mine),
                has_others=bool(rest),
            )
        return self._moved(stream, state)

    def _moved(self, stream: Stream, state: StreamState) -> Stream:
        now = time.time()
        moved = msgspec.structs.replace(stream, state=state, updated_at=now)
        if state.alarm and not stream.state.alarm:
            return msgspec.structs.replace(moved, alarm_since=now, alarm_exchange_id=self.audit.exchange_id)
        return moved


class OtherStreams:
    """Number of streams and the evidence of those that have much; kept true while streams move."""

    def __init__(self, count: int, evidence: dict[str, float]) -> None:
        self.n_streams = count
        self._evidence = evidence

    def than(self, stream: Stream) -> Others:
        rest = [value for key, value in self._evidence.items() if key != stream.id]
        return Others(count=self.n_streams - 1, log_evidence=log_sum(rest))

    def learn(self, stream: Stream) -> None:
        evidence = log_evidence_of(stream.state)
        self._evidence[stream.id] = -math.inf if evidence is None else evidence


class Score(NamedTuple):
    """The score of a single exchange about a single group: on [0, 1], or missing."""

    group: str
    y: float | None
    status: Status


def _scores_by_family(keyed: Iterable[tuple[StreamKey, Measurement]]) -> dict[Family, list[Score]]:
    scores_by_family: dict[Family, list[Score]] = {}
    for key, measurement in keyed:
        if _has_gap(measurement):
            y = None if measurement.value is None else scaled(measurement.metric, measurement.value)
            scores_by_family.setdefault(family_of(live.gap_key(key)), []).append(
                Score(key.group, y, measurement.status)
            )
    return scores_by_family


def _has_gap(measurement: Measurement) -> bool:
    return (
        SCALES[measurement.metric].has_gap
        and bool(measurement.group)
        and (measurement.value is not None or measurement.status in live.MISSING)
    )


def log_evidence_of(state: StreamState) -> float | None:
    if state.detector is None or state.alarm or not math.isfinite(state.detector.log_evidence):
        return None
    return state.detector.log_evidence
