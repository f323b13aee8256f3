"""Stores people's labels of scored exchanges next to the auditor's value, which stays when the exchange is deleted."""

import time
from collections.abc import Mapping
from typing import Annotated, Any
from uuid import uuid4

import msgspec
import sqlalchemy as sa
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from auditors.streams.label_sequence import Draw
from auditors.streams.scales import SCALES
from auditors.structs import combine
from auditors.types import JudgeStamp
from gateway.errors import NotFoundError, RequestError, nearest
from gateway.store.connections import upsert
from gateway.store.database import Database
from gateway.store.tables import annotations, exchanges, measurements


class AnnotationRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A person's label of a measurement of an exchange."""

    exchange_id: Annotated[str, Meta(min_length=1, max_length=36)]
    auditor: Annotated[str, Meta(min_length=1, max_length=32)]
    metric: Annotated[str, Meta(max_length=64)] | None = None
    """May be left out where the auditor measured one metric there."""
    axis: Annotated[str, Meta(max_length=32)] | None = None
    group: Annotated[str, Meta(max_length=64)] | None = None
    reference: Annotated[str, Meta(max_length=64)] | None = None
    value: float
    """Value of the label, in the metric's own unit."""
    annotator: Annotated[str, Meta(min_length=1, max_length=100)]
    note: Annotated[str, Meta(max_length=2000)] | None = None
    """Redacted before it is stored, and deleted with the exchange."""


class Annotation(msgspec.Struct, frozen=True, kw_only=True):
    """A label as it is stored. Times are Unix seconds."""

    id: str
    exchange_id: str | None
    """Id of the exchange; None once it has been deleted."""
    auditor: str
    metric: str
    axis: str | None
    group: str | None
    reference: str | None
    model: str
    """The served model."""
    value: float
    measured_value: float | None
    """The auditor's value; None when it gave no number, or nothing at all."""
    inclusion_probability: float | None
    """Inclusion probability of the measurement, or of the exchange where a measurement is missing."""
    annotator: str
    note: str | None
    created_at: float
    judge_model: str | None
    """Judge that had given the value, as the next three; null where none had, and of earlier labels."""
    prompt_sha256: str | None
    judge_thinking: str | None
    judge_fingerprint: str | None


async def add(database: Database, label: AnnotationRequest) -> Annotation:
    """Store a label, replacing the annotator's older. Raises NotFoundError (exchange), RequestError (metric, value)."""
    async with database.begin() as connection:
        return await put(database, connection, label)


async def put(
    database: Database, connection: AsyncConnection, label: AnnotationRequest, draw: Draw | None = None
) -> Annotation:
    """`add`, in the caller's transaction. `draw`: of the exchange for this label, if chance chose it."""
    measured = await _measured(connection, label)
    metric = measured["metric"]
    if metric not in SCALES:
        raise RequestError(f'unknown metric "{metric}"{nearest(metric, set(SCALES))}; known: {", ".join(SCALES)}')
    scale = SCALES[metric]
    if not scale.low <= label.value <= scale.high:
        raise RequestError(f"value {label.value:g} is outside the range of {metric}: {scale.low:g} to {scale.high:g}")
    row = {
        "id": uuid4().hex,
        **_place(label),
        **measured,
        "value": label.value,
        "annotator": label.annotator,
        "note": redacted(database, label.note),
        "created_at": time.time(),
        "draw": None if draw is None else msgspec.json.encode(draw).decode(),
    }
    keys = [*_place(label), "metric", "annotator"]
    changed = {name: value for name, value in row.items() if name not in (*keys, "id")}
    insert = upsert(connection, annotations).values(row)
    stored = insert.on_conflict_do_update(index_elements=[annotations.c[key] for key in keys], set_=changed)
    return _annotation((await connection.execute(stored.returning(*annotations.c))).one())


async def take_back(connection: AsyncConnection, label: AnnotationRequest) -> None:
    """Deletes what this annotator said of the same measurement, in the caller's transaction; nothing where nothing."""
    same = _place(label) | {"metric": label.metric, "annotator": label.annotator}
    await connection.execute(
        sa.delete(annotations).where(*(annotations.c[name] == value for name, value in same.items()))
    )


