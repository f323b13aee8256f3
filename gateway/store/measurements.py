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
    """The result of a single auditor for a single exchange."""

    exchange: Exchange
    auditor: str
    """Its name, as in the configuration."""
    result: Sequence[Measurement] | AuditFailure
    """The measurements, or why there are none."""
    seconds: float
    """Seconds that the audit took."""
    probability: float
    """Probability with which this exchange reached this auditor: sampled, times the auditor's own rate."""
    sends_events: bool = False
    """Each measurement becomes an evaluation event (`gateway.features.evaluations.store`)."""
    text: StoredText | None = None
    """The text that the audit left."""

    @property
    def found(self) -> Sequence[Measurement]:
        return self.result.missing if isinstance(self.result, AuditFailure) else self.result


async def lock(connection: AsyncConnection, ids: Set[str]) -> dict[str, dict[str, str]]:
    """Return each finished auditor's outcome, for exchanges that are there; other processes add none meanwhile."""
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
    for entry in recordings:
        by_auditor.setdefault(entry.auditor, []).append(entry.exchange.id)
    for auditor, audited in by_auditor.items():
        await circuits.forget(connection, audited, auditor=auditor)


async def insert(connection: AsyncConnection, recordings: Sequence[Recording], counted: Mapping[int, float]) -> None:
    """Insert measurements. `counted`: weights of values in their streams; windows and exports weigh equally."""
    rows = [
        _row(measurement, recording.exchange, counted.get(id(measurement), recording.probability))
        for recording in recordings
        for measurement in recording.found
    ]
    await insert_rows(connection, measurements, rows)
    await insert_rows(
        connection, audit_texts, [_text_row(recording, recording.text) for recording in recordings if recording.text]
    )


def _refuse_twice(recording: Recording) -> None:
    """An auditor's measurement of a group against another is unique; partitions have no key that says so."""
    compared = Counter(
        (measurement.metric, measurement.axis, measurement.group, measurement.reference)
        for measurement in recording.found
        if None not in (measurement.axis, measurement.group, measurement.reference)
    )
    for key, count in compared.items():
        if count > 1:
            raise ValueError(f"auditor {recording.auditor}: measurement {key} is not unique: there are {count}")


def _audit_row(recording: Recording) -> dict[str, Any]:
    failure, now = recording.result if isinstance(recording.result, AuditFailure) else None, time.time()
    return {
        "exchange_id": recording.exchange.id,
        "auditor": recording.auditor,
        "outcome": outcome_of(recording.result),
        "failure_kind": None if failure is None else failure.kind,
        "message": None if failure is None else _storable(failure.message),
        "seconds": recording.seconds,
        "finished_at": now,
        "send_at": now if recording.sends_events and recording.found else None,
    }


def _text_row(recording: Recording, text: StoredText) -> dict[str, Any]:
    key = {"exchange_id": recording.exchange.id, "auditor": recording.auditor}
    return {**key, "body": text.body, "is_sealed": text.is_sealed}


def outcome_of(result: Sequence[Measurement] | AuditFailure) -> str:
    if not isinstance(result, AuditFailure):
        return "audited"
    return "not_auditable" if result.kind == "not_auditable" else "failed"


def _row(measurement: Measurement, exchange: Exchange, probability: float) -> dict[str, Any]:
    key = stream_key(measurement, exchange.series_model, is_sampling_known=exchange.sender_rate is not None)
    return {
        "auditor": measurement.auditor,
        "auditor_version": measurement.auditor_version,
        "metric": measurement.metric,
        "axis": measurement.axis,
        "value": measurement.value,
        "status": measurement.status,
        "weight": measurement.weight,
        "exchange_id": exchange.id,
        "group_name": measurement.group,
        "reference_name": measurement.reference,
        "model": exchange.series_model[:200],
        "reason": None if measurement.reason is None else _storable(measurement.reason),
        "judge": None if measurement.judge is None else msgspec.json.encode(measurement.judge).decode(),
        "detail": msgspec.json.encode(measurement.detail).decode(),
        "inclusion_probability": probability,
        "rate_factor": exchange.rate_factor,
        "created_at": time.time(),
        "stream": key.id if measurement.metric in SCALES else None,
    }


def _storable(text: str) -> str:
    return text.replace("\x00", "")
