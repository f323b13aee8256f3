"""Keeps the work on the cause of a stream's newest alarm as a fact without text, and reads audits before and since."""

import hashlib
from collections.abc import Callable, Container, Iterable, Sequence
from typing import Literal, NamedTuple

import msgspec
import sqlalchemy as sa

from auditors.metrics.weighting import bounded_weight
from auditors.streams.scales import GAP_SUFFIX, scaled
from auditors.streams.state import MISSING, StreamKey
from gateway.store.connections import put_row
from gateway.store.database import Database
from gateway.store.streams import Stream, family_of, groups_of
from gateway.store.tables import exchanges, facts, measurements, streams

MOST_ASKED = 200
"""Exchanges of before that are asked again."""
MOST_BESIDE = 100
"""Further exchanges of before that are asked again: about other groups, which a new answer may bring in."""
LEAST_ASKED = 30
"""Exchanges of before and of since that a split needs."""
MOST_SINCE = 300
"""Exchanges of since that a split uses: the first after the alarm, which the alarm did not choose."""

PartName = Literal["judge", "model", "traffic", "application"]
Status = Literal["pending", "told", "cannot_be_told"]


class Scores(msgspec.Struct, kw_only=True):
    """An exchange's scores on 0..1; None for an answer without a score. `then` was recorded."""

    then: float | None = None
    again: float | None = None
    anew: float | None = None
    crossed: float | None = None


class Row(Scores, kw_only=True):
    """An exchange of before or of since, with its scores of the series, or of a gap's group."""

    id: str
    weight: float
    opening: str = ""
    """Digest of its conversation's opening, up to the first answer."""
    is_first: bool = True
    """True for the first turn of a conversation."""
    fingerprint: str = ""
    """Digest of its system prompt and of the fields that shape an answer."""
    is_beside: bool = False
    """True for an exchange of before in whose answer the group of the series did not come up."""
    rest: Scores = msgspec.field(default_factory=Scores)
    """Scores of the other groups, for a gap: means where an exchange has several."""
    is_answered: bool = False
    """True once it was asked again."""
    is_crossed: bool = False
    """True once it was asked under the other side's conditions, in vain or not."""
    why_left_out: str | None = None
    """Why it cannot be asked again; None if it can, or was."""


class Work(msgspec.Struct, kw_only=True):
    """The state of the work on an alarm."""

    alarm_since: float
    metric: str
    group: str = ""
    """Group that a gap compares with the others; empty for a mean."""
    status: Status = "pending"
    reason: str | None = None
    begun_at: float = 0.0
    is_over: bool = False
    """True once nothing more will be asked."""
    before: list[Row] = []
    since: list[Row] = []
    asked: int = 0
    shift: float | None = None
    """Shift in the metric's own unit, as are the parts: name, value, lower and upper end."""
    parts: list[tuple[PartName, float, float, float]] = []

    @property
    def waiting(self) -> list[Row]:
        """Return the rows of before that are still to be asked again."""
        return [row for row in self.before if not row.is_answered and row.why_left_out is None]

    @property
    def answered(self) -> list[Row]:
        return [row for row in self.before if row.is_answered]

    @property
    def means(self) -> "list[Callable[[Row], bool]]":
        """Return what tells whether a row counts for the series, or for a gap's group and for its others."""
        if not self.group:
            return [lambda row: not row.is_beside]
        return [lambda row: row.then is not None, lambda row: row.rest.then is not None]

    def least(self, rows: Sequence[Row]) -> int:
        """Return how many rows count, of a gap for the side with fewer."""
        return min(sum(map(is_in, rows)) for is_in in self.means)

    def give_up(self, reason: str) -> "Work":
        return msgspec.structs.replace(self, status="cannot_be_told", reason=reason, is_over=True)

    def pending(self, reason: str) -> "Work":
        return self if self.status == "told" else msgspec.structs.replace(self, status="pending", reason=reason)

    def left_out(self) -> str:
        reasons = [row.why_left_out for row in self.before if row.why_left_out]
        return f"; most often: {max(set(reasons), key=reasons.count)}" if reasons else ""


