"""Audits whose evaluation events are still to be sent: taken for a while, then settled, or due again."""

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import sqlalchemy as sa

from auditors.types import JudgeStamp
from gateway.feature import AlarmFinding
from gateway.store import counters
from gateway.store.database import Database
from gateway.store.streams import load
from gateway.store.tables import exchange_audits, exchanges, measurements

CLOCK_SECONDS = 3600.0
"""Seconds by which a host's clock may be set while it records an audit."""
COUNTER = "evaluation_events"
"""Counter of events by outcome."""
_COPIED = (
    *("auditor_version", "request_id", "traceparent", "metric", "axis", "model", "value", "status", "reason"),
    *("inclusion_probability", "created_at"),
)
"""Columns that are fields of `Evaluation` under the same names."""


class Audit(NamedTuple):
    """One auditor being done with one exchange."""

    exchange_id: str
    auditor: str


class Evaluation(msgspec.Struct, frozen=True, kw_only=True):
    """One measurement, and the request that it is about; or a finding about an alarm, of no request."""

    audit: Audit
    metric: str
    axis: str | None
    group: str | None
    model: str
    value: float | None
    status: str
    created_at: float
    auditor_version: str | None = None
    request_id: str | None = None
    traceparent: str | None = None
    """Trace parent of the exchange: see `auditors.types.Exchange`."""
    reference: str | None = None
    reason: str | None = None
    judge: JudgeStamp | None = None
    inclusion_probability: float | None = None
    stream: str | None = None
    """Series whose alarm the event is about; the id of its audit is then no exchange's."""
    explanation: str | None = None
    """Sentence about the alarm."""


async def take(database: Database, *, now: float, limit: int, seconds: float) -> tuple[list[Audit], list[Evaluation]]:
    """Take up to `limit` audits, the longest due first, with measurements; unsettled, they are due in `seconds`."""
    columns = exchange_audits.c
    due = sa.select(columns.exchange_id, columns.auditor, columns.finished_at).where(columns.send_at <= now)
    async with database.begin() as connection:
        query = due.order_by(columns.send_at).limit(limit).with_for_update(skip_locked=True)
        rows = (await connection.execute(query)).all()
        if not rows:
            return [], []
        audits = [Audit(row.exchange_id, row.auditor) for row in rows]
        await connection.execute(sa.update(exchange_audits).where(_are(audits)).values(send_at=now + seconds))
    query = (
        sa.select(measurements, exchanges.c.request_id, exchanges.c.traceparent)
        .join(exchanges, exchanges.c.id == measurements.c.exchange_id)
        .where(*_measured(audits, [row.finished_at for row in rows]))
        .order_by(measurements.c.id)
    )
    return audits, [_evaluation(row) for row in await database.fetch_rows(query)]


async def of_finding(database: Database, finding: AlarmFinding) -> Evaluation | None:
    """Return the event of a finding; None for a stream that is gone. The audit is the one that raised the alarm."""
    streams = await load(database, [finding.stream])
    if not streams:
        return None
    key, stage = streams[0].key, "final" if finding.is_final else "first"
    return Evaluation(
        audit=Audit(f"{finding.stream} {finding.alarm_since} {stage}", key.auditor),
        metric=finding.name,
        axis=key.axis,
        group=key.group,
        model=key.model,
        value=finding.value,
        status="ok" if finding.value is not None else "cannot be told",
        created_at=time.time(),
        stream=finding.stream,
        explanation=finding.explanation,
    )


async def settle(database: Database, audits: Sequence[Audit], outcomes: dict[str, int]) -> None:
    """Marks the audits as no longer due; `outcomes` counts their events by outcome."""
    async with database.begin() as connection:
        await connection.execute(sa.update(exchange_audits).where(_are(audits)).values(send_at=None))
        await counters.add(connection, {(COUNTER, (name,)): n for name, n in outcomes.items() if n})


async def put_back(database: Database, audits: Sequence[Audit], *, at: float) -> None:
    """They are due again at this Unix time, but for those that another sender has settled since."""
    async with database.begin() as connection:
        waiting = exchange_audits.c.send_at.is_not(None)
        await connection.execute(sa.update(exchange_audits).where(_are(audits), waiting).values(send_at=at))


async def drop(database: Database, *, finished_before: float, at_most: int, limit: int) -> int:
    """Give up on at most `limit` audits that are too old or beyond `at_most`; return the number of lost events."""
    columns = exchange_audits.c
    waiting = sa.select(columns.exchange_id, columns.auditor, columns.finished_at).where(columns.send_at.is_not(None))
    newest_first = waiting.order_by(columns.finished_at.desc())
    async with database.begin() as connection:
        old = waiting.where(columns.finished_at < finished_before).limit(limit)
        rows = [*await connection.execute(old)]
        rows += await connection.execute(newest_first.offset(at_most).limit(limit))  # sorted whole, for a count
        if not rows:
            return 0
        lists = list({Audit(row.exchange_id, row.auditor) for row in rows})
        conditions = _measured(lists, [row.finished_at for row in rows])
        counted = sa.select(sa.func.count()).select_from(measurements).where(*conditions)
        n = (await connection.execute(counted)).scalar_one()
        await connection.execute(sa.update(exchange_audits).where(_are(lists)).values(send_at=None))
        await counters.add(connection, {(COUNTER, ("dropped",)): n})
        return int(n)


async def oldest(database: Database) -> float | None:
    """Reads when the oldest audit that waits was finished, Unix seconds; None when no audit waits."""
    query = sa.select(sa.func.min(exchange_audits.c.finished_at)).where(exchange_audits.c.send_at.is_not(None))
    return await database.fetch_value(query)


def _measured(audits: Sequence[Audit], finished: Sequence[float]) -> list[sa.ColumnElement[bool]]:
    columns = measurements.c
    at = columns.created_at.between(min(finished) - CLOCK_SECONDS, max(finished) + CLOCK_SECONDS)
    return [sa.tuple_(columns.exchange_id, columns.auditor).in_(audits), at]


def _are(audits: Sequence[Audit]) -> sa.ColumnElement[bool]:
    return sa.tuple_(exchange_audits.c.exchange_id, exchange_audits.c.auditor).in_(audits)


def _evaluation(row: Any) -> Evaluation:
    fields = row._mapping
    return Evaluation(
        audit=Audit(fields["exchange_id"], fields["auditor"]),
        group=fields["group_name"],
        reference=fields["reference_name"],
        judge=None if fields["judge"] is None else msgspec.json.decode(fields["judge"], type=JudgeStamp),
        **{name: fields[name] for name in _COPIED},
    )
