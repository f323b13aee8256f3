"""Remembers the models that each upstream was last seen to serve, so that a change is noticed once, by any auditor."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import uuid4

import msgspec
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.store import runs
from gateway.store.connections import put_row
from gateway.store.database import Database
from gateway.store.tables import model_changes, served_models

BESIDE_SECONDS = 3600.0
"""Validity of a served fingerprint: asked twice a minute, one of ten servers is missed so long with P = 3e-6."""


class ModelChange(msgspec.Struct, frozen=True):
    """An upstream serving another model than before under the same name."""

    at: float
    """Time at which it was seen, Unix seconds."""
    upstream: str
    fingerprint_before: str
    fingerprint_after: str


async def observe(
    database: Database,
    upstream: str,
    fingerprints: Mapping[str, str],
    *,
    asked_at: float,
    runs_of: Callable[[str], Sequence[dict[str, Any]]],
) -> dict[str, list[str]]:
    """Note what an upstream serves, and queue runs for each model that changed, in one transaction. A model changed
    when its fingerprint did, or when it is new on an upstream seen before; not when the fingerprint had come within the
    last hour: servers behind the address take turns. Stale observations, by `asked_at` (Unix seconds), change nothing;
    a run that waits or goes on is not queued twice. Returns ids of runs by changed model.
    """
    queued: dict[str, list[str]] = {}
    async with database.begin() as connection:
        known_models = await _read_served(connection, upstream)
        for model, fingerprint in sorted(fingerprints.items()):
            if model in known_models:
                stored, changed_at = known_models[model]
                is_changed = stored != fingerprint and asked_at > changed_at
            else:
                is_changed = bool(known_models)
            if model in known_models and not is_changed:
                continue
            values = {"fingerprint": fingerprint, "changed_at": asked_at}
            if is_changed and await _is_beside(connection, upstream, model, fingerprint, asked_at):
                mine = served_models.c.upstream == upstream, served_models.c.model == model[:200]
                await connection.execute(sa.update(served_models).where(*mine).values(values))
                continue
            key = {"upstream": upstream, "model": model[:200]}
            await put_row(connection, served_models, key, values)
            seen = {"fingerprint": fingerprint, "seen_at": asked_at}
            await connection.execute(sa.insert(model_changes).values(key | seen))
            if is_changed:
                queued[model] = await _queue(connection, runs_of(model))
    return queued


async def changes(database: Database, model: str) -> list[ModelChange]:
    """Return the changes of a model in the order noted; a new upstream does not count as a change."""
    columns = model_changes.c
    query = sa.select(columns.seen_at, columns.upstream, columns.fingerprint).where(columns.model == model)
    noted, by_upstream = [], dict[str, str]()
    for at, upstream, fingerprint in await database.fetch_rows(query.order_by(columns.id)):
        before = by_upstream.get(upstream, fingerprint)
        if before != fingerprint:
            noted.append(ModelChange(at, upstream, before, fingerprint))
        by_upstream[upstream] = fingerprint
    return noted


class Seen(NamedTuple):
    """A fingerprint, by its place in the table of changes. Unix seconds."""

    fingerprint: str
    seen_at: float
    last_seen_at: float | None
    """Time at which it last came back in turn with others; None: it did not."""

    @property
    def until(self) -> float:
        """Return the time at which it was last noted."""
        return self.seen_at if self.last_seen_at is None else self.last_seen_at


class ModelHistory:
    """The fingerprints that the upstreams were seen to serve under each model's name."""

    def __init__(self, changes: Iterable[tuple[str, str, Seen]]) -> None:
        self._changes: dict[str, dict[str, list[Seen]]] = {}
        for model, upstream, seen in changes:
            self._changes.setdefault(model, {}).setdefault(upstream, []).append(seen)

    def at(self, model: str, at: float) -> str | None:
        """Its fingerprint then, or those of all servers where they differ; None when nothing was seen yet."""
        moment = min(at, time.time())
        served = set[str]()
        for changes in self._changes.get(model, {}).values():
            if noted := [change for change in changes if change.seen_at <= at]:
                served |= _serving(noted, moment)
        return ", ".join(sorted(served)) or None


def _serving(noted: Sequence[Seen], moment: float) -> set[str]:
    """Return an upstream's fingerprints noted by then: the last, or all that took turns at that time."""
    beside = [sighting for sighting in noted if moment <= sighting.until + BESIDE_SECONDS]
    if any(sighting.last_seen_at is not None for sighting in beside):
        return {sighting.fingerprint for sighting in beside}
    return {max(reversed(noted), key=lambda sighting: sighting.until).fingerprint}


async def history(database: Database) -> ModelHistory:
    columns = model_changes.c
    query = sa.select(columns.model, columns.upstream, columns.fingerprint, columns.seen_at, columns.last_seen_at)
    rows = await database.fetch_rows(query.order_by(columns.id))
    return ModelHistory((model, upstream, Seen(*seen)) for model, upstream, *seen in rows)


async def _is_beside(connection: AsyncConnection, upstream: str, model: str, fingerprint: str, asked_at: float) -> bool:
    """Return whether it was noted as a change within BESIDE_SECONDS and comes again; note that it did."""
    columns = model_changes.c
    mine = columns.upstream == upstream, columns.model == model[:200], columns.fingerprint == fingerprint
    last_seen = sa.func.coalesce(columns.last_seen_at, columns.seen_at)
    first_sight = sa.select(sa.func.min(columns.id)).where(*mine[:2]).scalar_subquery()
    came_back = columns.id > first_sight, last_seen >= asked_at - BESIDE_SECONDS
    touched = sa.update(model_changes).where(*mine, *came_back)
    return bool((await connection.execute(touched.values(last_seen_at=asked_at))).rowcount)


async def _read_served(connection: AsyncConnection, upstream: str) -> dict[str, tuple[str, float]]:
    if connection.dialect.name == "postgresql":  # one observer of an upstream at a time, as SQLite's writers are alone
        await connection.execute(sa.select(sa.func.pg_advisory_xact_lock(sa.func.hashtext(f"served {upstream}"))))
    query = sa.select(served_models).where(served_models.c.upstream == upstream)
    return {row.model: (row.fingerprint, row.changed_at) for row in await connection.execute(query)}


async def _queue(connection: AsyncConnection, option_sets: Sequence[dict[str, Any]]) -> list[str]:
    ids = []
    for options in option_sets:
        if not await runs.unfinished(connection, options=options):
            ids.append(uuid4().hex)
            await runs.add(connection, ids[-1], options)
    return ids
