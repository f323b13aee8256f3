"""Stored exchanges, found by what names them or by how they were scored: newest first, in pages, scored or not.

A request id is a client's choice: it may stand for any number of exchanges.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import sqlalchemy as sa

from auditors.types import Exchange, Status
from gateway.privacy.texts import Texts
from gateway.store.database import Database
from gateway.store.exchanges import UNREDACTABLE, State, exchange_columns, exchange_of, fitted
from gateway.store.tables import exchange_audits, exchanges, measurements, waiting_audits


class Criteria(msgspec.Struct, frozen=True, kw_only=True):
    """Which exchanges: all that is given must apply, what is None may be anything.

    `auditor`, `metric`, `axis`, `group` and the bounds are those of one and the same score.
    """

    request_id: str | None = None
    exchange_ids: Sequence[str] | None = None
    tag: str | None = None
    key: str | None = None
    """Name of the client's key."""
    model: str | None = None
    """The name that the client asked for, or the one that the upstream serves."""
    state: State | None = None
    auditor: str | None = None
    metric: str | None = None
    axis: str | None = None
    group: str | None = None
    min_score: float | None = None
    """At least this, in the metric's own unit."""
    max_score: float | None = None

    @property
    def is_about_scores(self) -> bool:
        """Then exchanges without such a score are left out."""
        return any(getattr(self, name) is not None for name in _OF_SCORES)


_OF_SCORES = ("auditor", "metric", "axis", "group", "min_score", "max_score")


class Place(NamedTuple):
    """Where a row stands in the order: the newest exchange first, of its scores the newest first."""

    received_at: float
    exchange_id: str
    measurement_id: int
    """0 for an exchange without a score."""


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """A measurement, or the recorded absence of one."""

    id: int
    auditor: str
    auditor_version: str
    metric: str
    axis: str | None
    group: str | None
    reference: str | None
    model: str
    value: float | None
    status: Status
    reason: str | None
    judge: Mapping[str, Any] | None
    detail: Mapping[str, Any]
    inclusion_probability: float
    weight: float
    created_at: float
    stream: str | None


class Audit(msgspec.Struct, frozen=True, kw_only=True):
    """An auditor that is done with an exchange, or waits for a server to audit it (`outcome` "waiting")."""

    auditor: str
    outcome: str
    """audited | not_auditable | failed | waiting"""
    failure_kind: str | None = None
    message: str | None = None
    """May quote a server."""
    server: str | None = None
    """That it waits for."""
    seconds: float | None = None
    finished_at: float | None = None
    waits_since: float | None = None


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """An exchange and what became of it. Times are Unix seconds."""

    exchange: Exchange
    state: State
    settled_at: float | None
    redactions: Mapping[str, int]
    """Places of its text that were replaced before it was stored, by kind."""

    @property
    def is_unredactable(self) -> bool:
        """Its text was dropped because redacting it took too long."""
        return UNREDACTABLE in self.redactions


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """One row of a search: an exchange with one of its scores, or with none."""

    place: Place
    stored: Stored
    score: Score | None

    @property
    def exchange(self) -> Exchange:
        return self.stored.exchange


_MEASUREMENT_ID = sa.func.coalesce(measurements.c.id, 0)
_ORDER = (exchanges.c.received_at, exchanges.c.id, _MEASUREMENT_ID)
_JSON = ("judge", "detail")
_RENAMED = {"group_name": "group", "reference_name": "reference"}
_SCORE_COLUMNS = [
    column.label(f"m_{column.name}")
    for column in measurements.c
    if _RENAMED.get(column.name, column.name) in {field.name for field in msgspec.structs.fields(Score)}
]


async def search(
    database: Database, criteria: Criteria, *, before: Place | None = None, limit: int = 100
) -> list[Found]:
    """The newest rows: one for each score, and one for an exchange that has none unless the criteria are about scores.

    Args:
        database: the store.
        criteria: which.
        before: only what comes after this place in the list; None from its beginning.
        limit: rows at most.
    """
    query = places(criteria).limit(limit)
    if before is not None:
        # The first condition alone can be read off an index.
        query = query.where(exchanges.c.received_at <= before.received_at, sa.tuple_(*_ORDER) < sa.tuple_(*before))
    async with database.read() as connection:
        rows = (await connection.execute(query)).all()
    stored = await load(database, {row.e_id for row in rows})
    return [
        Found(place=_place(row), stored=stored[row.e_id], score=None if row.m_id is None else _score(row))
        for row in rows
        if row.e_id in stored  # deleted in between
    ]


async def of_stream(
    database: Database,
    stream: str,
    *,
    received_from: float | None = None,
    received_before: float | None = None,
    limit: int,
) -> list[str]:
    """Ids of stored exchanges with a value in this stream, the newest first.

    Args:
        database: the store.
        stream: its id.
        received_from: only those received at this Unix time or later.
        received_before: only those received before this Unix time.
        limit: at most so many.
    """
    columns = measurements.c
    # Not the bare column: by its index SQLite would look through the whole stream for each exchange.
    is_of_it = sa.func.coalesce(columns.stream, "") == stream
    of_it = [columns.exchange_id == exchanges.c.id, is_of_it, columns.value.is_not(None)]
    query = sa.select(exchanges.c.id).select_from(exchanges.outerjoin(measurements, sa.and_(*of_it)))
    query = query.where(_MEASUREMENT_ID > 0)  # see `places`
    if received_from is not None:
        query = query.where(exchanges.c.received_at >= received_from)
    if received_before is not None:
        query = query.where(exchanges.c.received_at < received_before)
    async with database.read() as connection:
        found = await connection.execute(query.order_by(*(one.desc() for one in _ORDER)).limit(limit))
        return list(dict.fromkeys(found.scalars()))