MOST_READ = 5_000
"""Audits of a stream, or of all of a gap's, that are looked at: the newest."""
_PREFIX = "cause:"


class Audit(NamedTuple):
    """One audit of a stream, or of the streams of a gap."""

    exchange_id: str | None
    score: float | None
    """Score on 0..1; None for an answer that has none."""
    rest: float | None
    """Mean of a gap's scores of the other groups."""
    weight: float
    at: float
    """Time at which it was recorded, Unix seconds."""
    has_text: bool
    is_judged: bool


async def read(database: Database, stream: str) -> Work | None:
    """Read the work on a stream's alarm; None before it has begun, and for another version's."""
    body = await database.fetch_value(sa.select(facts.c.value).where(facts.c.name == _PREFIX + stream))
    try:
        return None if body is None else msgspec.msgpack.decode(bytes(body), type=Work)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return None


async def of_alarm(database: Database, stream: str, since: float | None) -> Work | None:
    """Read the work on the alarm that a stream raised at this time; None before it has begun."""
    work = await read(database, stream)
    return work if work is not None and work.alarm_since == since else None


async def standing(database: Database, told: Container[tuple[str, float]] = ()) -> dict[str, Work]:
    """Read the work on the alarms that stand, by stream. `told`: alarms (stream, since) that are left out."""
    works = {}
    for stream, since in (await alarmed(database)).items():
        work = None if (stream, since) in told else await of_alarm(database, stream, since)
        if work is not None:
            works[stream] = work
    return works


async def write(database: Database, stream: str, work: Work) -> None:
    async with database.begin() as connection:
        await put_row(connection, facts, {"name": _PREFIX + stream}, {"value": msgspec.msgpack.encode(work)})


async def alarmed(database: Database) -> dict[str, float]:
    """Return since when each alarm that stands is up, by its stream."""
    query = sa.select(streams.c.key, streams.c.alarm_since).where(streams.c.alarm_since.is_not(None))
    return {row.key: row.alarm_since for row in await database.fetch_rows(query)}


async def sides(database: Database, stream: Stream) -> tuple[list[str], list[str]]:
    """Return the ids of the streams that a series is made of: itself, or a gap's group; and a gap's other groups."""
    if not stream.key.metric.endswith(GAP_SUFFIX):
        return [stream.id], []
    own = msgspec.structs.replace(stream.key, metric=stream.key.metric.removesuffix(GAP_SUFFIX))
    async with database.read() as connection:
        groups = [(name, group) for name, (_, group) in (await groups_of(connection, [], [family_of(own)])).items()]
    rest = [name for name, group in groups if group not in ("", own.group)]
    return [name for name, group in groups if group == own.group], rest


async def newest(database: Database, own: Sequence[str], rest: Sequence[str] = ()) -> list[Audit]:
    """Read the newest audits of a series (`sides`), oldest first; those whose score is missing are left out."""
    order = measurements.c.created_at.desc(), measurements.c.id.desc()
    rows = await database.fetch_rows(_audits([*own, *rest]).order_by(*order).limit(MOST_READ))
    return _merged([_audit(row, rest) for row in reversed(rows)])


async def after(database: Database, own: Sequence[str], rest: Sequence[str], alarm_since: float) -> list[Audit]:
    """Read the first audits of exchanges that came after the alarm, of each side of a gap: it did not choose them."""
    columns, audits = measurements.c, list[Audit]()
    for ids in filter(None, (own, rest)):
        query = _audits(ids).where(columns.created_at > alarm_since, exchanges.c.received_at > alarm_since)
        query = query.order_by(columns.created_at, columns.id).limit(MOST_SINCE * len(ids))
        rows = await database.fetch_rows(query)
        audits += _merged([_audit(row, rest) for row in rows])[:MOST_SINCE]
    return _merged(sorted(audits, key=lambda audit: audit.at))


