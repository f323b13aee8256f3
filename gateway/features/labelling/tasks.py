"""Picks a rater's next task, and reads tasks as raters may see them: no judge's score, no other rater's label."""

import hashlib
import hmac
import time
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from auditors.labelling.forms import FormName
from auditors.labelling.tasks import Origin, Task
from gateway.errors import NotFoundError
from gateway.features.labelling.projects import Project, require
from gateway.store.database import Database
from gateway.store.tables import labelling_tasks, task_labels

ASSIGNED_SECONDS = 3600.0
"""Seconds after which a task that was assigned and not labelled may go to another rater."""


class ShownTask(msgspec.Struct, frozen=True, kw_only=True):
    """A task as its rater sees it."""

    project: str
    id: str
    form: FormName
    shown: dict[str, Any]
    exchange_id: str | None
    """Id of a live exchange: its text is read where it lies."""
    axis: str | None
    group: str | None
    reference: str | None
    label: dict[str, Any] | None
    """The rater's own, if they have labelled it before."""
    revision: int
    """Number of times they have labelled it; sent back with the label."""
    n_labelled: int
    """Number of tasks that this rater has labelled in this project."""
    n_left: int
    """Tasks of the project that this rater has not labelled; it says nothing of what others have done."""


async def next_task(database: Database, project: str, rater: str) -> ShownTask | None:
    """Assign a task: first what this rater has open, then what others have begun; None if nothing is left. A task gets
    more raters than it needs only where a rater left it for ASSIGNED_SECONDS. Raises NotFoundError.
    """
    now = time.time()
    async with database.begin() as connection:
        stored = await require(
            connection, project, locked=True
        )  # one assignment at a time, or two raters fill one place
        first = (await connection.execute(_left(stored, rater, now).limit(1))).first()
        if first is None:
            return None
        if not first.is_mine:
            row = {"project": project, "task_id": first.id, "rater": rater, "assigned_at": now}
            await connection.execute(sa.insert(task_labels).values(row))
        return await _read_shown_task(connection, stored, first.id, rater)


async def shown_task(database: Database, project: str, task_id: str, rater: str) -> ShownTask:
    """A task that this rater has labelled, or may label. Raises NotFoundError."""
    async with database.read() as connection:
        stored = await require(connection, project)
        return await _read_shown_task(connection, stored, task_id, rater)


async def find_alias(database: Database, project: str, rater: str, alias: str, secret: str) -> str:
    """Return the id of the task that a rater has under an alias. Raises NotFoundError for any other alias."""
    columns = task_labels.c
    query = sa.select(columns.task_id).where(columns.project == project, columns.rater == rater)
    ids: list[str] = await database.fetch_column(query)
    matching_id = next((task_id for task_id in ids if alias_of(task_id, secret) == alias), None)
    if matching_id is None:
        raise NotFoundError(f'no task "{alias[:40]}" was given to "{rater}": ask for the next one')
    return matching_id


def alias_of(task_id: str, secret: str) -> str:
    """Return a rater's name for a task, whose id hashes the model's name and text and so would tell the model."""
    return hmac.new(secret.encode(), task_id.encode(), hashlib.sha256).hexdigest()[:32]


async def task_of(connection: AsyncConnection, project: Project, task_id: str) -> Task:
    """The whole task, what raters never see included. Raises NotFoundError."""
    columns = labelling_tasks.c
    query = sa.select(labelling_tasks).where(columns.project == project.name, columns.id == task_id)
    row = (await connection.execute(query)).first()
    if row is None:
        raise NotFoundError(
            f'project "{project.name}" has no task "{task_id}": it was never drawn, or its exchange is gone'
        )
    return read_task(project, row)


def read_task(project: Project, row: sa.Row[Any]) -> Task:
    origin = msgspec.json.decode(row.origin, type=Origin)
    return Task(id=row.id, form=project.form, shown=msgspec.json.decode(row.shown), origin=origin)


def _left(project: Project, rater: str, now: float) -> sa.Select[Any]:
    """Tasks that a rater may still get, the next one first: id and whether it is assigned to them already."""
    mine = task_labels.alias("mine")
    other_labels = task_labels.alias("others")
    is_taken = sa.or_(other_labels.c.label.is_not(None), other_labels.c.assigned_at > now - ASSIGNED_SECONDS)
    counts = (
        sa.select(other_labels.c.task_id, sa.func.count().label("n"))
        .where(other_labels.c.project == project.name, other_labels.c.rater != rater, is_taken)
        .group_by(other_labels.c.task_id)
        .subquery("taken")
    )
    tasks = labelling_tasks.c
    n_taken = sa.func.coalesce(counts.c.n, 0)
    is_mine = mine.c.task_id.is_not(None)
    return (
        sa.select(tasks.id, is_mine.label("is_mine"))
        .select_from(
            labelling_tasks.outerjoin(
                mine, sa.and_(mine.c.project == tasks.project, mine.c.task_id == tasks.id, mine.c.rater == rater)
            ).outerjoin(counts, counts.c.task_id == tasks.id)
        )
        .where(tasks.project == project.name, mine.c.label.is_(None))
        .where(sa.or_(is_mine, n_taken < project.raters_per_task))
        .order_by(is_mine.desc(), n_taken.desc(), tasks.position)
    )


async def _read_shown_task(connection: AsyncConnection, project: Project, task_id: str, rater: str) -> ShownTask:
    task = await task_of(connection, project, task_id)
    columns = task_labels.c
    of_rater = [columns.project == project.name, columns.rater == rater]
    own = (await connection.execute(sa.select(task_labels).where(*of_rater, columns.task_id == task_id))).first()
    n_labelled = sa.select(sa.func.count()).select_from(task_labels).where(*of_rater, columns.label.is_not(None))
    n_tasks = sa.select(sa.func.count()).where(labelling_tasks.c.project == project.name)
    n_done = (await connection.execute(n_labelled)).scalar_one()
    return ShownTask(
        project=project.name,
        id=task.id,
        form=task.form,
        shown=task.shown,
        exchange_id=task.origin.exchange_id,
        axis=task.origin.axis if task.origin.exchange_id else None,
        group=task.origin.group if task.origin.exchange_id else None,
        reference=task.origin.reference if task.origin.exchange_id else None,
        label=None if own is None or own.label is None else msgspec.json.decode(own.label),
        revision=0 if own is None else own.revision,
        n_labelled=n_done,
        n_left=(await connection.execute(n_tasks)).scalar_one() - n_done,
    )
