"""Finds stored exchanges by their names or by their scores: newest first, in pages, scored or not. A request id is a
client's choice: it may stand for any number of exchanges. Values without an index are looked for among the newest
exchanges, then among older ones, for a moment: a page may end before it is full, and says where to go on.
"""

import math
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from auditors.types import Exchange, Status
from gateway.privacy.texts import Texts
from gateway.store.database import Database
from gateway.store.exchanges import UNREDACTABLE, State, exchange_columns, exchange_of, fitted
from gateway.store.tables import exchange_audits, exchanges, measurements, waiting_audits

SKEW_SECONDS = 86_400.0
"""Seconds by which clocks of gateways and auditors may differ without a score missing from a list."""
WAIT_SECONDS = 86_400.0
"""Between receipt and audit, where examples are looked for first."""
LOOK_SECONDS = 0.1
"""After about which a page ends where it is."""
FIRST_LOOK, MORE = 500, 4
"""Exchanges that are looked at first, and by how much the number grows at most."""
WORTH_A_LOOK = 0.2
"""Share of LOOK_SECONDS that must be left for another look."""


class Criteria(msgspec.Struct, frozen=True, kw_only=True):
    """Criteria that must all apply; None: any. `auditor`, `metric`, `axis`, `group`, bounds are of the same score."""

    request_id: str | None = None
    exchange_ids: Sequence[str] | None = None
    tag: str | None = None
    key: str | None = None
    """Name of the client's key."""
    model: str | None = None
    """The name that the client asked for, or the name that the upstream serves."""
    state: State | None = None
    auditor: str | None = None
    metric: str | None = None
    axis: str | None = None
    group: str | None = None
    min_score: float | None = None
    """Least score, in the metric's own unit."""
    max_score: float | None = None
    since: float | None = None
    """Unix time of receipt; `until` too."""
    until: float | None = None

    @property
    def is_about_scores(self) -> bool:
        """Then exchanges without such a score are left out."""
        return any(getattr(self, name) is not None for name in _OF_SCORES)

    @property
    def is_indexed(self) -> bool:
        """Return whether an index finds the exchanges, however few they are among all."""
        names = {name for name in self.__struct_fields__ if getattr(self, name) is not None}
        return bool(names & {"request_id", "exchange_ids"}) or names == {"state"}


_OF_SCORES = ("auditor", "metric", "axis", "group", "min_score", "max_score")


class Place(NamedTuple):
    """Place of a row in the order: the newest exchange first, of its scores the newest first."""

    received_at: float
    exchange_id: str
    """"" for the end of a part: nothing is left of that instant."""
    measurement_id: int
    """0 for an exchange without a score."""


class Span(NamedTuple):
    """Exchanges received at these Unix times, both included."""

    start: float
    end: float
    settled: float
    """Time until which all of them were settled; infinity if any is not."""
    is_last: bool
    """True if older exchanges do not exist."""


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """A measurement, or the recorded absence of a measurement."""

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
    """An exchange and its outcome. Times are Unix seconds."""

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


class Part(msgspec.Struct, frozen=True):
    """Rows of a search."""

    rows: Sequence[Found]
    end: Place | None
    """Place up to which was looked; None if nothing is left, and if `rows` are as many as were asked for."""


_MEASUREMENT_ID = sa.func.coalesce(measurements.c.id, 0)
_ORDER = (exchanges.c.received_at, exchanges.c.id, _MEASUREMENT_ID)
_JSON = ("judge", "detail")
_RENAMED = {"group_name": "group", "reference_name": "reference"}
_SCORE_COLUMNS = [
    column.label(f"m_{column.name}")
    for column in measurements.c
    if _RENAMED.get(column.name, column.name) in {field.name for field in msgspec.structs.fields(Score)}
]


async def search(database: Database, criteria: Criteria, *, before: Place | None = None, limit: int = 100) -> Part:
    """The newest rows after `before`: one for each score, and for exchanges without, unless scores are asked."""
    rows: list[sa.Row[Any]] = []
    end, look, started = None, FIRST_LOOK, time.monotonic()
    at_most = math.inf if before is None else before.received_at if before.exchange_id else _before(before.received_at)
    at_most = min(at_most, math.inf if criteria.until is None else criteria.until)
    async with database.read() as connection:
        while True:
            began = time.monotonic()
            span = None if criteria.is_indexed else await _span(connection, at_most, look)
            if span is not None or criteria.is_indexed:
                query = places(criteria, span).limit(limit - len(rows))
                if before is not None:
                    # The first condition alone can be read off an index.
                    query = query.where(exchanges.c.received_at <= before.received_at)
                    query = query.where(sa.tuple_(*_ORDER) < sa.tuple_(*before))
                rows += (await connection.execute(query)).all()
            if span is None or span.is_last or len(rows) >= limit or span.start < (criteria.since or 0.0):
                break
            now = time.monotonic()
            left = LOOK_SECONDS - (now - started)
            if left < LOOK_SECONDS * WORTH_A_LOOK:
                end = Place(span.start, "", 0)
                break
            # As many as can be looked at in the time that is left, by how long this look took.
            at_most, look = _before(span.start), math.ceil(look * min(MORE, left / (now - began)))
    stored = await load(database, {row.e_id for row in rows})
    results = [
        Found(place=_place(row), stored=stored[row.e_id], score=None if row.m_id is None else _score(row))
        for row in rows
        if row.e_id in stored  # deleted in between
    ]
    return Part(results, end)