def _merged(audits: Sequence[Audit]) -> list[Audit]:
    """Return one audit for each exchange, with the mean scores of both sides of a gap, in the order of the first."""
    by_exchange: dict[object, list[Audit]] = {}
    for number, audit in enumerate(audits):
        by_exchange.setdefault(audit.exchange_id or number, []).append(audit)
    return [
        each[0]._replace(score=mean(audit.score for audit in each), rest=mean(audit.rest for audit in each))
        for each in by_exchange.values()
    ]


def mean(scores: Iterable[float | None]) -> float | None:
    """Return the mean of the scores that are known; None without any."""
    known = [score for score in scores if score is not None]
    return sum(known) / len(known) if known else None


async def beside(database: Database, key: StreamKey, first: float, last: float) -> list[Audit]:
    """Read audits of the same metric and axis about other groups, recorded between two times: Unix seconds."""
    columns = measurements.c
    query = _audits(None).where(columns.auditor == key.auditor, columns.metric == key.metric, columns.axis == key.axis)
    query = query.where(columns.model == key.model[:200], columns.created_at.between(first, last))
    order = columns.created_at.desc(), columns.id.desc()
    return [_audit(row) for row in await database.fetch_rows(query.order_by(*order).limit(MOST_READ))]


def _audits(ids: Sequence[str] | None) -> "sa.Select[tuple[object, ...]]":
    columns = measurements.c
    names = ("exchange_id", "metric", "value", "inclusion_probability", "rate_factor", "weight", "created_at", "judge")
    has_text = exchanges.c.request_body.is_not(None).label("has_text")
    joined = measurements.outerjoin(exchanges, exchanges.c.id == columns.exchange_id)
    query: sa.Select[tuple[object, ...]] = sa.select(columns.stream, *(columns[name] for name in names), has_text)
    query = query.select_from(joined).where(columns.status.not_in(MISSING))
    return query if ids is None else query.where(columns.stream.in_(ids))


def _audit(row: "sa.Row[tuple[object, ...]]", rest: Sequence[str] = ()) -> Audit:
    fields = row._mapping
    score = None if fields["value"] is None else scaled(fields["metric"], fields["value"])
    return Audit(
        exchange_id=fields["exchange_id"],
        score=None if fields["stream"] in rest else score,
        rest=score if fields["stream"] in rest else None,
        weight=fields["weight"] * bounded_weight(fields["inclusion_probability"], fields["rate_factor"]),
        at=fields["created_at"],
        has_text=bool(fields["has_text"]),
        is_judged=fields["judge"] is not None,
    )


def sampled(audits: Sequence[Audit], purpose: str, most: int, is_beside: bool = False) -> list[Row]:
    """Return rows of at most so many exchanges, drawn by a digest, which their weights make good."""
    by_id = {audit.exchange_id or "": audit for audit in audits}
    order = {id_: hashlib.blake2b(f"{purpose}\0{id_}".encode()).digest() for id_ in by_id}
    chosen = sorted(by_id, key=lambda id_: order[id_])[:most]
    rows = [row_of(by_id[id_]) for id_ in chosen]
    for row in rows:
        row.weight *= len(by_id) / len(chosen)
        if is_beside:
            row.is_beside, row.then = True, None
    return rows


def mixed(*lists: Sequence[Row]) -> list[Row]:
    """Return the rows of all lists, such that any beginning has nearly the same share of each."""
    placed = [((number + 0.5) / len(rows), row) for rows in lists for number, row in enumerate(rows)]
    return [row for _, row in sorted(placed, key=lambda entry: entry[0])]


def row_of(audit: Audit) -> Row:
    return Row(id=audit.exchange_id or "", weight=audit.weight, then=audit.score, rest=Scores(then=audit.rest))
