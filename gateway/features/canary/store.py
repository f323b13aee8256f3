"""Canaries: what was asked for, every pair of answers, and the verdict. queued -> running -> done."""

import time
from collections.abc import Sequence
from typing import Any, Literal
from uuid import uuid4

import msgspec
import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from auditors.structs import combine
from gateway.errors import BusyError, ConflictError, NotFoundError
from gateway.features.canary import deliveries as canary_deliveries
from gateway.features.canary.comparison import Findings, Pair, Verdict
from gateway.features.canary.deliveries import Delivery
from gateway.features.canary.plan import Plan, described
from gateway.features.canary.request import CanaryRequest, Side
from gateway.features.canary.shown import ListedCanary, ShownCanary, ShownDelivery, ShownSide
from gateway.store.database import Database
from gateway.store.runs import STALE_SECONDS
from gateway.store.schema import exclusively
from gateway.store.tables import canaries, canary_pairs, exchanges

CANARY_TASK = "run_canary"
"""Runs a canary: `{"canary_id": ...}`."""

Status = Literal["queued", "running", "done"]

PAGE = 1000
"""Pairs read at a time."""
_QUEUE_LOCK = 0x63616E61  # "cana"


class Canary(msgspec.Struct, frozen=True, kw_only=True):
    """One canary. Times are Unix seconds."""

    id: str
    request: CanaryRequest
    status: Status
    verdict: Verdict
    reasons: list[str]
    plan: Plan | None
    findings: Findings | None
    created_at: float
    started_at: float | None
    finished_at: float | None
    heartbeat_at: float | None
    delivery: Delivery | None = None
    """Progress of the verdict's delivery to the webhook, for `get` alone; None when none is owed."""


def shown(canary: Canary) -> ShownCanary:
    """Converts a canary to the form that the API and the command line show."""
    request, plan, findings = canary.request, canary.plan, canary.findings

    def side(name: str, model: Side) -> ShownSide:
        return ShownSide(
            model=model.model,
            upstream=plan.upstreams[name] if plan else model.upstream,
            fingerprint=plan.fingerprints[name] if plan else None,
        )

    return combine(
        ShownCanary,
        canary,
        request,
        n_pairs=findings.n_pairs if findings else 0,
        n_compared=findings.n_compared if findings else 0,
        failed=findings.failed if findings else {},
        e_value=findings.e_value if findings else None,
        gaps=findings.gaps if findings else [],
        beside=findings.beside if findings else [],
        stable=side("stable", request.stable),
        canary=side("canary", request.canary),
        auditors=request.auditors or [],
        exchanges=dict(described(plan)) if plan else {},
        left_out=plan.left_out if plan else {},
        webhook=msgspec.convert(canary.delivery, ShownDelivery | None, from_attributes=True),
    )


async def create(database: Database, request: CanaryRequest, *, max_queued: int) -> str:
    """Queues a canary and gives its id. Raises BusyError when `max_queued` wait."""
    canary_id = uuid4().hex
    waiting = sa.select(sa.func.count()).where(canaries.c.status == "queued")
    row = {
        "id": canary_id,
        "request": msgspec.json.encode(request).decode(),
        "status": "queued",
        "verdict": "undecided",
        "reasons": msgspec.json.encode(["it waits for an auditor"]).decode(),
        "created_at": time.time(),
    }
    async with database.begin() as connection:
        await exclusively(connection, _QUEUE_LOCK)
        n = int((await connection.execute(waiting)).scalar() or 0)
        if n >= max_queued:
            raise BusyError(f"{n} canaries wait; audits.max_queued is {max_queued}: cancel some or wait")
        await connection.execute(sa.insert(canaries).values(row))
    return canary_id


async def get(database: Database, canary_id: str) -> Canary:
    """Raises NotFoundError."""
    async with database.read() as connection:
        row = (await connection.execute(sa.select(canaries).where(canaries.c.id == canary_id))).first()
        delivery = await canary_deliveries.read(connection, canary_id)
    if row is None:
        raise NotFoundError(f'no canary has the id "{canary_id}": GET /canaries lists them')
    return msgspec.structs.replace(_canary(row), delivery=delivery)


async def list_canaries(database: Database, *, limit: int) -> list[ListedCanary]:
    """Newest first, without gaps and exchanges."""
    names = ("id", "request", "status", "verdict", "reasons", "created_at", "started_at", "finished_at")
    query = sa.select(*(canaries.c[name] for name in names)).order_by(canaries.c.created_at.desc()).limit(limit)
    return [_listed(row) for row in await database.fetch_rows(query)]


async def claim(database: Database, canary_id: str) -> Canary | None:
    """Starts a queued canary, or takes over one whose auditor has died. None when there is nothing to do."""
    now = time.time()
    change = (
        sa.update(canaries)
        .where(canaries.c.id == canary_id, _is_claimable(now))
        .values(status="running", started_at=sa.func.coalesce(canaries.c.started_at, now), heartbeat_at=now)
    )
    async with database.begin() as connection:
        row = (await connection.execute(change.returning(canaries))).first()
    return None if row is None else _canary(row)


async def claimable(database: Database, *, created_before: float) -> list[str]:
    """Ids of canaries that some auditor should take: queued before this Unix time, or left alone while running."""
    query = sa.select(canaries.c.id).where(_is_claimable(time.time()), canaries.c.created_at < created_before)
    return await database.fetch_column(query.order_by(canaries.c.created_at))


