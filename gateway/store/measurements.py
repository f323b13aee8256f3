"""What the auditors measured: recorded once per exchange and auditor, together with everything that follows from it.

Many audits share a transaction: the row of a stream is read and written once for all of them.
"""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import compress
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from auditors.streams.drift import DriftSettings
from auditors.streams.scales import SCALES, scaled
from auditors.streams.state import stream_key
from auditors.types import UNREAD, AuditFailure, Exchange, FailureKind, Measurement
from gateway.store import circuits, counters, ledger, policy_arms, streams
from gateway.store import exchanges as store
from gateway.store.audit_texts import StoredText
from gateway.store.connections import insert_rows
from gateway.store.database import Database
from gateway.store.stream_steps import Audited, Counted
from gateway.store.tables import audit_texts, exchange_audits, exchanges, measurements

NOT_SWAPPED = "not swapped: "
"""How reasons of the counterfactual auditor begin."""
THINKING_EXHAUSTED = "thinking_exhausted"
WAITED_TOO_LONG = "waited too long"
"""Reason in `biasgate_abstentions_total` of what `audits.max_wait_hours` ended."""
_GIVEN_UP: Mapping[FailureKind, str] = {
    "waited_too_long": WAITED_TOO_LONG,
    "thinking_exhausted": THINKING_EXHAUSTED,
}
SCORE_BOUNDS = (0.0, 0.34, 0.67, 1.0)
"""Upper bounds of the buckets of a judge score on [0, 1]: one bucket for each of the scores -1, 0, 1, 2."""


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """What one auditor made of one exchange."""

    exchange: Exchange
    auditor: str
    """Its name, as in the configuration."""
    result: Sequence[Measurement] | AuditFailure
    """Its measurements, or why there are none."""
    seconds: float
    """How long the audit took."""
    probability: float
    """With which this exchange reached this auditor: sampled, times the auditor's own rate."""
    sends_events: bool = False
    """Each measurement becomes an evaluation event (`gateway.store.evaluations`)."""
    text: StoredText | None = None
    """What it left in words."""

    @property
    def found(self) -> Sequence[Measurement]:
        return self.result.missing if isinstance(self.result, AuditFailure) else self.result


class Settling(msgspec.Struct, frozen=True, kw_only=True):
    """An exchange of which the results of all its auditors are recorded."""

    exchange_id: str
    quality: tuple[Exchange, Sequence[Measurement]] | None = None
    """What stands beside its audits: added, once, to the arms of its policy."""


async def record(
    database: Database,
    exchange: Exchange,
    auditor: str,
    result: Sequence[Measurement] | AuditFailure,
    seconds: float,
    *,
    probability: float,
    settings: DriftSettings,
    sends_events: bool = False,
) -> bool:
    """Records one audit in a transaction of its own, as `record_all` does; whether it was the first."""
    one = Recording(
        exchange=exchange,
        auditor=auditor,
        result=result,
        seconds=seconds,
        probability=probability,
        sends_events=sends_events,
    )
    [is_first] = await record_all(database, [one], settings=settings)
    return is_first


async def record_all(
    database: Database,
    recordings: Sequence[Recording],
    settlings: Sequence[Settling] = (),
    *,
    settings: DriftSettings,
    keep_text: bool = True,
) -> list[bool]:
    """Records audits and everything that follows from them, and settles exchanges, in one transaction.

    Each audit is recorded once, whoever else tries, and streams move in the order given. Every writer locks exchanges,
    streams, arms of policies, counters and the ledger in this order, and the rows of each in the order of their keys,
    so that none deadlocks.

    Args:
        database: the store.
        recordings: what auditors made of exchanges.
        settlings: exchanges to settle, as what is recorded of them says. One that is settled already stays as it is.
        settings: of the drift detectors.
        keep_text: whether settled exchanges keep theirs.

    Returns: of each recording, False when it had been recorded before, or the exchange is gone: it changed nothing.
    """
    ids = {one.exchange.id for one in recordings} | {one.exchange_id for one in settlings}
    async with database.begin(waits_for_disk=False) as connection:  # what is lost is still queued, and made again
        done = await _locked(connection, ids)
        is_first = []
        for one in recordings:
            is_first.append(one.exchange.id in done and one.auditor not in done[one.exchange.id])
            if is_first[-1]:
                done[one.exchange.id][one.auditor] = _outcome(one.result)
        new = list(compress(recordings, is_first))
        await _note_done(connection, new)
        states = {one.exchange_id: store.state_after(done.get(one.exchange_id, {}).values()) for one in settlings}
        settled, moved = await store.settle_all(connection, states, keep_text=keep_text)
        counted = await streams.update(connection, [_audited(one) for one in new], settings)
        await _insert(connection, new, counted)
        qualities = [one.quality for one in settlings if one.quality is not None and one.exchange_id in settled]
        found = [(one.found, one.exchange) for one in new]
        await policy_arms.update(connection, [*found, *((beside, exchange) for exchange, beside in qualities)])
        await counters.add(connection, _increments(new))
        await ledger.add(connection, moved)
    return is_first


async def _locked(connection: AsyncConnection, ids: Set[str]) -> dict[str, dict[str, str]]:
    """Of the exchanges that are there: what each auditor that is done made of it. Nobody else adds to it meanwhile."""
    query = sa.select(exchanges.c.id).where(exchanges.c.id.in_(ids)).order_by(exchanges.c.id)
    locked = await connection.execute(query.with_for_update(key_share=True))
    done: dict[str, dict[str, str]] = {row.id: {} for row in locked}
    columns = exchange_audits.c
    audits = sa.select(columns.exchange_id, columns.auditor, columns.outcome).where(columns.exchange_id.in_(list(done)))
    for exchange_id, auditor, outcome in await connection.execute(audits):
        done[exchange_id][auditor] = outcome
    return done


