"""Rows of what the auditors measured: of each audit that it is done, its measurements, and its words."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from auditors.streams.scales import SCALES
from auditors.streams.state import stream_key
from auditors.types import AuditFailure, Exchange, Measurement
from gateway.store import circuits
from gateway.store.audit_texts import StoredText
from gateway.store.connections import insert_rows
from gateway.store.tables import audit_texts, exchange_audits, exchanges, measurements


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
    """Each measurement becomes an evaluation event (`gateway.features.evaluations.store`)."""
    text: StoredText | None = None
    """What it left in words."""

    @property
    def found(self) -> Sequence[Measurement]:
        return self.result.missing if isinstance(self.result, AuditFailure) else self.result


async def lock(connection: AsyncConnection, ids: Set[str]) -> dict[str, dict[str, str]]:
    """Of the exchanges that are there: what each auditor that is done made of it. No one else adds to it meanwhile."""
    query = sa.select(exchanges.c.id).where(exchanges.c.id.in_(ids)).order_by(exchanges.c.id)
    locked = await connection.execute(query.with_for_update(key_share=True))
    done: dict[str, dict[str, str]] = {row.id: {} for row in locked}
    columns = exchange_audits.c
    audits = sa.select(columns.exchange_id, columns.auditor, columns.outcome).where(columns.exchange_id.in_(list(done)))
    for exchange_id, auditor, outcome in await connection.execute(audits):
        done[exchange_id][auditor] = outcome
    return done


async def insert_audits(connection: AsyncConnection, recordings: Sequence[Recording]) -> None:
    if not recordings:
        return
    for recording in recordings:
        _refuse_twice(recording)
    await insert_rows(connection, exchange_audits, [_audit_row(recording) for recording in recordings])
    by_auditor: dict[str, list[str]] = {}
    for one in recordings:
        by_auditor.setdefault(one.auditor, []).append(one.exchange.id)
    for auditor, audited in by_auditor.items():
        await circuits.forget(connection, audited, auditor=auditor)


async def insert(connection: AsyncConnection, recordings: Sequence[Recording], counted: Mapping[int, float]) -> None:
    """`counted`: what values weigh in their streams, where they move any; windows and exports weigh alike."""
    rows = [
        _row(found, recording.exchange, counted.get(id(found), recording.probability))
        for recording in recordings
        for found in recording.found
    ]
    await insert_rows(connection, measurements, rows)
    await insert_rows(
        connection, audit_texts, [_text_row(recording, recording.text) for recording in recordings if recording.text]
    )


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


def _audit_row(one: Recording) -> dict[str, Any]:
    failure, now = one.result if isinstance(one.result, AuditFailure) else None, time.time()
    return {
        "exchange_id": one.exchange.id,
        "auditor": one.auditor,
        "outcome": outcome_of(one.result),
        "failure_kind": None if failure is None else failure.kind,
        "message": None if failure is None else _storable(failure.message),
        "seconds": one.seconds,
        "finished_at": now,
        "send_at": now if one.sends_events and one.found else None,
    }


def _text_row(one: Recording, text: StoredText) -> dict[str, Any]:
    return {"exchange_id": one.exchange.id, "auditor": one.auditor, "body": text.body, "is_sealed": text.is_sealed}


def outcome_of(result: Sequence[Measurement] | AuditFailure) -> str:
    if not isinstance(result, AuditFailure):
        return "audited"
    return "not_auditable" if result.kind == "not_auditable" else "failed"


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