def _before(at: float) -> float:
    return math.nextafter(at, -math.inf)


async def _span(connection: AsyncConnection, at_most: float, look: int) -> Span | None:
    columns = exchanges.c
    settled = sa.func.coalesce(columns.settled_at, math.inf).label("settled_at")
    newest = sa.select(columns.received_at, settled).where(columns.received_at <= at_most)
    newest = newest.order_by(columns.received_at.desc()).limit(look)
    newest_columns = newest.subquery().c
    received_at, settled_at = newest_columns.received_at, newest_columns.settled_at
    ends = sa.select(sa.func.min(received_at), sa.func.max(received_at), sa.func.max(settled_at), sa.func.count())
    start, end, settled, n = (await connection.execute(ends)).one()
    return Span(start, end, settled, is_last=n < look) if n else None


async def of_stream(
    database: Database,
    stream: str,
    *,
    received_from: float | None = None,
    received_before: float | None = None,
    limit: int,
) -> list[str]:
    """Ids of stored exchanges with a value in the stream, received in this time; the newest audits first."""
    columns, received_at = measurements.c, exchanges.c.received_at
    of_it = [columns.stream == stream, columns.value.is_not(None), columns.exchange_id.is_not(None)]
    query = sa.select(columns.exchange_id).join(exchanges, exchanges.c.id == columns.exchange_id).where(*of_it)
    query = query.order_by(columns.created_at.desc(), columns.id.desc()).limit(limit)
    async with database.read() as connection:
        oldest = (await connection.execute(sa.select(sa.func.min(received_at)))).scalar()
        if oldest is None:
            return []
        start = oldest if received_from is None else max(oldest, received_from)
        query = query.where(received_at >= start, columns.created_at >= start - SKEW_SECONDS)
        if received_before is not None:
            query = query.where(received_at < received_before)
            soon = query.where(columns.created_at < received_before + WAIT_SECONDS)
            ids = list((await connection.execute(soon)).scalars())
            if len(ids) == limit:
                return list(dict.fromkeys(ids))
        return list(dict.fromkeys((await connection.execute(query)).scalars()))


async def facets(database: Database, among: Sequence[str] | None = None) -> dict[str, list[tuple[str | None, int]]]:
    """Count models, tags, keys and groups of these exchanges, or of the newest 1,000; frequent values first."""
    received = sa.select(exchanges.c.model, exchanges.c.tag, exchanges.c.key_name.label("key"))
    scored = sa.select(measurements.c.group_name.label("group")).where(measurements.c.group_name.is_not(None))
    if among is None:
        received = received.order_by(exchanges.c.received_at.desc()).limit(1000)
        scored = scored.order_by(measurements.c.id.desc()).limit(1000)
    else:
        received = received.where(exchanges.c.id.in_(among))
        scored = scored.where(measurements.c.exchange_id.in_(among))
    counts: dict[str, Counter[str | None]] = {}
    for query in (received, scored):
        for row in await database.fetch_rows(query):
            for name, value in row._mapping.items():
                counts.setdefault(name, Counter())[value] += 1
    return {name: counter.most_common(8) for name, counter in counts.items()}


async def neighbours(database: Database, received_at: float, exchange_id: str) -> tuple[str | None, str | None]:
    """Return the ids of the exchanges received just before and just after this one; None where there is none."""
    order, here = (exchanges.c.received_at, exchanges.c.id), (received_at, exchange_id)
    older = sa.select(exchanges.c.id).where(sa.tuple_(*order) < sa.tuple_(*here), order[0] <= received_at)
    newer = sa.select(exchanges.c.id).where(sa.tuple_(*order) > sa.tuple_(*here), order[0] >= received_at)
    older = older.order_by(*(column.desc() for column in order)).limit(1)
    return await database.fetch_value(older), await database.fetch_value(newer.order_by(*order).limit(1))


