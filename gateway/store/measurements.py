"""What the auditors measured: recorded once per exchange and auditor, together with everything that follows from it."""

import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from auditors.streams.drift import DriftSettings
from auditors.streams.scales import SCALES, scaled
from auditors.streams.state import stream_key
from auditors.types import UNREAD, AuditFailure, Exchange, Measurement
from gateway.store import circuits, counters, policy_arms, streams
from gateway.store.connections import upsert
from gateway.store.database import Database
from gateway.store.tables import exchange_audits, exchanges, measurements

NOT_SWAPPED = "not swapped: "
"""How reasons of the counterfactual auditor begin."""
THINKING_EXHAUSTED = "thinking_exhausted"
WAITED_TOO_LONG = "waited too long"
"""Reason in `biasgate_abstentions_total` of what `audits.max_wait_hours` ended."""
SCORE_BOUNDS = (0.0, 0.34, 0.67, 1.0)
"""Upper bounds of the buckets of a judge score on [0, 1]: one bucket for each of the scores -1, 0, 1, 2."""


async def record(
    database: Database,
    exchange: Exchange,
    auditor: str,
    result: Sequence[Measurement] | AuditFailure,
    seconds: float,
    *,
    probability: float,
    settings: DriftSettings,
) -> bool:
    """Records what one auditor made of one exchange, in one transaction: once, whoever else tries.

    Args:
        database: the store.
        exchange: what was audited.
        auditor: its name, as in the configuration.
        result: its measurements, or why there are none.
        seconds: how long the audit took.
        probability: with which this exchange reached this auditor: sampled, times the auditor's own rate.
        settings: of the drift detectors.

    Returns: False when it had been recorded before, or the exchange is gone; then nothing has changed.
    """
    found = list(result.missing if isinstance(result, AuditFailure) else result)
    async with database.begin() as connection:
        if not await _is_first(connection, exchange.id, auditor, result, seconds):
            return False
        await circuits.forget(connection, exchange.id, auditor=auditor)
        if found:
            await connection.execute(sa.insert(measurements), [_row(one, exchange, probability) for one in found])
        await streams.update(
            connection,
            found,
            exchange_id=exchange.id,
            at=exchange.received_at,
            model=exchange.series_model,
            probability=probability,
            rate_factor=exchange.rate_factor,
            settings=settings,
        )
        await policy_arms.update(connection, found, exchange)
        await counters.add(connection, _increments(auditor, result, exchange.series_model))
    return True


async def _is_first(
    connection: AsyncConnection,
    exchange_id: str,
    auditor: str,
    result: Sequence[Measurement] | AuditFailure,
    seconds: float,
) -> bool:
    stored = sa.select(exchanges.c.id).where(exchanges.c.id == exchange_id).with_for_update(read=True)
    if (await connection.execute(stored)).first() is None:
        return False
    row = upsert(connection, exchange_audits).values(
        exchange_id=exchange_id,
        auditor=auditor,
        outcome=_outcome(result),
        failure_kind=result.kind if isinstance(result, AuditFailure) else None,
        message=_storable(result.message) if isinstance(result, AuditFailure) else None,
        seconds=seconds,
        finished_at=time.time(),
    )
    inserted = row.on_conflict_do_nothing().returning(exchange_audits.c.auditor)
    return (await connection.execute(inserted)).first() is not None


def _outcome(result: Sequence[Measurement] | AuditFailure) -> str:
    if not isinstance(result, AuditFailure):
        return "audited"
    return "not_auditable" if result.kind == "not_auditable" else "failed"


def _why(result: Sequence[Measurement] | AuditFailure) -> tuple[str, ...]:
    """The reason, of what is not auditable: a label of its own."""
    if isinstance(result, AuditFailure) and result.kind == "not_auditable":
        return (result.reason or "other",)
    return ()


def _increments(
    auditor: str, result: Sequence[Measurement] | AuditFailure, model: str
) -> dict[tuple[str, tuple[str, ...]], float]:
    raised: Counter[tuple[str, tuple[str, ...]]] = Counter(
        {("exchanges", (_outcome(result), auditor, *_why(result))): 1}
    )
    if isinstance(result, AuditFailure) and result.kind == "waited_too_long":
        raised["abstentions", (auditor, WAITED_TOO_LONG)] += 1
    if isinstance(result, AuditFailure) and result.kind == "thinking_exhausted":
        raised["abstentions", (auditor, THINKING_EXHAUSTED)] += 1
    for reason in _left_alone([] if isinstance(result, AuditFailure) else result):
        raised["abstentions", (auditor, reason)] += 1
    totals: dict[tuple[str, tuple[str, ...]], float] = {}
    for one in [] if isinstance(result, AuditFailure) else result:
        if one.judge is None or one.value is None or one.metric not in SCALES:
            continue
        series = (auditor, one.axis or "", one.group or "", model)
        y = scaled(one.metric, one.value)
        bound = next(bound for bound in SCORE_BOUNDS if y <= bound)
        raised["live_score", (*series, str(bound))] += 1
        totals["live_score_sum", series] = totals.get(("live_score_sum", series), 0.0) + y
    return {**raised, **totals}


def _left_alone(result: Sequence[Measurement]) -> set[str]:
    """Why an auditor left an exchange, or a part of it, alone: words of its own, from a closed set."""
    ours = [one.reason for one in result if one.reason and (one.status == "unrelated" or one.reason in UNREAD)]
    return {reason.removeprefix(NOT_SWAPPED) for reason in ours}


def _row(one: Measurement, exchange: Exchange, probability: float) -> dict[str, Any]:
    return {
        "exchange_id": exchange.id,
        "auditor": one.auditor,
        "auditor_version": one.auditor_version,
        "metric": one.metric,
        "axis": one.axis,
        "group_name": one.group,
        "reference_name": one.reference,
        "model": exchange.series_model[:200],
        "value": one.value,
        "status": one.status,
        "reason": None if one.reason is None else _storable(one.reason),
        "judge": None if one.judge is None else msgspec.json.encode(one.judge).decode(),
        "detail": msgspec.json.encode(one.detail).decode(),
        "inclusion_probability": probability,
        "rate_factor": exchange.rate_factor,
        "weight": one.weight,
        "created_at": time.time(),
        "stream": stream_key(one, exchange.series_model).id if one.metric in SCALES else None,
    }


def _storable(text: str) -> str:
    return text.replace("\x00", "")
