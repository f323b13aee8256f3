"""Rows of live streams: sums and detector, with the text that shows them, so that a worker need not read the states."""

import time
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from auditors.streams.soundness import read_state
from auditors.streams.state import StreamKey, StreamState
from gateway.store.connections import upsert
from gateway.store.database import Database
from gateway.store.tables import streams
from gateway.turns import in_turns

WIDTH = 200
"""Characters of a model or an instrument that a row keeps; the key has all of them."""
Family = tuple[str, str, str, str, str]
"""Auditor, metric, axis, model, instrument: the streams of the same axis that differ in their group only."""
_FAMILY = (streams.c.auditor, streams.c.metric, streams.c.axis, streams.c.model, streams.c.instrument)
ORDER = (
    *(streams.c.auditor, streams.c.metric, streams.c.axis),
    *(streams.c.group_name, streams.c.model, streams.c.instrument),
)

_EMPTY_STATE = msgspec.json.encode(StreamState()).decode()

Column = Literal["estimate", "detector"]
MOST = 10_000
"""Streams in one answer."""
_NO_STATE = StreamState()
_COLUMNS = {"group": "group_name"}
"""Columns of labels that are named otherwise in the table."""


class Stream(msgspec.Struct, frozen=True, kw_only=True):
    """One live series. Times are Unix seconds."""

    id: str
    key: StreamKey
    state: StreamState
    updated_at: float
    alarm_since: float | None
    """Time at which the alarm that stands was raised."""
    alarm_exchange_id: str | None
    """The exchange whose audit raised the alarm."""
    acknowledged_at: float | None


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """The streams that are asked for; None is any."""

    model: str | None = None
    axis: str | None = None
    auditor: str | None = None
    alarmed: bool = False
    """Only those with an alarm that stands."""
    limit: int = MOST
    offset: int = 0


class Row(msgspec.Struct, frozen=True):
    """One stream of a page."""

    id: str
    model: str
    alarm_since: float | None
    alarm_exchange_id: str | None
    text: str | None
    """JSON; None for a stream that has not moved since what is shown is kept."""


class Page(msgspec.Struct, frozen=True):
    """Rows in the order of the streams' keys."""

    rows: Sequence[Row]
    total: int
    """Number of streams in the selection, on all pages."""
    n_streams: int
    """Number of streams in the store."""


def family_of(key: StreamKey) -> Family:
    return key.auditor, key.metric, key.axis, key.model[:WIDTH], key.instrument[:WIDTH]


async def versions(database: Database) -> dict[str, tuple[float, float | None]]:
    """Return a version of each stream by id, in the order of their keys: it changes whenever the stream does."""
    columns = streams.c
    query = sa.select(columns.key, columns.updated_at, columns.acknowledged_at).order_by(*ORDER)
    return {row.key: (row.updated_at, row.acknowledged_at) for row in await database.fetch_rows(query)}


async def stamp(database: Database) -> tuple[object, ...]:
    """Changes whenever a stream does: cheap to ask for, when nothing happens."""
    columns = streams.c
    sums = [sa.func.sum(columns.updated_at), sa.func.max(columns.updated_at), sa.func.sum(columns.acknowledged_at)]
    [row] = await database.fetch_rows(sa.select(sa.func.count(), *sums).select_from(streams))
    return tuple(row)


async def load(database: Database, ids: Sequence[str]) -> list[Stream]:
    return [_stream(row) for row in await database.fetch_rows(sa.select(streams).where(streams.c.key.in_(ids)))]


async def page(database: Database, column: Column, selection: Selection) -> Page:
    """Return the shown texts of the selected streams."""
    columns = streams.c
    chosen = sa.select(columns.key, columns.model, columns.alarm_since, columns.alarm_exchange_id, columns[column])
    query = chosen.where(*_where(selection)).order_by(*ORDER).limit(selection.limit).offset(selection.offset)
    counted = sa.select(sa.func.count()).select_from(streams)
    async with database.read() as connection:
        n_streams = (await connection.execute(counted)).scalar() or 0
        total = (await connection.execute(counted.where(*_where(selection)))).scalar() or 0
        rows = (await connection.execute(query)).all()
    return Page(await in_turns(lambda row: _row(*row), rows), total, n_streams)


async def heads(database: Database, selection: Selection) -> list[Stream]:
    """The selected streams of all pages, without their state."""
    without_state = [column for column in streams.c if column.name not in ("state", "estimate", "detector")]
    query = sa.select(*without_state).where(*_where(selection)).order_by(*ORDER)
    return await in_turns(lambda row: _stream(row, _NO_STATE), await database.fetch_rows(query))