async def has_request(database: Database, request_id: str) -> bool:
    """Whether any exchange with this request id is stored."""
    query = sa.select(exchanges.c.id).where(exchanges.c.request_id == fitted("request_id", request_id)).limit(1)
    async with database.read() as connection:
        return (await connection.execute(query)).first() is not None


async def load(database: Database, ids: Collection[str]) -> dict[str, Stored]:
    """Those of these exchanges that are stored, by id."""
    columns = [*exchange_columns(), exchanges.c.state, exchanges.c.settled_at, exchanges.c.redactions]
    query = sa.select(*columns).where(exchanges.c.id.in_(ids))
    async with database.read() as connection:
        return {row.id: _stored(row, database.texts) for row in await connection.execute(query)}


async def scores(database: Database, ids: Collection[str]) -> dict[str, list[Score]]:
    """Every measurement of these exchanges, those without a value among them, in the order of their making."""
    query = sa.select(measurements.c.exchange_id, *_SCORE_COLUMNS).order_by(measurements.c.id)
    found: dict[str, list[Score]] = {one: [] for one in ids}
    async with database.read() as connection:
        for row in await connection.execute(query.where(measurements.c.exchange_id.in_(ids))):
            found[row.exchange_id].append(_score(row))
    return found


async def audits(database: Database, ids: Collection[str]) -> dict[str, list[Audit]]:
    """What each auditor made of these exchanges, and which of them wait for a server."""
    done = exchange_audits.c
    columns = (done.auditor, done.outcome, done.failure_kind, done.message, done.seconds, done.finished_at)
    finished = sa.select(done.exchange_id, *columns).where(done.exchange_id.in_(ids)).order_by(done.auditor)
    waits = waiting_audits.c
    waiting = sa.select(waits.exchange_id, waits.auditor, waits.server, waits.error, waits.since)
    found: dict[str, list[Audit]] = {one: [] for one in ids}
    async with database.read() as connection:
        for exchange_id, *values in await connection.execute(finished):
            fields = dict(zip((column.name for column in columns), values, strict=True))
            found[exchange_id].append(Audit(**fields))
        for exchange_id, auditor, server, error, since in await connection.execute(
            waiting.where(waits.exchange_id.in_(ids)).order_by(waits.auditor)
        ):
            found[exchange_id].append(
                Audit(auditor=auditor, outcome="waiting", server=server, message=error, waits_since=since)
            )
    return found


def places(criteria: Criteria) -> sa.Select[Any]:
    """Ids and scores in order, without any text, so that what is sorted is small."""
    columns = exchanges.c
    joined = exchanges.outerjoin(measurements, sa.and_(*_score_conditions(criteria)))
    query = sa.select(columns.id.label("e_id"), columns.received_at.label("e_received_at"), *_SCORE_COLUMNS)
    query = query.select_from(joined).order_by(*(one.desc() for one in _ORDER))
    if criteria.is_about_scores:
        # An inner join would begin with the scores, of which there are many more, and sort them for one page.
        query = query.where(_MEASUREMENT_ID > 0)
    for name, given in (
        ("request_id", criteria.request_id),
        ("tag", criteria.tag),
        ("key_name", criteria.key),
        ("state", criteria.state),
    ):
        if given is not None:
            query = query.where(columns[name] == fitted(name, given))
    if criteria.model is not None:
        names = [columns[name] == fitted(name, criteria.model) for name in ("model", "served_model")]
        query = query.where(sa.or_(*names))
    if criteria.exchange_ids is not None:
        query = query.where(columns.id.in_([fitted("id", one) for one in criteria.exchange_ids]))
    return query


def _score_conditions(criteria: Criteria) -> list[sa.ColumnElement[bool]]:
    columns = measurements.c
    found = [columns.exchange_id == exchanges.c.id, columns.value.is_not(None)]
    for name, given in (
        ("auditor", criteria.auditor),
        ("metric", criteria.metric),
        ("axis", criteria.axis),
        ("group_name", criteria.group),
    ):
        if given is not None:
            found.append(columns[name] == given.replace("\x00", ""))
    if criteria.min_score is not None:
        found.append(columns.value >= criteria.min_score)
    if criteria.max_score is not None:
        found.append(columns.value <= criteria.max_score)
    return found


def _place(row: sa.Row[Any]) -> Place:
    return Place(row.e_received_at, row.e_id, row.m_id or 0)


def _score(row: sa.Row[Any]) -> Score:
    fields = {
        _RENAMED.get(column.name.removeprefix("m_"), column.name.removeprefix("m_")): row._mapping[column.name]
        for column in _SCORE_COLUMNS
    }
    for name in _JSON:
        fields[name] = None if fields[name] is None else msgspec.json.decode(fields[name])
    return Score(**fields | {"detail": fields["detail"] or {}})


def _stored(row: sa.Row[Any], texts: Texts) -> Stored:
    return Stored(
        exchange=exchange_of(row, texts),
        state=row.state,
        settled_at=row.settled_at,
        redactions=msgspec.json.decode(row.redactions or "{}"),
    )
