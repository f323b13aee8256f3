"""Live streams: the running sums and drift detector of each series, updated with the measurement that moves them."""

import math
import time
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from auditors.nearest_identity import DISTANCE, SCORE
from auditors.streams import state as live
from auditors.streams.drift import DriftSettings
from auditors.streams.soundness import read_state
from auditors.streams.state import StreamKey, StreamState
from gateway.errors import ConflictError
from gateway.live.detectors import shown_detector
from gateway.live.estimates import LiveEstimate, estimate_of, with_most_normal
from gateway.live.stream import Stream
from gateway.store import acknowledgements, damaged_streams
from gateway.store.acknowledgements import Acknowledgement
from gateway.store.connections import upsert
from gateway.store.database import Database
from gateway.store.stream_steps import (
    WIDTH,
    Audited,
    Counted,
    Family,
    OtherStreams,
    Part,
    Step,
    family_of,
    log_evidence_of,
)
from gateway.store.tables import streams

RENDERED_AT_ONCE = 200
IDENTITIES = (DISTANCE, SCORE)
"""Metrics of an axis that say together which identity is the most normal."""
ORDER = (
    *(streams.c.auditor, streams.c.metric, streams.c.axis),
    *(streams.c.group_name, streams.c.model, streams.c.instrument),
)
"""Of lists of streams."""

_EMPTY_STATE = msgspec.json.encode(StreamState()).decode()


async def list_streams(database: Database) -> list[Stream]:
    """Every stream, in the order of its key's fields; see `stream_pages` for many."""
    async with database.read() as connection:
        return [_stream(row) for row in await connection.execute(sa.select(streams).order_by(*ORDER))]


async def versions(database: Database) -> dict[str, tuple[float, float | None]]:
    """By id of each stream, in the order of their keys' fields: what changes whenever the stream does."""
    columns = streams.c
    query = sa.select(columns.key, columns.updated_at, columns.acknowledged_at).order_by(*ORDER)
    async with database.read() as connection:
        return {row.key: (row.updated_at, row.acknowledged_at) for row in await connection.execute(query)}


async def stamp(database: Database) -> tuple[object, ...]:
    """Changes whenever a stream does: cheap to ask for, when nothing happens."""
    columns = streams.c
    sums = [sa.func.sum(columns.updated_at), sa.func.max(columns.updated_at), sa.func.sum(columns.acknowledged_at)]
    async with database.read() as connection:
        return tuple((await connection.execute(sa.select(sa.func.count(), *sums).select_from(streams))).one())


async def load(database: Database, ids: Sequence[str]) -> list[Stream]:
    """These streams, in any order."""
    async with database.read() as connection:
        return [_stream(row) for row in await connection.execute(sa.select(streams).where(streams.c.key.in_(ids)))]


async def count(database: Database) -> int:
    """How many streams there are."""
    async with database.read() as connection:
        return (await connection.execute(sa.select(sa.func.count()).select_from(streams))).scalar() or 0


async def acknowledge(
    database: Database,
    stream_id: str,
    settings: DriftSettings,
    *,
    by: str,
    reason: str,
    accept_new_level: bool = False,
    client: str | None = None,
) -> Stream | None:
    """Lowers the alarm, starts the detector anew and puts it on record, in one transaction.

    Args:
        database: the store.
        stream_id: of the stream.
        settings: of the drift detectors.
        by: who says so.
        reason: why.
        accept_new_level: False keeps the reference, True makes the next audits the window of a new one.
        client: network address.

    Returns: the stream after it; None when there is no such stream.
    Raises: ConflictError when no alarm stands: there is nothing to lower, and evidence would be lost.
    """
    async with database.begin() as connection:
        found = await _locked(connection, [stream_id])
        if not found:
            return None
        [stream] = found
        if stream.state.damaged:
            raise ConflictError(
                f'the stream "{stream_id}" is damaged: POST /live/streams/{stream_id}/restart starts it again'
            )
        if stream.state.detector is None or not stream.state.alarm:
            raise ConflictError(f'no alarm of the stream "{stream_id}" stands: GET /live/alarms lists those that do')
        at = time.time()
        await acknowledgements.add(
            connection,
            stream,
            Acknowledgement(
                at=at, stream=stream_id, by=by, reason=reason, accept_new_level=accept_new_level, client=client
            ),
        )
        lowered = msgspec.structs.replace(
            stream,
            state=live.acknowledge(stream.state, accept_new_level=accept_new_level),
            alarm_since=None,
            alarm_exchange_id=None,
            acknowledged_at=at,
        )
        others = await _others(connection, settings)
        await _write(connection, [lowered], settings, others.n_streams)
        return lowered


