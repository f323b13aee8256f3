"""Pages of live streams as they are shown: text that the auditor wrote with each audit, passed on and not read.

A worker of the gateway has no time to read thousands of states: its event loop relays live traffic meanwhile. What it
must look into, it looks into in short steps.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
import sqlalchemy as sa

from auditors.streams.state import StreamState
from gateway.live.stream import Stream
from gateway.live.turns import in_turns
from gateway.store.database import Database
from gateway.store.streams import ORDER, key_of
from gateway.store.tables import streams

Column = Literal["estimate", "detector"]
MOST = 10_000
"""Streams in one answer."""
_NO_STATE = StreamState()
_COLUMNS = {"group": "group_name"}
"""Of labels that are named otherwise in the table."""


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """Which streams are asked for; None is any."""

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
    """How many streams the selection has, on all pages."""
    n_streams: int
    """How many there are in the store."""


async def page(database: Database, column: Column, selection: Selection) -> Page:
    """What is shown of the selected streams."""
    columns = streams.c
    chosen = sa.select(columns.key, columns.model, columns.alarm_since, columns.alarm_exchange_id, columns[column])
    query = chosen.where(*_where(selection)).order_by(*ORDER).limit(selection.limit).offset(selection.offset)
    counted = sa.select(sa.func.count()).select_from(streams)
    async with database.read() as connection:
        n_streams = (await connection.execute(counted)).scalar() or 0
        total = (await connection.execute(counted.where(*_where(selection)))).scalar() or 0
        found = (await connection.execute(query)).all()
    return Page(await in_turns(lambda row: _row(*row), found), total, n_streams)


async def heads(database: Database, selection: Selection) -> list[Stream]:
    """The selected streams of all pages, without their state."""
    columns = streams.c
    names = ("key", "auditor", "metric", "axis", "group_name", "model", "instrument", "updated_at", "alarm_since")
    query = sa.select(*(columns[name] for name in names)).where(*_where(selection)).order_by(*ORDER)
    async with database.read() as connection:
        found = (await connection.execute(query)).all()
    return await in_turns(_head, found)


def _row(key: str, model: str, alarm_since: float | None, alarm_exchange_id: str | None, text: str | None) -> Row:
    """A text that was cut off is as good as none; a whole page of others would be unreadable with it."""
    is_whole = text is not None and text.startswith("{") and text.endswith("}")
    return Row(key, model, alarm_since, alarm_exchange_id, text if is_whole else None)


def _head(row: sa.Row[Any]) -> Stream:
    return Stream(
        id=row.key,
        key=key_of(row),
        state=_NO_STATE,
        updated_at=row.updated_at,
        alarm_since=row.alarm_since,
        alarm_exchange_id=None,
        acknowledged_at=None,
    )


def _where(selection: Selection) -> list[sa.ColumnElement[bool]]:
    columns = streams.c
    wanted = {columns.model: selection.model, columns.axis: selection.axis, columns.auditor: selection.auditor}
    found = [column == value for column, value in wanted.items() if value is not None]
    return [*found, columns.alarm_since.is_not(None)] if selection.alarmed else found


async def n_alarmed(database: Database) -> int:
    """How many streams have an alarm that stands."""
    query = sa.select(sa.func.count()).select_from(streams).where(streams.c.alarm_since.is_not(None))
    async with database.read() as connection:
        return (await connection.execute(query)).scalar() or 0


async def find(database: Database, labels: Mapping[str, str | None]) -> str | None:
    """Id of the newest stream of a series; None where there is none.

    Args:
        database: the store.
        labels: auditor, metric, axis, group and model; None or "" where the series has none.
    """
    same = [streams.c[_COLUMNS.get(name, name)] == (value or "") for name, value in labels.items()]
    query = sa.select(streams.c.key).where(*same).order_by(streams.c.updated_at.desc()).limit(1)
    async with database.read() as connection:
        found: str | None = (await connection.execute(query)).scalar()
    return found