async def heartbeat(database: Database, canary_id: str) -> Status | None:
    """Notes a sign of life; returns the status, by which a cancelled canary learns of it."""
    change = sa.update(canaries).where(canaries.c.id == canary_id).values(heartbeat_at=time.time())
    async with database.begin() as connection:
        status: Status | None = (await connection.execute(change.returning(canaries.c.status))).scalar()
    return status


async def keep_plan(database: Database, canary_id: str, plan: Plan) -> None:
    await _change(database, canary_id, {"plan": msgspec.json.encode(plan).decode()})


async def add_pairs(database: Database, canary_id: str, pairs: Sequence[Pair]) -> bool:
    """Keeps pairs, all or none. False when one of them is there already: another auditor has taken the canary over."""
    rows = [
        {"canary_id": canary_id, "number": pair.number, "body": msgspec.json.encode(pair).decode()} for pair in pairs
    ]
    try:
        await database.change_rows(sa.insert(canary_pairs), rows)
    except IntegrityError:
        return False
    return True


async def pairs(database: Database, canary_id: str) -> list[Pair]:
    collected, columns = list[Pair](), canary_pairs.c
    query = sa.select(columns.body).where(columns.canary_id == canary_id).order_by(columns.number).limit(PAGE)
    while True:
        page = await database.fetch_column(query.where(columns.number >= len(collected)))
        collected += [msgspec.json.decode(body, type=Pair) for body in page]
        if len(page) < PAGE:
            return collected


async def newest(database: Database, *, finished_after: float, limit: int) -> list[Canary]:
    """Reads the canaries without a verdict, and those judged since this Unix time: at most `limit`, newest first."""
    is_shown = (canaries.c.status != "done") | (canaries.c.finished_at > finished_after)
    query = sa.select(canaries).where(is_shown).order_by(canaries.c.created_at.desc()).limit(limit)
    return [_canary(row) for row in await database.fetch_rows(query)]


async def note(database: Database, canary_id: str, findings: Findings) -> None:
    """Keeps what was found at a look that decided nothing."""
    values = {"findings": msgspec.json.encode(findings).decode()}
    await _change(database, canary_id, values | {"reasons": msgspec.json.encode(findings.reasons).decode()})


async def finish(
    database: Database,
    canary_id: str,
    verdict: Verdict,
    reasons: Sequence[str],
    findings: Findings | None = None,
    *,
    is_delivered: bool = False,
) -> bool:
    """End a running canary; False if it is not running. `is_delivered`: owe the webhook the verdict, all in one."""
    values = _ended(verdict, reasons)
    if findings is not None:
        values["findings"] = msgspec.json.encode(findings).decode()
    async with database.begin() as connection:
        is_ended = (await connection.execute(_running(canary_id).values(values))).rowcount == 1
        if is_ended and is_delivered:
            await canary_deliveries.add(connection, canary_id)
    return is_ended


async def release(database: Database, canary_id: str) -> None:
    """Queues a running canary again, for another auditor: this one stops."""
    await _change(database, canary_id, {"status": "queued", "heartbeat_at": None})


async def cancel(database: Database, canary_id: str) -> None:
    """Ends a canary that has no verdict with `hold`; its pairs are kept. Raises NotFoundError or ConflictError."""
    values = _ended("hold", ["it was cancelled before there was a verdict"])
    change = sa.update(canaries).where(canaries.c.id == canary_id, canaries.c.status != "done")
    if not await database.change_rows(change.values(values)):
        canary = await get(database, canary_id)
        raise ConflictError(f"canary {canary_id} is done ({canary.verdict}) and cannot be cancelled")


async def sampled_ids(database: Database, model: str, *, limit: int) -> list[str]:
    """Ids of stored exchanges of a model (by its name after aliases) that still have their text, newest first."""
    query = (
        sa.select(exchanges.c.id)
        .where(exchanges.c.served_model == model, exchanges.c.request_body.is_not(None))
        .order_by(exchanges.c.received_at.desc())
        .limit(limit)
    )
    return await database.fetch_column(query)


def _ended(verdict: Verdict, reasons: Sequence[str]) -> dict[str, Any]:
    encoded = msgspec.json.encode([reason.replace("\x00", "") for reason in reasons]).decode()
    return {"status": "done", "verdict": verdict, "reasons": encoded, "finished_at": time.time()}


async def _change(database: Database, canary_id: str, values: dict[str, Any]) -> None:
    await database.change_rows(_running(canary_id).values(values))


def _running(canary_id: str) -> sa.Update:
    return sa.update(canaries).where(canaries.c.id == canary_id, canaries.c.status == "running")


def _is_claimable(now: float) -> sa.ColumnElement[bool]:
    is_silent = (canaries.c.heartbeat_at < now - STALE_SECONDS) | (canaries.c.heartbeat_at > now + STALE_SECONDS)
    is_abandoned = (canaries.c.status == "running") & is_silent  # as in gateway.store.runs
    return (canaries.c.status == "queued") | is_abandoned


def _canary(row: sa.Row[Any]) -> Canary:
    fields = dict(row._mapping)
    fields["request"] = msgspec.json.decode(fields["request"], type=CanaryRequest)
    fields["reasons"] = msgspec.json.decode(fields["reasons"], type=list[str])
    for name, kind in (("plan", Plan), ("findings", Findings)):
        fields[name] = None if fields[name] is None else msgspec.json.decode(fields[name], type=kind)
    return Canary(**fields)


def _listed(row: sa.Row[Any]) -> ListedCanary:
    fields = dict(row._mapping)
    request = msgspec.json.decode(fields.pop("request"), type=CanaryRequest)
    fields["reasons"] = msgspec.json.decode(fields["reasons"], type=list[str])
    return ListedCanary(stable=request.stable.model, canary=request.canary.model, **fields)
