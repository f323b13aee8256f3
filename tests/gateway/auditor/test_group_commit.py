"""Results on their way to the store: they share transactions, and none decides over another."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import sqlalchemy as sa

from auditors.types import Exchange, Measurement
from gateway.auditor.group_commit import MOST_AT_ONCE, GroupCommit
from gateway.errors import StoreError
from gateway.store import exchanges, ledger
from gateway.store.database import Database
from gateway.store.measurements import Recording
from gateway.streams.recording import Settling
from tests.support.store.made import SETTINGS, exchange, list_streams, measurement

pytestmark = pytest.mark.stores("sqlite")


async def recordings(database: Database, count: int) -> list[Recording]:
    """Audits of exchanges that are stored, all of one stream."""
    batch = [exchange() for _ in range(count)]
    await exchanges.insert_batch(database, batch, {("other", "queued"): count})
    return [recorded(one, [measurement(1.0)]) for one in batch]


def recorded(one: Exchange, found: list[Measurement]) -> Recording:
    return Recording(exchange=one, auditor="judge", result=found, seconds=0.1, probability=0.5)


@contextmanager
def commits(database: Database) -> Iterator[list[object]]:
    """Grows by one with every transaction that is committed."""
    found: list[object] = []
    engine, listener = database._engine.sync_engine, found.append
    sa.event.listen(engine, "commit", listener)
    try:
        yield found
    finally:
        sa.event.remove(engine, "commit", listener)


@pytest.mark.stores("sqlite", "postgresql")
async def test_what_comes_meanwhile_shares_a_transaction(database: Database) -> None:
    """The first goes alone, all others together as far as one transaction takes them; then all are recorded."""
    group = GroupCommit(database, SETTINGS, keep_text=True)
    planned = await recordings(database, MOST_AT_ONCE + 20)
    with commits(database) as found:
        first = asyncio.create_task(group.put(planned[0]))
        await asyncio.sleep(0)
        await asyncio.gather(first, *(group.put(one) for one in planned[1:]))
        assert 2 <= len(found) <= 3
        await asyncio.gather(*(group.put(Settling(exchange_id=one.exchange.id)) for one in planned))
        assert len(found) <= 5
    await group.aclose()
    [stream] = await list_streams(database)
    assert stream.state.sums.n == len(planned)
    assert await ledger.counts(database) == {("other", "audited"): len(planned)}


@pytest.mark.stores("sqlite", "postgresql")
async def test_one_that_cannot_be_stored_fails_alone(database: Database) -> None:
    """Whoever recorded it hears why; the others of its transaction are recorded."""
    group = GroupCommit(database, SETTINGS, keep_text=True)
    planned = await recordings(database, 6)
    planned[3] = recorded(planned[3].exchange, [measurement(1.0, reference="man"), measurement(1.0, reference="man")])
    results = await asyncio.gather(*map(group.put, planned), return_exceptions=True)
    assert [number for number, result in enumerate(results) if result is not None] == [3]
    assert "unique" in str(results[3]).lower()
    [stream] = await list_streams(database)
    assert stream.state.sums.n == 5


async def test_a_store_that_is_away_fails_all_of_them_and_then_none() -> None:
    """Each caller hears of it, and what comes later is tried again."""
    away = Database("postgresql://nobody@127.0.0.1:9/nothing", texts=None)  # type: ignore[arg-type]
    group = GroupCommit(away, SETTINGS, keep_text=True)
    for _ in range(2):
        planned = [recorded(exchange(), [measurement(1.0)]) for _ in range(3)]
        results = await asyncio.gather(*map(group.put, planned), return_exceptions=True)
        assert [type(one) for one in results] == [StoreError] * 3
    await group.aclose()
    await away.close()


async def test_whoever_waits_may_leave(database: Database) -> None:
    """A cancelled audit takes nobody with it, and closing waits for what is under way."""
    group = GroupCommit(database, SETTINGS, keep_text=True)
    planned = await recordings(database, 5)
    waiting = [asyncio.create_task(group.put(one)) for one in planned]
    await asyncio.sleep(0)
    for one in waiting[1:3]:
        one.cancel()
    await group.aclose()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert [isinstance(one, asyncio.CancelledError) for one in results] == [False, True, True, False, False]
    [stream] = await list_streams(database)
    assert stream.state.sums.n == 5