async def restart(
    database: Database, stream_id: str, settings: DriftSettings, *, by: str, reason: str, client: str | None = None
) -> Stream | None:
    """Starts a stream again with the next audit, damaged or not, and puts it on record, in one transaction.

    Its estimate, reference, detector and alarm are gone; its measurements stay.

    Args:
        database: the store.
        stream_id: of the stream.
        settings: of the drift detectors.
        by: who says so.
        reason: why.
        client: network address.

    Returns: the stream after it; None when there is no such stream.
    """
    async with database.begin() as connection:
        found = await _locked(connection, [stream_id])
        if not found:
            return None
        [stream] = found
        at = time.time()
        entry = Acknowledgement(
            at=at, stream=stream_id, by=by, reason=f"started again: {reason}", accept_new_level=True, client=client
        )
        await acknowledgements.add(connection, stream, entry)
        await damaged_streams.forget(connection, stream_id)
        empty = msgspec.structs.replace(
            stream,
            state=StreamState(),
            updated_at=at,
            alarm_since=None,
            alarm_exchange_id=None,
            acknowledged_at=at,
        )
        await _write(connection, [empty], settings, (await _others(connection, settings)).n_streams)
        return empty


async def note_damaged(database: Database, damaged: Sequence[Stream], settings: DriftSettings) -> None:
    """Puts streams aside that were found to be damaged while they were read."""
    async with database.begin() as connection:
        again = [stream for stream in await _locked(connection, [one.id for one in damaged]) if stream.state.damaged]
        await _put_aside(connection, again, settings, (await _others(connection, settings)).n_streams)


async def render(database: Database, settings: DriftSettings) -> int:
    """Writes what is shown of streams that have not moved since this version began to keep it; how many there were.

    At most RENDERED_AT_ONCE a call.
    """
    async with database.begin() as connection:
        missing = sa.select(streams.c.key).where(streams.c.estimate.is_(None)).limit(RENDERED_AT_ONCE)
        found = await _locked(connection, list((await connection.execute(missing)).scalars()))
        n_streams = (await _others(connection, settings)).n_streams
        await _write(connection, [stream for stream in found if not stream.state.damaged], settings, n_streams)
        await _put_aside(connection, [stream for stream in found if stream.state.damaged], settings, n_streams)
    return len(found)


async def update(connection: AsyncConnection, audits: Sequence[Audited], settings: DriftSettings) -> Counted:
    """Moves every stream that these audits concern, inside the caller's transaction; how much each value weighs.

    A stream whose state is damaged, or cannot take a value that another would take, is put aside, and the others move.
    Those are the streams of the measurements themselves and, where groups are compared, the gap streams of their axes.
    Each moves by one audit after the other, in the order given; its row is read and written once. Rows are locked in
    one order, so that none deadlocks.
    """
    parts = [Part.of(audit) for audit in audits]
    keys = {key.id: key for part in parts for key, _ in part.keyed}
    counted: Counted = {}
    if not keys:
        return counted
    families = {family for part in parts for family in part.scores}
    identities = {family_of(key) for key in keys.values() if key.metric in IDENTITIES}
    await _ensure_all(connection, keys, {family_of(key) for part in parts for key in part.with_gaps})
    others = await _others(connection, settings)
    wanted = [*families, *_with_their_scores(identities)]
    locked = {stream.id: stream for stream in await _locked(connection, list(keys), wanted)}
    gaps: dict[Family, list[str]] = {}
    for stream in locked.values():
        if stream.id not in keys:
            gaps.setdefault(family_of(stream.key), []).append(stream.id)
    moved: set[str] = set()
    for part in parts:
        step = Step(part.audit, settings, others, counted)
        compared = {key: scores for family, scores in part.scores.items() for key in gaps.get(family, ())}
        concerned = part.own.keys() | compared.keys()
        for one in sorted(concerned):
            locked[one] = step.moved(locked[one], part.own.get(one), compared.get(one, ()))
        moved |= concerned
    damaged = [stream for stream in locked.values() if stream.state.damaged]
    sound = [stream for stream in locked.values() if not stream.state.damaged]
    await _write(
        connection,
        [stream for stream in sound if stream.id in moved],
        settings,
        others.n_streams,
        [stream for stream in sound if stream.id not in moved],
    )
    await _put_aside(connection, damaged, settings, others.n_streams)
    return counted


