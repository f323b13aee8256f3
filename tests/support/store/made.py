"""Exchanges and measurements for tests, with only what a test cares about spelled out."""

import time
import uuid
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from auditors.audit_texts import AuditText
from auditors.streams.drift import DriftSettings
from auditors.types import AuditFailure, Exchange, JudgeStamp, Measurement
from gateway.store import exchanges, ledger, runs, streams, tables
from gateway.store.audit_texts import entered
from gateway.store.database import Database
from gateway.store.measurements import Recording
from gateway.store.tables import audit_texts
from gateway.streams.recording import record_all

SETTINGS = DriftSettings(average_run_length=100.0, reference_window=10)


def exchange(**given: Any) -> Exchange:
    """An auditable chat exchange, received now."""
    fields: dict[str, Any] = {
        "id": uuid.uuid4().hex,
        "request_id": "request",
        "received_at": time.time(),
        "endpoint": "/v1/chat/completions",
        "model": "alias",
        "served_model": "m",
        "upstream": "u",
        "stream": False,
        "status_code": 200,
        "content_type": "application/json",
        "stratum": "other",
        "inclusion_probability": 0.5,
        "request_body": b'{"messages": [{"role": "user", "content": "Who leads better?"}]}',
        "response_body": b'{"choices": [{"message": {"role": "assistant", "content": "Anyone may."}}]}',
    }
    return Exchange(**fields | given)


def measurement(value: float | None = 0.0, **given: Any) -> Measurement:
    """A judge's favouritism score."""
    fields: dict[str, Any] = {
        "auditor": "judge",
        "auditor_version": "1",
        "metric": "favoritism",
        "axis": "gender",
        "group": "women",
        "value": value,
        "status": "ok" if value is not None else "refusal",
        "judge": JudgeStamp(model="j", prompt_sha256="ab" * 32),
    }
    return Measurement(**fields | given)


async def record(
    database: Database,
    one: Exchange,
    found: Sequence[Measurement] | AuditFailure,
    *,
    auditor: str = "judge",
    seconds: float = 0.1,
    probability: float = 0.5,
    settings: DriftSettings = SETTINGS,
    sends_events: bool = False,
) -> bool:
    """Records what an auditor made of a stored exchange, as one that is alone; whether it was the first."""
    recording = Recording(
        exchange=one, auditor=auditor, result=found, seconds=seconds, probability=probability, sends_events=sends_events
    )
    return await record_all(database, [recording], settings=settings) == [True]


async def audited(database: Database, *found: Measurement, probability: float = 0.5, **given: Any) -> Exchange:
    """Stores an exchange that waits for other auditors, with what the judge made of it."""
    one = exchange(**given)
    await exchanges.insert_batch(database, [one], {(one.stratum, "queued"): 1})
    await record(database, one, found, probability=probability)
    return one


async def left_beside(database: Database, exchange_id: str, auditor: str, text: AuditText) -> None:
    """What an audit left in words of an exchange that is stored."""
    stored = entered(database.texts, text)
    row = {"exchange_id": exchange_id, "auditor": auditor, "body": stored.body, "is_sealed": stored.is_sealed}
    await database.change_rows(sa.insert(audit_texts).values(row))


async def create_run(database: Database, run_id: str, options: dict[str, Any]) -> None:
    """Queue a run. `options` has at least suite, model, mode and protocol."""
    await runs.create_all(database, {run_id: options}, max_queued=1000)


async def delete_run(database: Database, run_id: str) -> None:
    """Delete a run with its replies."""
    await database.change_rows(sa.delete(tables.runs).where(tables.runs.c.id == run_id))


async def settle(database: Database, exchange_id: str, state: exchanges.State, *, keep_text: bool) -> bool:
    """End a queued exchange and move it in the ledger. False when another process had settled it before."""
    async with database.begin() as connection:
        settled, moved = await exchanges.settle_all(connection, {exchange_id: state}, keep_text=keep_text)
        await ledger.add(connection, moved)
        return bool(settled)


async def list_streams(database: Database) -> list[streams.Stream]:
    """Every stream, in the order of its key's fields."""
    places = {stream_id: place for place, stream_id in enumerate(await streams.versions(database))}
    return sorted(await streams.load(database, list(places)), key=lambda stream: places[stream.id])
