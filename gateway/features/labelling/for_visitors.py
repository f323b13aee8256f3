"""Tasks of a labelling project for somebody who chooses without being kept: drawn at random, and read again by id."""

import random
from collections.abc import Sequence

import sqlalchemy as sa

from auditors.labelling.tasks import Task
from gateway.errors import ConflictError
from gateway.features.labelling.projects import require
from gateway.features.labelling.tasks import read_task
from gateway.store.database import Database
from gateway.store.tables import labelling_tasks

FORM = "choice"


async def drawn(database: Database, project: str, n: int) -> list[Task]:
    """At most `n` tasks, in random order. Raises NotFoundError, and ConflictError for one of another form."""
    columns = labelling_tasks.c
    query = sa.select(columns.id).where(columns.project == project, columns.exchange_id.is_(None))
    async with database.read() as connection:
        ids = list((await connection.execute(query)).scalars())
    return await read(database, project, random.sample(ids, min(n, len(ids))))


async def read(database: Database, project: str, ids: Sequence[str]) -> list[Task]:
    """Those of these tasks that there are, in this order. Raises as `drawn`."""
    columns = labelling_tasks.c
    async with database.read() as connection:
        stored = await require(connection, project)
        if stored.form != FORM:
            raise ConflictError(f'project "{project}" is of the form {stored.form}: visitors can only choose')
        query = sa.select(labelling_tasks).where(columns.project == project, columns.id.in_(ids))
        found = {row.id: read_task(stored, row) for row in await connection.execute(query)}
    return [found[one] for one in ids if one in found]