async def _others(connection: AsyncConnection, settings: DriftSettings) -> OtherStreams:
    count = (await connection.execute(sa.select(sa.func.count()).select_from(streams))).scalar() or 0
    if settings.multiplicity == "each":
        return OtherStreams(count, None)
    query = sa.select(streams.c.key, streams.c.log_evidence).where(streams.c.log_evidence.is_not(None))
    evidence = {row.key: row.log_evidence for row in await connection.execute(query)}
    return OtherStreams(count, {key: value for key, value in evidence.items() if math.isfinite(value)})


async def _ensure(connection: AsyncConnection, keys: Sequence[StreamKey]) -> None:
    """A row for each key, made in one order in every process."""
    rows = [
        {
            "key": key.id,
            "auditor": key.auditor,
            "metric": key.metric,
            "axis": key.axis,
            "group_name": key.group,
            "model": key.model[:WIDTH],
            "instrument": key.instrument[:WIDTH],
            "state": _EMPTY_STATE,
            "updated_at": time.time(),
        }
        for key in sorted(keys, key=lambda key: key.id)
    ]
    if rows:
        await connection.execute(upsert(connection, streams).on_conflict_do_nothing(), rows)


async def _ensure_all(connection: AsyncConnection, keys: Mapping[str, StreamKey], families: Set[Family]) -> None:
    """Rows of these streams, and gap streams of every group of these families as soon as a family has two groups."""
    gap_of = {family_of(live.gap_key(key)): key for key in keys.values() if family_of(key) in families}
    known = await _known(connection, [*keys], [*families, *gap_of])
    if not keys.keys() <= known.keys():
        await _ensure(connection, [key for key in keys.values() if key.id not in known])
        known = await _known(connection, [*keys], [*families, *gap_of])
    needed: dict[str, StreamKey] = {}
    groups: dict[Family, list[str]] = {}
    for family, group in known.values():
        groups.setdefault(family, []).append(group)
    for key in gap_of.values():
        found = groups.get(family_of(key), [])
        if len(found) > 1:
            gaps = [live.gap_key(msgspec.structs.replace(key, group=group)) for group in found if group]
            needed |= {gap.id: gap for gap in gaps}
    await _ensure(connection, [needed[new] for new in needed.keys() - known.keys()])


async def _known(
    connection: AsyncConnection, ids: Sequence[str], families: Sequence[Family]
) -> dict[str, tuple[Family, str]]:
    """Family and group of these streams and of those of these families, by id."""
    columns = streams.c
    family = (columns.auditor, columns.metric, columns.axis, columns.model, columns.instrument)
    query = sa.select(columns.key, columns.group_name, *family).where(_any_of(ids, families))
    return {key: (tuple(rest), group) for key, group, *rest in await connection.execute(query)}


def _any_of(ids: Sequence[str], families: Sequence[Family]) -> sa.ColumnElement[bool]:
    return sa.or_(streams.c.key.in_(ids), *map(_is_of, families))


def _is_of(family: Family) -> sa.ColumnElement[bool]:
    columns = streams.c
    fields = (columns.auditor, columns.metric, columns.axis, columns.model, columns.instrument)
    return sa.and_(*(field == value for field, value in zip(fields, family, strict=True)))


async def _locked(connection: AsyncConnection, ids: Sequence[str], families: Sequence[Family] = ()) -> list[Stream]:
    """These streams and those of these families, in the order of their ids, until the transaction ends."""
    query = sa.select(streams).where(_any_of(ids, families)).order_by(streams.c.key).with_for_update()
    return [_stream(row) for row in await connection.execute(query)]


