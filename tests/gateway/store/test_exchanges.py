"""Sampled exchanges and the ledger: written once, settled once, forgotten in time."""

import asyncio
import time

import msgspec
import pytest
import sqlalchemy as sa
from cryptography.fernet import Fernet
from sqlalchemy.exc import IntegrityError

from auditors.text.conversation import NotAuditableError
from auditors.text.readers.exchange import read_conversation
from gateway.privacy.encryption import cipher_of
from gateway.privacy.redaction import Redactor
from gateway.privacy.texts import Texts
from gateway.store import counters, exchanges, ledger
from gateway.store.database import Database
from gateway.store.deliveries import KEPT_SECONDS, Delivery, forget_old
from gateway.store.tables import exchanges as exchanges_table
from tests.support.store.made import exchange, measurement, record, settle
from tests.support.store.scored import scores_of

pytestmark = pytest.mark.stores("sqlite")


@pytest.mark.stores("sqlite", "postgresql")
async def test_exchange_comes_back_as_it_went_in(database: Database) -> None:
    """Every field survives, bytes that are no text included."""
    one = exchange(request_body=bytes(range(256)), response_body=b"", key_name="k", tag="t", stream=True)
    await exchanges.insert_batch(database, [one], {("other", "queued"): 1})
    assert await exchanges.get(database, one.id) == one
    assert await exchanges.get(database, "absent") is None


@pytest.mark.parametrize("seals", [True, False])
async def test_a_request_that_is_no_json(database: Database, *, seals: bool) -> None:
    """Redacted to nothing it is not what no key opens: auditors say of it that it is no JSON, not that it failed."""
    for body in (b"hello women", b"", b"\x1f\x8b\x08\x00"):
        cipher = cipher_of(Fernet.generate_key().decode(), "KEY") if seals else None
        database.texts = Texts(Redactor(), cipher)
        stored = exchange(request_body=body)
        await exchanges.insert_batch(database, [stored], {})
        [loaded] = await exchanges.load(database, [stored.id])
        with pytest.raises(NotAuditableError, match="the request is not a JSON object") as caught:
            read_conversation(loaded)
        database.texts = Texts(Redactor())
        [unopened] = await exchanges.load(database, [stored.id])

        assert caught.value.reason == "not_json"
        assert unopened.request_body == (b"" if seals else exchanges.NO_JSON)


@pytest.mark.stores("sqlite", "postgresql")
async def test_what_clients_send_fits_the_columns(database: Database) -> None:
    """Overlong names and NUL characters from clients are cut, not refused with the whole batch."""
    one = exchange(request_id="r" * 500, model="m\x00" * 300, endpoint="/v1/" + "x" * 100)
    await exchanges.insert_batch(database, [one], {})
    stored = await exchanges.get(database, one.id)
    assert stored is not None
    assert (stored.request_id, stored.model) == ("r" * 200, "m" * 200)


@pytest.mark.stores("sqlite", "postgresql")
async def test_repeating_a_committed_batch_changes_nothing(database: Database) -> None:
    """A sender that did not hear of a commit may send the batch again, with and without copies in it."""
    batch = [exchange(), exchange()]
    for number, one, deltas in ((1, batch, {("other", "queued"): 2}), (2, [], {("other", "sampled_out"): 5})):
        for _ in range(2):
            await exchanges.insert_batch(database, one, deltas, Delivery("sender", number, 1.0))
    assert await ledger.counts(database) == {("other", "queued"): 2, ("other", "sampled_out"): 5}
    assert await exchanges.backlog(database) == (2, batch[0].received_at)


@pytest.mark.stores("sqlite", "postgresql")
async def test_repeating_a_batch_that_is_being_written_changes_nothing(database: Database) -> None:
    """Repetitions that overtake each other are one; those of another sender are another."""
    batch, other = [exchange(), exchange()], [exchange()]
    deliveries = [(batch, Delivery("one", 1, 1.0))] * 4 + [(other, Delivery("two", 1, 1.0))] * 4
    await asyncio.gather(
        *(
            exchanges.insert_batch(database, copies, {("other", "queued"): len(copies)}, delivery)
            for copies, delivery in deliveries
        )
    )
    assert await ledger.counts(database) == {("other", "queued"): 3}


