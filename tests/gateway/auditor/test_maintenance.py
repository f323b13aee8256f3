"""What is past its days goes, however much there is, by all auditors together."""

import asyncio
import time

import pytest

from gateway.auditor import maintenance
from gateway.config.loading import validate
from gateway.store import counters, exchanges, ledger
from gateway.store.database import Database
from tests.support.store.made import exchange

pytestmark = pytest.mark.stores("sqlite")

DAY = 86_400
N = 2 * exchanges.IDS_AT_ONCE + 100
CONFIG = validate({"store": {"retention_days": 7}})


async def waiting(database: Database, days: float) -> list[str]:
    """N queued exchanges of so many days ago, and one of now."""
    batch = [exchange(received_at=time.time() - days * DAY) for _ in range(N)]
    await exchanges.insert_batch(database, [*batch, exchange()], {("other", "queued"): N + 1})
    return [one.id for one in batch]


@pytest.mark.stores("sqlite", "postgresql")
async def test_several_auditors_share_the_work(database: Database) -> None:
    """None takes what another has: what waited too long is counted once, and what is too old is gone."""
    await waiting(database, days=2)
    old = await waiting(database, days=8)
    await asyncio.gather(*(maintenance.retire(database, CONFIG, asyncio.Event()) for _ in range(3)))
    await maintenance.retire(database, CONFIG, asyncio.Event())  # one that had expired after another had looked

    assert await ledger.counts(database) == {("other", "queued"): 2, ("other", "expired"): 2 * N}
    assert await counters.read(database) == {("exchanges", ("expired", "")): float(2 * N)}
    assert await exchanges.load(database, old) == []


async def test_a_stop_is_heeded_between_batches(database: Database) -> None:
    """An auditor that is to end does not first go through all that is left."""
    await waiting(database, days=2)
    stop = asyncio.Event()
    stop.set()
    await maintenance.retire(database, CONFIG, stop)

    some = exchanges.IDS_AT_ONCE
    assert await ledger.counts(database) == {("other", "queued"): N + 1 - some, ("other", "expired"): some}
