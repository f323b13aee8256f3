"""Counts the outcome of every request by stratum and outcome; each request is in exactly one count (contract 4.1)."""

from collections.abc import Mapping

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.store.connections import upsert
from gateway.store.database import Database
from gateway.store.tables import ledger

Deltas = Mapping[tuple[str, str], int]
"""(stratum, outcome) to how many more; negative when an exchange moves on."""


async def add(connection: AsyncConnection, deltas: Deltas) -> None:
    """Adds counts inside the caller's transaction. Rows are locked in one order, so that writers cannot deadlock."""
    rows = [{"stratum": key[0], "outcome": key[1], "count": more} for key, more in sorted(deltas.items())]
    if rows:
        row = upsert(connection, ledger)
        total = {"count": ledger.c["count"] + row.excluded["count"]}
        adding = row.on_conflict_do_update(index_elements=[ledger.c.stratum, ledger.c.outcome], set_=total)
        await connection.execute(adding, rows)


async def counts(database: Database) -> dict[tuple[str, str], int]:
    """Requests by (stratum, outcome); the sum over all is the number of requests decided and written so far. Outcomes:
    filtered, opted_out, sampled_out, truncated; queued (waiting now), then audited, failed (every auditor failed, or
    the copy was lost before it was stored) or expired.
    """
    rows = await database.fetch_rows(sa.select(ledger.c.stratum, ledger.c.outcome, ledger.c["count"]))
    return {(stratum, outcome): count for stratum, outcome, count in rows if count}
