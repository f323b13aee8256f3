"""An auditor that has nothing to do."""

import asyncio
import time

import pytest
import sqlalchemy as sa

from gateway.store.database import Database
from tests.support.integration.auditing import auditing, config_for, sample, settled
from tests.support.simulated import running_simulator

pytestmark = pytest.mark.stores("sqlite")

SECONDS = 4.0
MOST_PER_SECOND = 5.0
"""Transactions: circuits are read every second, and a sweep every five reads half a dozen tables."""


async def test_it_hardly_asks_its_store(database: Database) -> None:
    """A few transactions a second, where each costs a millisecond of processor; new work is found all the same."""
    begun: list[object] = []
    listener = begun.append
    async with running_simulator() as upstream, auditing(config_for(database.url, upstream)):
        await asyncio.sleep(2.0)  # what is done once at the start
        sa.event.listen(sa.Engine, "begin", listener)
        try:
            started = time.monotonic()
            await asyncio.sleep(SECONDS)
            seconds = time.monotonic() - started
        finally:
            sa.event.remove(sa.Engine, "begin", listener)
        assert 0 < len(begun) < MOST_PER_SECOND * seconds
        await sample(database, 2)
        await settled(database, audited=2, within_seconds=60)