async def _write(
    connection: AsyncConnection,
    moved: Sequence[Stream],
    settings: DriftSettings,
    n_streams: int,
    beside: Sequence[Stream] = (),
) -> None:
    """Puts streams back, with what is shown of them.

    Args:
        connection: the transaction that has locked them.
        moved: the streams.
        settings: of the drift detectors.
        n_streams: how many there are in the store.
        beside: distances and scores of axes that have not moved, but whose others have.
    """
    if not moved:
        return
    shown = _shown(moved, beside)
    rows = [
        {
            "row": stream.id,
            "state": _json(stream.state),
            "updated_at": stream.updated_at,
            "alarm_since": stream.alarm_since,
            "alarm_exchange_id": stream.alarm_exchange_id,
            "acknowledged_at": stream.acknowledged_at,
            "log_evidence": log_evidence_of(stream.state),
            "estimate": _json(shown[stream.id]),
            "detector": _json(shown_detector(stream, settings, n_streams)),
        }
        for stream in moved
    ]
    await _update(connection, rows)
    await _update(connection, [{"row": one.id, "estimate": _json(shown[one.id])} for one in beside if one.id in shown])


async def _put_aside(
    connection: AsyncConnection, damaged: Sequence[Stream], settings: DriftSettings, n_streams: int
) -> None:
    """Puts damaged streams on record, once, and shows them as damaged; what is stored of them is kept.

    A state that was sound and cannot take another value is marked as damaged, so that nothing is added to it later.
    """
    new = await damaged_streams.note(connection, damaged) if damaged else []
    for stream in new:
        values: dict[str, Any] = {
            "updated_at": time.time(),
            "log_evidence": None,
            "estimate": _json(estimate_of(stream)),
            "detector": _json(shown_detector(stream, settings, n_streams)),
        }
        if msgspec.structs.replace(stream.state, damaged=None) != StreamState():
            values["state"] = _json(stream.state)
        await connection.execute(sa.update(streams).where(streams.c.key == stream.id).values(values))


async def _update(connection: AsyncConnection, rows: Sequence[dict[str, Any]]) -> None:
    if rows:
        change = sa.update(streams).where(streams.c.key == sa.bindparam("row"))
        values: dict[str, Any] = {name: sa.bindparam(name) for name in rows[0] if name != "row"}
        await connection.execute(change.values(values), rows)


def _shown(moved: Sequence[Stream], beside: Sequence[Stream]) -> dict[str, LiveEstimate]:
    """The estimates of what moved, and of the scores beside it, with the most normal identity of each axis."""
    shown = {stream.id: estimate_of(stream) for stream in moved}
    distances: dict[Family, list[LiveEstimate]] = {}
    scores = []
    for stream in (*moved, *beside):
        if stream.key.metric == DISTANCE:
            distances.setdefault(family_of(stream.key), []).append(shown.get(stream.id) or estimate_of(stream))
        elif stream.key.metric == SCORE and not stream.key.group:
            scores.append(stream)
    for stream in scores:
        found = distances.get(family_of(msgspec.structs.replace(stream.key, metric=DISTANCE)), [])
        shown[stream.id] = with_most_normal(shown.get(stream.id) or estimate_of(stream), found)
    return shown


def _with_their_scores(families: Iterable[Family]) -> set[Family]:
    """The families of distances and of scores of the same axes."""
    return {
        (auditor, metric, axis, model, instrument)
        for auditor, _, axis, model, instrument in families
        for metric in IDENTITIES
    }


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def key_of(row: sa.Row[Any]) -> StreamKey:
    return StreamKey(
        auditor=row.auditor,
        metric=row.metric,
        axis=row.axis,
        group=row.group_name,
        model=row.model,
        instrument=row.instrument,
    )


def _stream(row: sa.Row[Any]) -> Stream:
    return Stream(
        id=row.key,
        key=key_of(row),
        state=read_state(row.state),
        updated_at=row.updated_at,
        alarm_since=row.alarm_since,
        alarm_exchange_id=row.alarm_exchange_id,
        acknowledged_at=row.acknowledged_at,
    )