async def _note_done(connection: AsyncConnection, recordings: Sequence[Recording]) -> None:
    if not recordings:
        return
    for one in recordings:
        _refuse_twice(one)
    await insert_rows(connection, exchange_audits, [_audit_row(one) for one in recordings])
    by_auditor: dict[str, list[str]] = {}
    for one in recordings:
        by_auditor.setdefault(one.auditor, []).append(one.exchange.id)
    for auditor, audited in by_auditor.items():
        await circuits.forget(connection, audited, auditor=auditor)


async def _insert(connection: AsyncConnection, recordings: Sequence[Recording], counted: Counted) -> None:
    """`counted`: what values weigh in their streams, where they move any; windows and exports weigh alike."""
    rows = [
        _row(found, one.exchange, counted.get(id(found), one.probability)) for one in recordings for found in one.found
    ]
    await insert_rows(connection, measurements, rows)
    await insert_rows(connection, audit_texts, [_text_row(one, one.text) for one in recordings if one.text])


def _refuse_twice(recording: Recording) -> None:
    """An auditor's measurement of a group against another is unique; partitions have no key that says so."""
    compared = Counter(
        (one.metric, one.axis, one.group, one.reference)
        for one in recording.found
        if None not in (one.axis, one.group, one.reference)
    )
    for key, count in compared.items():
        if count > 1:
            raise ValueError(f"auditor {recording.auditor}: measurement {key} is not unique: there are {count}")


def _audited(one: Recording) -> Audited:
    return Audited(
        found=one.found,
        exchange_id=one.exchange.id,
        at=one.exchange.received_at,
        model=one.exchange.series_model,
        probability=one.probability,
        rate_factor=one.exchange.rate_factor,
        sender_rate=one.exchange.sender_rate,
    )


def _audit_row(one: Recording) -> dict[str, Any]:
    failure, now = one.result if isinstance(one.result, AuditFailure) else None, time.time()
    return {
        "exchange_id": one.exchange.id,
        "auditor": one.auditor,
        "outcome": _outcome(one.result),
        "failure_kind": None if failure is None else failure.kind,
        "message": None if failure is None else _storable(failure.message),
        "seconds": one.seconds,
        "finished_at": now,
        "send_at": now if one.sends_events and one.found else None,
    }


def _text_row(one: Recording, text: StoredText) -> dict[str, Any]:
    return {"exchange_id": one.exchange.id, "auditor": one.auditor, "body": text.body, "is_sealed": text.is_sealed}


def _outcome(result: Sequence[Measurement] | AuditFailure) -> str:
    if not isinstance(result, AuditFailure):
        return "audited"
    return "not_auditable" if result.kind == "not_auditable" else "failed"


def _why(result: Sequence[Measurement] | AuditFailure) -> tuple[str, ...]:
    """The reason, of what is not auditable: a label of its own."""
    if isinstance(result, AuditFailure) and result.kind == "not_auditable":
        return (result.reason or "other",)
    return ()


def counted(recording: Recording) -> Iterator[tuple[str, tuple[str, ...], float]]:
    """What a recording adds to counters: name, label values, and what was observed: the bucket's value, or 1."""
    auditor, result = recording.auditor, recording.result
    yield "exchanges", (_outcome(result), auditor, *_why(result)), 1.0
    if isinstance(result, AuditFailure):
        if (reason := _GIVEN_UP.get(result.kind)) is not None:
            yield "abstentions", (auditor, reason), 1.0
        return
    for reason in _left_alone(result):
        yield "abstentions", (auditor, reason), 1.0
    for one in result:
        if one.judge is None or one.value is None or one.metric not in SCALES:
            continue
        y = scaled(one.metric, one.value)
        bound = next(bound for bound in SCORE_BOUNDS if y <= bound)
        yield "live_score", (auditor, one.axis or "", one.group or "", recording.exchange.series_model, str(bound)), y


def _increments(recordings: Iterable[Recording]) -> dict[tuple[str, tuple[str, ...]], float]:
    raised: Counter[tuple[str, tuple[str, ...]]] = Counter()
    totals: dict[tuple[str, tuple[str, ...]], float] = {}
    for recording in recordings:
        for name, labels, value in counted(recording):
            raised[name, labels] += 1
            if name == "live_score":
                series = ("live_score_sum", labels[:-1])
                totals[series] = totals.get(series, 0.0) + value
    return {**raised, **totals}


def _left_alone(result: Sequence[Measurement]) -> set[str]:
    """Why an auditor left an exchange, or a part of it, alone: words of its own, from a closed set."""
    ours = [one.reason for one in result if one.reason and (one.status == "unrelated" or one.reason in UNREAD)]
    return {reason.removeprefix(NOT_SWAPPED) for reason in ours}


def _row(one: Measurement, exchange: Exchange, probability: float) -> dict[str, Any]:
    key = stream_key(one, exchange.series_model, is_sampling_known=exchange.sender_rate is not None)
    return {
        "exchange_id": exchange.id,
        "auditor": one.auditor,
        "auditor_version": one.auditor_version,
        "metric": one.metric,
        "axis": one.axis,
        "group_name": one.group,
        "reference_name": one.reference,
        "model": exchange.series_model[:200],
        "value": one.value,
        "status": one.status,
        "reason": None if one.reason is None else _storable(one.reason),
        "judge": None if one.judge is None else msgspec.json.encode(one.judge).decode(),
        "detail": msgspec.json.encode(one.detail).decode(),
        "inclusion_probability": probability,
        "rate_factor": exchange.rate_factor,
        "weight": one.weight,
        "created_at": time.time(),
        "stream": key.id if one.metric in SCALES else None,
    }


def _storable(text: str) -> str:
    return text.replace("\x00", "")