@pytest.mark.stores("sqlite", "postgresql")
async def test_an_error_of_the_store_quotes_no_text(database: Database) -> None:
    """What the database refuses ends up in a log; what was served may not."""
    one = exchange(request_body=b"a private question", response_body=b"a private answer")
    await exchanges.insert_batch(database, [one], {})
    with pytest.raises(IntegrityError) as refused:
        await exchanges.insert_batch(database, [one], {})
    assert "private" not in str(refused.value)


@pytest.mark.stores("sqlite", "postgresql")
async def test_deliveries_are_forgotten_in_time(database: Database) -> None:
    """What tells repetitions apart goes with its sender; a sender that is still at work keeps its entry."""
    now = time.time()
    for delivery in (Delivery("gone", 7, now - KEPT_SECONDS - 1), Delivery("here", 7, now - KEPT_SECONDS + 60)):
        await exchanges.insert_batch(database, [], {("other", "filtered"): 1}, delivery)
    await forget_old(database)
    for sender in ("gone", "here"):
        await exchanges.insert_batch(database, [], {(sender, "filtered"): 1}, Delivery(sender, 7, now))
    assert await ledger.counts(database) == {("other", "filtered"): 2, ("gone", "filtered"): 1}


@pytest.mark.stores("sqlite", "postgresql")
async def test_settling_moves_the_exchange_in_the_ledger_once(database: Database) -> None:
    """Of two processes that settle an exchange one does; the counts still sum to the requests."""
    one = exchange(stratum="vip")
    await exchanges.insert_batch(database, [one, exchange()], {("vip", "queued"): 1, ("other", "queued"): 1})
    settled = await asyncio.gather(
        *(settle(database, one.id, state, keep_text=True) for state in ("audited", "failed"))
    )
    assert sorted(settled) == [False, True]
    counts = await ledger.counts(database)
    assert counts["other", "queued"] == 1
    assert sum(counts.values()) == 2
    assert await exchanges.load(database, [one.id], state="queued") == []
    assert await exchanges.load(database, [one.id]) == [one]


async def test_expired_exchanges_are_counted(database: Database) -> None:
    """What waited too long expires: it moves in the ledger, is counted, and loses its text when so configured."""
    old, young = exchange(received_at=time.time() - 100), exchange()
    await exchanges.insert_batch(database, [old, young], {("other", "queued"): 2})
    assert await exchanges.expire(database, received_before=time.time() - 50, keep_text=False) == 1
    assert await ledger.counts(database) == {("other", "queued"): 1, ("other", "expired"): 1}
    assert await counters.read(database) == {("exchanges", ("expired", "")): 1.0}
    stored = await exchanges.get(database, old.id)
    assert stored == msgspec.structs.replace(old, request_body=b"", response_body=b"")


@pytest.mark.stores("sqlite", "postgresql")
async def test_retention_deletes_exchanges_and_keeps_measurements(database: Database) -> None:
    """Old settled exchanges go with their audits; streams, counters and the ledger keep what they meant."""
    old, waiting = exchange(received_at=time.time() - 100), exchange(received_at=time.time() - 100)
    await exchanges.insert_batch(database, [old, waiting], {("other", "queued"): 2})
    await record(database, old, [measurement(2.0)])
    await settle(database, old.id, "audited", keep_text=True)
    before = (await counters.read(database), await ledger.counts(database))
    assert await exchanges.delete_old(database, received_before=time.time() - 50) == 1
    assert await exchanges.get(database, old.id) is None
    assert await exchanges.get(database, waiting.id) == waiting
    assert await scores_of(database) == []
    assert (await counters.read(database), await ledger.counts(database)) == before


@pytest.mark.stores("postgresql")
async def test_retention_waits_for_nobody(database: Database) -> None:
    """An exchange that somebody works on is left for the next pass; the others go at once."""
    held, free = exchange(received_at=time.time() - 100), exchange(received_at=time.time() - 99)
    await exchanges.insert_batch(database, [held, free], {("other", "queued"): 2})
    for one in (held, free):
        await settle(database, one.id, "audited", keep_text=True)
    before = time.time() - 50
    async with database.begin() as connection:
        await connection.execute(
            sa.select(exchanges_table.c.id).where(exchanges_table.c.id == held.id).with_for_update()
        )
        assert await asyncio.wait_for(exchanges.delete_old(database, received_before=before), 10) == 1
    assert await exchanges.load(database, [held.id, free.id]) == [held]
    assert await exchanges.delete_old(database, received_before=before) == 1
