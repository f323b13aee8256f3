"""What each upstream was last seen to serve, so that a change is noticed once, whoever sees it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import uuid4

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.store import runs
from gateway.store.connections import upsert
from gateway.store.database import Database
from gateway.store.tables import served_models


async def observe(
    database: Database,
    upstream: str,
    fingerprints: Mapping[str, str],
    *,
    asked_at: float,
    runs_of: Callable[[str], Sequence[dict[str, Any]]],
) -> dict[str, list[str]]:
    """Notes what an upstream serves, and queues runs for each model that changed, in one transaction.

    A model changed when its fingerprint did, or when it is new on an upstream that was known. An observation that began
    before the last change was noted is stale and says nothing; a run that waits or goes on already is not queued twice.

    Args:
        database: the store.
        upstream: its name.
        fingerprints: model to what identifies what is served under that name.
        asked_at: Unix seconds at which the upstream was asked.
        runs_of: the options of the runs that a changed model calls for.

    Returns: model to ids of the runs queued for it, for each model that changed.
    """
    queued: dict[str, list[str]] = {}
    async with database.begin() as connection:
        known = await _known(connection, upstream)
        for model, fingerprint in sorted(fingerprints.items()):
            if model in known:
                stored, changed_at = known[model]
                is_changed = stored != fingerprint and asked_at > changed_at
            else:
                is_changed = bool(known)
            if model in known and not is_changed:
                continue
            row = upsert(connection, served_models).values(
                upstream=upstream, model=model[:200], fingerprint=fingerprint, changed_at=asked_at
            )
            values = {"fingerprint": fingerprint, "changed_at": asked_at}
            keys = [served_models.c.upstream, served_models.c.model]
            await connection.execute(row.on_conflict_do_update(index_elements=keys, set_=values))
            if is_changed:
                queued[model] = await _queue(connection, runs_of(model))
    return queued


async def _known(connection: AsyncConnection, upstream: str) -> dict[str, tuple[str, float]]:
    if (
        connection.dialect.name == "postgresql"
    ):  # one observer of an upstream at a time; SQLite's writers are alone anyway
        await connection.execute(sa.select(sa.func.pg_advisory_xact_lock(sa.func.hashtext(f"served {upstream}"))))
    query = sa.select(served_models).where(served_models.c.upstream == upstream)
    return {row.model: (row.fingerprint, row.changed_at) for row in await connection.execute(query)}


async def _queue(connection: AsyncConnection, wanted: Sequence[dict[str, Any]]) -> list[str]:
    ids = []
    for options in wanted:
        if not await runs.unfinished(connection, options=options):
            ids.append(uuid4().hex)
            await runs.add(connection, ids[-1], options)
    return ids