def _place(label: AnnotationRequest) -> dict[str, str]:
    return {
        "exchange_id": label.exchange_id,
        "auditor": label.auditor,
        "axis": label.axis or "",
        "group_name": label.group or "",
        "reference_name": label.reference or "",
    }


async def list_annotations(
    database: Database, filters: Mapping[str, str | None] = {}, *, since: float | None = None, limit: int = 1000
) -> list[Annotation]:
    """Annotations, oldest first, at most the first `limit`. `filters`: wanted values by column; None takes any."""
    columns = annotations.c
    query = sa.select(annotations).order_by(columns.created_at, columns.id).limit(limit)
    query = query.where(*(columns[name] == value for name, value in filters.items() if value is not None))
    if since is not None:
        query = query.where(columns.created_at >= since)
    return [_annotation(row) for row in await database.fetch_rows(query)]


async def delete(database: Database, annotation_id: str) -> None:
    """Raises NotFoundError."""
    if not await database.change_rows(sa.delete(annotations).where(annotations.c.id == annotation_id)):
        raise NotFoundError(f'no annotation has the id "{annotation_id}": GET /annotations lists them')


async def _measured(connection: AsyncConnection, label: AnnotationRequest) -> dict[str, Any]:
    stored = sa.select(exchanges).where(exchanges.c.id == label.exchange_id).with_for_update(read=True)
    exchange = (await connection.execute(stored)).first()
    if exchange is None:
        raise NotFoundError(
            f'no exchange has the id "{label.exchange_id}": it was never sampled, or has been deleted since'
        )
    columns = measurements.c
    query = sa.select(measurements).where(columns.exchange_id == label.exchange_id, columns.auditor == label.auditor)
    places = {columns.axis: label.axis, columns.group_name: label.group, columns.reference_name: label.reference}
    query = query.where(*(column.is_not_distinct_from(value) for column, value in places.items()))
    if label.metric is not None:
        query = query.where(columns.metric == label.metric)
    rows = list(await connection.execute(query.order_by(columns.metric)))
    if label.metric is None and len(rows) != 1:
        measured = ", ".join(row.metric for row in rows) or "nothing there"
        raise RequestError(f"metric is missing: {label.auditor} measured {measured} on exchange {label.exchange_id}")
    measurement = rows[0] if rows else None
    source = exchange if measurement is None else measurement
    return {
        "metric": label.metric if measurement is None else measurement.metric,
        "model": exchange.model_label or exchange.served_model if measurement is None else measurement.model,
        "measured_value": None if measurement is None else measurement.value,
        "inclusion_probability": None if exchange.sender_rate is None else source.inclusion_probability,
        "rate_factor": source.rate_factor,
        "stream": None if measurement is None else measurement.stream,
        "judge": None if measurement is None else measurement.judge,
    }


def redacted(database: Database, note: str | None) -> str | None:
    """A person's note as it may be stored."""
    if note is None:
        return None
    redactor = database.texts.redactor
    return (note if redactor is None else redactor.redacted(note)).replace("\x00", "")


def _annotation(row: sa.Row[Any]) -> Annotation:
    places = {"axis": row.axis or None, "group": row.group_name or None, "reference": row.reference_name or None}
    return combine(Annotation, row, **places, **judge_fields(row.judge))


def judge_fields(stamp: str | None) -> dict[str, str | None]:
    """Return the fields of a label that name the judge of a stored stamp, each None without a stamp."""
    if stamp is None:
        return dict.fromkeys(("judge_model", "prompt_sha256", "judge_thinking", "judge_fingerprint"))
    judge = msgspec.json.decode(stamp, type=JudgeStamp)
    judge_model = {"judge_model": judge.model, "judge_fingerprint": judge.fingerprint}
    return judge_model | {"prompt_sha256": judge.prompt_sha256, "judge_thinking": judge.thinking}
