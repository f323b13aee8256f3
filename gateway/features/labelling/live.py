"""Live exchanges as tasks: what an auditor scored of them, drawn at random from all whose text is still stored."""

import hashlib
import random

import msgspec
import sqlalchemy as sa

from auditors.labelling.forms import Reading
from auditors.labelling.tasks import Origin, Task
from auditors.types import JudgeStamp
from gateway.errors import RequestError
from gateway.store.calibrations import AUDITOR, METRIC
from gateway.store.database import Database
from gateway.store.tables import exchanges, measurements


async def draw(database: Database, *, n: int, seed: int, model: str | None = None) -> list[Task]:
    """Tasks of `n` scores, drawn evenly from all, in random order. Raises RequestError where there are fewer."""
    columns = measurements.c
    query = (
        sa.select(measurements.c.id, measurements.c.created_at)
        .select_from(measurements.join(exchanges, columns.exchange_id == exchanges.c.id))
        .where(columns.auditor == AUDITOR, columns.metric == METRIC, columns.value.is_not(None))
        .where(exchanges.c.request_body.is_not(None), exchanges.c.response_body.is_not(None))
        .where(exchanges.c.sender_rate.is_not(None))  # a label's weight is what its probability says
        .order_by(columns.id)
    )
    if model is not None:
        query = query.where(columns.model == model)
    async with database.read() as connection:
        ids = [tuple(row) for row in await connection.execute(query)]
        if len(ids) < n:
            raise RequestError(f"{len(ids)} scores of the {AUDITOR} have a text that is still stored: ask for no more")
        drawn = random.Random(f"{seed}/live labelling").sample(ids, n)
        conditions = columns.id.in_([id_ for id_, _ in drawn]), columns.created_at.in_({at for _, at in drawn})
        rows = {row.id: row for row in await connection.execute(sa.select(measurements).where(*conditions))}
    return [_task(rows[id_], n / len(ids)) for id_, _ in drawn]


def _task(row: sa.Row[tuple[object, ...]], drawn_with: float) -> Task:
    judge = None if row.judge is None else msgspec.json.decode(row.judge, type=JudgeStamp)
    origin = Origin(
        model=row.model,
        exchange_id=row.exchange_id,
        auditor=row.auditor,
        metric=row.metric,
        cluster=row.exchange_id,
        axis=row.axis,
        group=row.group_name,
        reference=row.reference_name,
        inclusion_probability=row.inclusion_probability * drawn_with,
        judge=Reading(status="ok", value=row.value),
        judge_model=None if judge is None else judge.model,
        prompt_sha256=None if judge is None else judge.prompt_sha256,
        judge_thinking=None if judge is None else judge.thinking,
        judge_fingerprint=None if judge is None else judge.fingerprint,
    )
    place = [row.exchange_id, row.auditor, row.metric, row.axis, row.group_name, row.reference_name]
    return Task(
        id=hashlib.sha256(msgspec.json.encode(place)).hexdigest()[:32], form="favouring", shown={}, origin=origin
    )