def _row(key: str, model: str, alarm_since: float | None, alarm_exchange_id: str | None, text: str | None) -> Row:
    """A text that was cut off is as good as none; a whole page of others would be unreadable with it."""
    is_whole = text is not None and text.startswith("{") and text.endswith("}")
    return Row(key, model, alarm_since, alarm_exchange_id, text if is_whole else None)


def _where(selection: Selection) -> list[sa.ColumnElement[bool]]:
    columns = streams.c
    values = {columns.model: selection.model, columns.axis: selection.axis, columns.auditor: selection.auditor}
    conditions = [column == value for column, value in values.items() if value is not None]
    return [*conditions, columns.alarm_since.is_not(None)] if selection.alarmed else conditions


async def n_alarmed(database: Database) -> int:
    """Return how many streams have an alarm that stands."""
    return await database.count(streams, streams.c.alarm_since.is_not(None))


async def find(database: Database, labels: Mapping[str, str | None]) -> str | None:
    """Id of the newest stream of a series (auditor, metric, axis, group, model; None or ""); None without any."""
    same = [streams.c[_COLUMNS.get(name, name)] == (value or "") for name, value in labels.items()]
    query = sa.select(streams.c.key).where(*same).order_by(streams.c.updated_at.desc()).limit(1)
    return await database.fetch_value(query)


async def count(database: Database) -> int:
    return await database.count(streams)


async def count_within(connection: AsyncConnection) -> int:
    """Return how many streams there are, in the caller's transaction."""
    return (await connection.execute(sa.select(sa.func.count()).select_from(streams))).scalar() or 0


async def evidence(connection: AsyncConnection, least: float) -> dict[str, float]:
    """Log evidence of each stream that has so much, by its id."""
    query = sa.select(streams.c.key, streams.c.log_evidence).where(streams.c.log_evidence >= least)
    return {row.key: row.log_evidence for row in await connection.execute(query)}


async def evident(database: Database, least: float) -> list[str]:
    """Return the texts of the detectors that have so much log evidence, or whose alarm stands."""
    has_enough = sa.or_(streams.c.log_evidence >= least, streams.c.alarm_since.is_not(None))
    query = sa.select(streams.c.detector).where(has_enough, streams.c.detector.is_not(None)).order_by(*ORDER)
    return [row.detector for row in await database.fetch_rows(query)]


async def unrendered(connection: AsyncConnection, *, limit: int) -> list[str]:
    """Ids of streams of which no text that shows them is stored."""
    query = sa.select(streams.c.key).where(streams.c.estimate.is_(None)).limit(limit)
    return list((await connection.execute(query)).scalars())


async def insert_missing(connection: AsyncConnection, keys: Sequence[StreamKey]) -> None:
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


async def groups_of(
    connection: AsyncConnection, ids: Sequence[str], families: Sequence[Family]
) -> dict[str, tuple[Family, str]]:
    """Family and group of these streams and of those of these families, by id."""
    query = sa.select(streams.c.key, streams.c.group_name, *_FAMILY).where(_any_of(ids, families))
    return {key: (tuple(rest), group) for key, group, *rest in await connection.execute(query)}


def _any_of(ids: Sequence[str], families: Sequence[Family]) -> sa.ColumnElement[bool]:
    alike = [[column == value for column, value in zip(_FAMILY, family, strict=True)] for family in families]
    return sa.or_(streams.c.key.in_(ids), *(sa.and_(*conditions) for conditions in alike))


async def lock(connection: AsyncConnection, ids: Sequence[str], families: Sequence[Family] = ()) -> list[Stream]:
    """These streams and those of these families, in the order of their ids, until the transaction ends."""
    query = sa.select(streams).where(_any_of(ids, families)).order_by(streams.c.key).with_for_update()
    return [_stream(row) for row in await connection.execute(query)]


async def save(connection: AsyncConnection, rows: Sequence[dict[str, Any]]) -> None:
    """Write columns of streams back, in the caller's transaction; each row names its stream as "row"."""
    if rows:
        change = sa.update(streams).where(streams.c.key == sa.bindparam("row"))
        values: dict[str, Any] = {name: sa.bindparam(name) for name in rows[0] if name != "row"}
        await connection.execute(change.values(values), rows)


def key_of(row: sa.Row[Any]) -> StreamKey:
    return StreamKey(
        auditor=row.auditor,
        metric=row.metric,
        axis=row.axis,
        group=row.group_name,
        model=row.model,
        instrument=row.instrument,
    )


def _stream(row: sa.Row[Any], state: StreamState | None = None) -> Stream:
    return Stream(
        id=row.key,
        key=key_of(row),
        state=read_state(row.state) if state is None else state,
        updated_at=row.updated_at,
        alarm_since=row.alarm_since,
        alarm_exchange_id=row.alarm_exchange_id,
        acknowledged_at=row.acknowledged_at,
    )
