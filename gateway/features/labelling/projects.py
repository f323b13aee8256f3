"""Projects: made once with their tasks, shown with their progress, deleted with their labels."""

import time
from collections.abc import Sequence
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from auditors.labelling.forms import FormName
from auditors.labelling.tasks import Task
from gateway.errors import ConflictError, NotFoundError, nearest
from gateway.store.connections import upsert
from gateway.store.database import Database
from gateway.store.tables import adjudications, labelling_projects, labelling_tasks, task_labels

_ROWS = 1000


class Project(msgspec.Struct, frozen=True, kw_only=True):
    """A set of tasks of the same form. Times are Unix seconds."""

    name: str
    form: FormName
    raters_per_task: int
    about: dict[str, Any]
    """Source that its tasks were drawn from."""
    created_at: float


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """Progress of a project."""

    project: Project
    n_tasks: int
    n_labels: int
    n_complete: int
    """Tasks with as many labels as are asked for."""
    n_adjudicated: int
    by_rater: dict[str, int]


async def add(database: Database, project: Project, tasks: Sequence[Task]) -> int:
    """Make a project or add tasks; returns the number of new ones. Known tasks keep labels and texts, with the new
    origin. Raises ConflictError for a project of this name with another form or number of raters.
    """
    async with database.begin() as connection:
        row = msgspec.structs.asdict(project) | {"about": msgspec.json.encode(project.about).decode()}
        insert = upsert(connection, labelling_projects).values(row).on_conflict_do_nothing()
        await connection.execute(insert)
        stored = await require(connection, project.name, locked=True)
        if (stored.form, stored.raters_per_task) != (project.form, project.raters_per_task):
            raise ConflictError(
                f'project "{project.name}" has form {stored.form} and {stored.raters_per_task} raters a task: '
                "give it another name, or the same form and number"
            )
        of_it = labelling_tasks.c.project == project.name
        known_ids = set((await connection.execute(sa.select(labelling_tasks.c.id).where(of_it))).scalars())
        new = {task.id: task for task in tasks if task.id not in known_ids}
        rows = [_task_row(project.name, position, task) for position, task in enumerate(new.values(), len(known_ids))]
        for repeated in (task for task in tasks if task.id in known_ids):
            same = sa.update(labelling_tasks).where(of_it, labelling_tasks.c.id == repeated.id)
            await connection.execute(same.values(origin=msgspec.json.encode(repeated.origin).decode()))
        for start in range(0, len(rows), _ROWS):
            await connection.execute(sa.insert(labelling_tasks), rows[start : start + _ROWS])
    return len(rows)


async def list_projects(database: Database) -> list[Progress]:
    async with database.read() as connection:
        rows = await connection.execute(sa.select(labelling_projects).order_by(labelling_projects.c.name))
        return [await _progress(connection, _project(row)) for row in rows.all()]


async def progress(database: Database, name: str) -> Progress:
    """Raises NotFoundError."""
    async with database.read() as connection:
        return await _progress(connection, await require(connection, name))


async def delete(database: Database, name: str) -> None:
    """Deletes a project with its tasks and labels. Raises NotFoundError."""
    async with database.begin() as connection:
        await require(connection, name)
        await connection.execute(sa.delete(labelling_projects).where(labelling_projects.c.name == name))


async def require(connection: AsyncConnection, name: str, *, locked: bool = False) -> Project:
    """The project, locked for the transaction if asked for. Raises NotFoundError, with the nearest name."""
    query = sa.select(labelling_projects).where(labelling_projects.c.name == name)
    row = (await connection.execute(query.with_for_update() if locked else query)).first()
    if row is None:
        names = set((await connection.execute(sa.select(labelling_projects.c.name))).scalars())
        raise NotFoundError(f'no labelling project is called "{name}"{nearest(name, names)}')
    return _project(row)


async def _progress(connection: AsyncConnection, project: Project) -> Progress:
    async def count(of: sa.Select[Any]) -> int:
        return int((await connection.execute(sa.select(sa.func.count()).select_from(of.subquery()))).scalar_one())

    columns = task_labels.c
    is_label = (columns.project == project.name, columns.label.is_not(None))
    by_task = sa.select(columns.task_id).where(*is_label).group_by(columns.task_id)
    by_rater = sa.select(columns.rater, sa.func.count()).where(*is_label).group_by(columns.rater)
    return Progress(
        project=project,
        n_tasks=await count(sa.select(labelling_tasks.c.id).where(labelling_tasks.c.project == project.name)),
        n_labels=await count(sa.select(task_labels).where(*is_label)),
        n_complete=await count(by_task.having(sa.func.count() >= project.raters_per_task)),
        n_adjudicated=await count(sa.select(adjudications.c.task_id).where(adjudications.c.project == project.name)),
        by_rater={rater: int(n) for rater, n in await connection.execute(by_rater.order_by(columns.rater))},
    )


def made_now(name: str, form: FormName, raters_per_task: int, about: dict[str, Any]) -> Project:
    """A project that is made at this moment."""
    return Project(name=name, form=form, raters_per_task=raters_per_task, about=about, created_at=time.time())


def _project(row: sa.Row[Any]) -> Project:
    return Project(**{**row._mapping, "about": msgspec.json.decode(row.about)})


def _task_row(project: str, position: int, task: Task) -> dict[str, Any]:
    return {
        "project": project,
        "id": task.id,
        "position": position,
        "exchange_id": task.origin.exchange_id,
        "shown": msgspec.json.encode(task.shown).decode(),
        "origin": msgspec.json.encode(task.origin).decode(),
    }
