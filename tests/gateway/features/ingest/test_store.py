"""What others sent counts once, in the transaction that stores it, on SQLite and on PostgreSQL."""

import asyncio
import time

from cryptography.fernet import Fernet

from gateway.privacy.encryption import cipher_of
from gateway.privacy.texts import Texts
from gateway.store import exchanges, ingested, ledger
from gateway.store.database import Database
from gateway.store.ingested import DUPLICATE, StoredPart
from gateway.store.tables import ingested_parts
from tests.support.store.made import exchange


async def test_each_id_counts_once(database: Database) -> None:
    """Sampled or left out; what comes again is a duplicate and stores nothing."""
    batch = [exchange(id="a", sender_rate=None), exchange(id="b", sender_rate=0.1)]
    verdicts = {"a": ("other", "queued"), "b": ("other", "queued"), "c": ("other", "sampled_out")}
    first, new = await ingested.insert(database, batch, verdicts)
    more = {"c": ("other", "queued"), "d": ("other", "queued")}
    again, _ = await ingested.insert(database, [exchange(id="c"), exchange(id="d")], more)

    assert new == {"a", "b", "c"}
    assert dict(first) == {("other", "queued"): 2, ("other", "sampled_out"): 1, DUPLICATE: 0}
    assert dict(again) == {("other", "queued"): 1, DUPLICATE: 1}
    assert await ledger.counts(database) == {("other", "queued"): 3, ("other", "sampled_out"): 1}
    stored = await exchanges.load(database, ["a", "b", "c", "d"])
    assert {one.id: one.sender_rate for one in stored} == {"a": None, "b": 0.1, "d": 1.0}


async def test_senders_at_once(database: Database) -> None:
    """Ten that send the same thousand in other orders: a thousand in the ledger, and no deadlock."""
    names = [f"e{number}" for number in range(1000)]

    async def send(turn: int) -> int:
        order = names[turn * 100 :] + names[: turn * 100]
        counts, _ = await ingested.insert(database, [], dict.fromkeys(order, ("other", "sampled_out")))
        return counts[DUPLICATE]

    duplicates = await asyncio.gather(*(send(turn) for turn in range(10)))

    assert sum(duplicates) == 9000
    assert await ledger.counts(database) == {("other", "sampled_out"): 1000}


async def test_parts_are_kept_once_sealed_and_in_order(database: Database) -> None:
    """A repetition is no other part; without the key nothing is read; forgotten they are gone."""
    database.texts = Texts(cipher=cipher_of(Fernet.generate_key().decode(), "KEY"))
    await ingested.add_parts(database, [StoredPart("x", b"one"), StoredPart("y", b"other")])
    await ingested.add_parts(database, [StoredPart("x", b"two"), StoredPart("x", b"one")])
    found = await ingested.parts_of(database, ["x", "y", "z"])
    overdue, _ = await ingested.waited_too_long(database, before=time.time() + 1, limit=10)
    early, _ = await ingested.waited_too_long(database, before=time.time() - 60, limit=10)
    database.texts = Texts()
    unread = await ingested.parts_of(database, ["x"])
    await ingested.forget_parts(database, ["x"])

    assert found == {"x": [b"one", b"two"], "y": [b"other"]}
    assert (set(overdue), early, unread) == ({"x", "y"}, [], {})
    assert await database.count(ingested_parts) == 1


async def test_ids_are_forgotten_with_their_exchanges(database: Database) -> None:
    """After the retention the same id is new."""
    await ingested.insert(database, [], {"a": ("other", "sampled_out")})
    await ingested.forget(database, before=time.time() - 60)
    kept, _ = await ingested.insert(database, [], {"a": ("other", "sampled_out")})
    await ingested.forget(database, before=time.time() + 60)
    new, _ = await ingested.insert(database, [], {"a": ("other", "sampled_out")})

    assert (kept[DUPLICATE], new[DUPLICATE]) == (1, 0)