async def has_request(database: Database, request_id: str) -> bool:
    """Return whether any exchange with this request id is stored."""
    query = sa.select(exchanges.c.id).where(exchanges.c.request_id == fitted("request_id", request_id)).limit(1)
    return await database.fetch_row(query) is not None


async def load(database: Database, ids: Collection[str]) -> dict[str, Stored]:
    """Return those of these exchanges that are stored, by id."""
    columns = [*exchange_columns(), exchanges.c.state, exchanges.c.settled_at, exchanges.c.redactions]
    query = sa.select(*columns).where(exchanges.c.id.in_(ids))
    return {row.id: _stored(row, database.texts) for row in await database.fetch_rows(query)}


async def scores(database: Database, ids: Collection[str]) -> dict[str, list[Score]]:
    """Every measurement of these exchanges, those without a value among them, in the order of their making."""
    query = sa.select(measurements.c.exchange_id, *_SCORE_COLUMNS).order_by(measurements.c.id)
    scores_by_id: dict[str, list[Score]] = {id_: [] for id_ in ids}
    for row in await database.fetch_rows(query.where(measurements.c.exchange_id.in_(ids))):
        scores_by_id[row.exchange_id].append(_score(row))
    return scores_by_id


async def audits(database: Database, ids: Collection[str]) -> dict[str, list[Audit]]:
    """Return each auditor's result for these exchanges, and which of them wait for a server."""
    done = exchange_audits.c
    columns = (done.auditor, done.outcome, done.failure_kind, done.message, done.seconds, done.finished_at)
    finished = sa.select(done.exchange_id, *columns).where(done.exchange_id.in_(ids)).order_by(done.auditor)
    waits = waiting_audits.c
    waiting = sa.select(waits.exchange_id, waits.auditor, waits.server, waits.error, waits.since)
    audits_by_id: dict[str, list[Audit]] = {id_: [] for id_ in ids}
    async with database.read() as connection:
        for exchange_id, *values in await connection.execute(finished):
            fields = dict(zip((column.name for column in columns), values, strict=True))
            audits_by_id[exchange_id].append(Audit(**fields))
        for exchange_id, auditor, server, error, since in await connection.execute(
            waiting.where(waits.exchange_id.in_(ids)).order_by(waits.auditor)
        ):
            audits_by_id[exchange_id].append(
                Audit(auditor=auditor, outcome="waiting", server=server, message=error, waits_since=since)
            )
    return audits_by_id


def places(criteria: Criteria, span: Span | None = None) -> sa.Select[Any]:
    """Ids and scores in order, without any text, so that what is sorted is small; of exchanges of this span."""
    columns = exchanges.c
    joined = exchanges.outerjoin(measurements, sa.and_(*_score_conditions(criteria, span)))
    query = sa.select(columns.id.label("e_id"), columns.received_at.label("e_received_at"), *_SCORE_COLUMNS)
    query = query.select_from(joined).order_by(*(column.desc() for column in _ORDER))
    if criteria.is_about_scores:
        # An inner join would begin with the scores, of which there are many more, and sort them for one page.
        query = query.where(_MEASUREMENT_ID > 0)
    if span is not None:
        query = query.where(columns.received_at.between(span.start, span.end))
    exact = {"request_id": criteria.request_id, "tag": criteria.tag, "key_name": criteria.key, "state": criteria.state}
    for name, value in exact.items():
        if value is not None:
            query = query.where(columns[name] == fitted(name, value))
    if criteria.model is not None:
        names = [columns[name] == fitted(name, criteria.model) for name in ("model", "served_model")]
        query = query.where(sa.or_(*names))
    if criteria.since is not None:
        query = query.where(columns.received_at >= criteria.since)
    if criteria.until is not None:
        query = query.where(columns.received_at <= criteria.until)
    if criteria.exchange_ids is not None:
        query = query.where(columns.id.in_([fitted("id", id_) for id_ in criteria.exchange_ids]))
    return query


def _score_conditions(criteria: Criteria, span: Span | None) -> list[sa.ColumnElement[bool]]:
    columns = measurements.c
    conditions = [columns.exchange_id == exchanges.c.id, columns.value.is_not(None)]
    if span is not None:  # on PostgreSQL, these days' partitions only
        conditions.append(columns.created_at >= span.start - SKEW_SECONDS)
        if math.isfinite(span.settled):
            conditions.append(columns.created_at <= span.settled + SKEW_SECONDS)
    for name in ("auditor", "metric", "axis", "group"):
        value: str | None = getattr(criteria, name)
        if value is not None:
            conditions.append(columns["group_name" if name == "group" else name] == value.replace("\x00", ""))
    if criteria.min_score is not None:
        conditions.append(columns.value >= criteria.min_score)
    if criteria.max_score is not None:
        conditions.append(columns.value <= criteria.max_score)
    return conditions


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
