"""Replies of suite runs: kept as they come, read in pages, by item or by place."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.store import counters
from gateway.store.connections import upsert
from gateway.store.database import Database
from gateway.store.runs import Run
from gateway.store.tables import run_responses as table

PAGE = 1000
LAST_SAMPLE = 2**31 - 1
"""Larger than the number of any sample."""
Response = tuple[str, int, str, str]
"""(item_id, sample, status, JSON line) of a reply."""


async def append(database: Database, run: Run, replies: Sequence[Response]) -> None:
    """Keeps replies in the order in which they came; one to the same (item_id, sample) replaces the earlier."""
    async with database.begin() as connection:
        await add(connection, run, replies)


async def add(connection: AsyncConnection, run: Run, replies: Sequence[Response]) -> None:
    """Add replies as `append` does, inside the caller's transaction."""
    increments: dict[tuple[str, tuple[str, ...]], float] = {}
    for *_, status, _ in replies:
        labels = (run.suite, run.model, status)
        increments["audit_requests", labels] = increments.get(("audit_requests", labels), 0) + 1
    newest = {(item_id, sample): body for item_id, sample, _, body in replies}
    rows = [{"run_id": run.id, "item_id": key[0], "sample": key[1], "body": body} for key, body in newest.items()]
    if not rows:
        return
    if connection.dialect.name == "postgresql":
        await connection.execute(_ADD, {"run_id": run.id, "rows": msgspec.json.encode(rows).decode()})
    else:
        keys = [table.c.run_id, table.c.item_id, table.c.sample]
        row = upsert(connection, table)
        await connection.execute(row.on_conflict_do_update(index_elements=keys, set_={"body": row.excluded.body}), rows)
    await counters.add(connection, increments)


_ADD = sa.text(
    "INSERT INTO run_responses (run_id, item_id, sample, body)"
    " SELECT :run_id, item_id, sample, body"
    " FROM json_to_recordset(CAST(:rows AS json)) AS rows(item_id text, sample integer, body text)"
    " ON CONFLICT (run_id, item_id, sample) DO UPDATE SET body = excluded.body"
)
"""A single statement: one for each reply, or arrays, cost an auditor more than asking for the replies."""


async def pages(database: Database, run_id: str, *, after: tuple[str, int] | None = None) -> AsyncIterator[list[str]]:
    """JSON lines of all replies so far, by item and sample, PAGE of them at a time; `after` an (item_id, sample)."""
    columns = table.c
    key = sa.tuple_(columns.item_id, columns.sample)
    query = sa.select(columns.item_id, columns.sample, columns.body).where(columns.run_id == run_id)
    page = query.order_by(columns.item_id, columns.sample).limit(PAGE)
    rest: sa.ColumnElement[bool] = sa.true() if after is None else key > after
    while True:
        rows = await database.fetch_rows(page.where(rest))
        if rows:
            yield [row.body for row in rows]
        if len(rows) < PAGE:
            return
        rest = key > (rows[-1].item_id, rows[-1].sample)


async def of_items(database: Database, run_id: str, item_ids: Sequence[str]) -> list[str]:
    """JSON lines of all replies to these items so far."""
    async with database.read() as connection:
        return [row.body for row in await _to_items(connection, run_id, item_ids)]


async def at(database: Database, run_id: str, places: Sequence[tuple[str, int]]) -> list[str]:
    """JSON lines of the replies in these places (item_id, sample), at most PAGE that follow one another in a run."""
    unique_places = set(places)
    samples = [sample for _, sample in unique_places]
    item_ids = sorted({item_id for item_id, _ in unique_places})
    async with database.read() as connection:
        rows = await _to_items(connection, run_id, item_ids, min(samples), max(samples))
    return [row.body for row in rows if (row.item_id, row.sample) in unique_places]


async def _to_items(
    connection: AsyncConnection, run_id: str, item_ids: Sequence[str], first: int = 0, last: int = LAST_SAMPLE
) -> Sequence[sa.Row[Any]]:
    """item_id, sample and body of replies to these items, samples `first` to `last`."""
    columns = table.c
    query: sa.Executable = sa.select(columns.item_id, columns.sample, columns.body).where(
        columns.run_id == run_id, columns.item_id.in_(item_ids), columns.sample.between(first, last)
    )
    parameters: dict[str, Any] = {}
    if connection.dialect.name == "postgresql":
        query = _TO_ITEMS
        parameters = {"run_id": run_id, "items": msgspec.json.encode(item_ids).decode(), "first": first, "last": last}
    return (await connection.execute(query, parameters)).all()


_TO_ITEMS = sa.text(
    "SELECT found.item_id, found.sample, found.body FROM json_array_elements_text(CAST(:items AS json)) AS asked (id),"
    " LATERAL (SELECT item_id, sample, body FROM run_responses"
    " WHERE run_id = :run_id AND item_id = asked.id AND sample BETWEEN :first AND :last OFFSET 0) AS found"
)
"""Item by item off the key, by OFFSET 0: planned on a new table, `item_id IN (...)` reads all replies of the run."""
