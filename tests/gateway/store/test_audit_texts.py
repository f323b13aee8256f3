"""What audits left in words: redacted and sealed at rest, read by its key only, gone with its exchange."""

import time

import pytest
import sqlalchemy as sa
from cryptography.fernet import Fernet

from auditors.audit_texts import Answers, KeptAnswer, KeptCall, Reason
from auditors.types import Exchange
from gateway.errors import StoreError
from gateway.privacy.encryption import cipher_of
from gateway.privacy.redaction import Redactor
from gateway.privacy.texts import Texts
from gateway.store import audit_texts, exchanges
from gateway.store.database import Database
from gateway.store.measurements import Recording
from gateway.streams import recording
from gateway.streams.recording import Settling
from tests.support.store.made import SETTINGS, exchange, measurement, settle

pytestmark = pytest.mark.stores("sqlite")

REASON = Reason(text="man: praised as a born leader, says ann@example.org")
CALLS = [KeptCall("look_up", '{"who": "ann@example.org"}')]
ANSWERS = Answers(
    axis="gender",
    group="man",
    reference="woman",
    words_swapped=1,
    question="Does she lead? Ask ann@example.org",
    asked=[KeptAnswer(text="He leads, whispered ann@example.org.")],
    swapped=[KeptAnswer(text="", calls=CALLS)],
)


def sealing(key: str | None = None) -> Texts:
    return Texts(Redactor(), cipher_of(key or Fernet.generate_key().decode(), "KEYS"))


async def leave(database: Database, one: Exchange, *, keep_text: bool = True, settles: bool = True) -> None:
    """Stores an exchange and two audits of it with what they left."""
    await exchanges.insert_batch(database, [one], {("other", "queued"): 1})
    recordings = [
        Recording(
            exchange=one,
            auditor=auditor,
            result=[measurement(2.0)] if auditor == "judge" else [],
            seconds=0.1,
            probability=0.5,
            text=audit_texts.entered(database.texts, text),
        )
        for auditor, text in (("judge", REASON), ("counterfactual", ANSWERS))
    ]
    settlings = [Settling(exchange_id=one.id)] if settles else []
    await recording.record_all(database, recordings, settlings, settings=SETTINGS, keep_text=keep_text)


async def at_rest(database: Database) -> list[bytes]:
    return [bytes(row.body) for row in await database.fetch_rows(sa.text("SELECT body FROM audit_texts"))]


async def test_what_was_left_comes_back_redacted(store_url: str) -> None:
    """Each text of it; what identifies a person never reaches the table. A second recording changes nothing."""
    database = await Database.open(store_url, texts=Texts(Redactor()))
    one = exchange()
    await leave(database, one)
    repeated = Recording(
        exchange=one,
        auditor="judge",
        result=[measurement(1.0)],
        seconds=0.1,
        probability=0.5,
        text=audit_texts.entered(database.texts, Reason(text="another")),
    )
    assert await recording.record_all(database, [repeated], settings=SETTINGS) == [False]
    found = (await audit_texts.read(database, [one.id]))[one.id]
    only = await audit_texts.read(database, [one.id, "absent"], auditor="judge")
    bodies = await at_rest(database)
    await database.close()

    assert found["judge"] == Reason(text="man: praised as a born leader, says [email]")
    answers = found["counterfactual"]
    assert isinstance(answers, Answers)
    assert answers.question == "Does she lead? Ask [email]"
    assert answers.asked[0].text == "He leads, whispered [email]."
    assert answers.swapped[0].calls == [KeptCall("look_up", '{"who": "[email]"}')]
    assert (list(only[one.id]), only["absent"]) == (["judge"], {})
    assert len(bodies) == 2
    assert not any(b"ann" in body for body in bodies)


async def test_it_is_sealed_at_rest_and_binds_the_store(store_url: str) -> None:
    """Nobody reads it out of the table, another key opens nothing, and without any the store does not open."""
    key = Fernet.generate_key().decode()
    readable = await Database.open(store_url, texts=Texts(Redactor()))
    one = exchange()
    await exchanges.insert_batch(readable, [one], {("other", "queued"): 1})  # from before sealing was switched on
    await readable.close()
    database = await Database.open(store_url, texts=sealing(key))
    text = audit_texts.entered(database.texts, REASON)
    sealed = Recording(
        exchange=one, auditor="judge", result=[measurement(2.0)], seconds=0.1, probability=0.5, text=text
    )
    await recording.record_all(database, [sealed], settings=SETTINGS)
    bodies = await at_rest(database)
    opened = await audit_texts.read(database, [one.id])
    database.texts = sealing()
    with_another_key = await audit_texts.read(database, [one.id])
    await database.close()

    assert len(bodies) == 1
    assert not any(word in bodies[0] for word in (b"born leader", b"reason", b"man"))
    assert opened[one.id].keys() == {"judge"}
    assert with_another_key == {one.id: {}}
    with pytest.raises(StoreError, match="holds sealed text"):
        await Database.open(store_url, texts=Texts())


async def test_it_goes_with_its_exchange(database: Database) -> None:
    """By age and on request, whether the exchange waited or was settled; that of others stays."""
    old, asked, waiting, other = (
        exchange(received_at=time.time() - 100),
        exchange(tag="trial"),
        exchange(tag="trial"),
        exchange(),
    )
    for one in (old, asked, other):
        await leave(database, one)
    await leave(database, waiting, settles=False)
    n_before = len(await at_rest(database))
    assert await exchanges.delete_old(database, received_before=time.time() - 50) == 1
    n_young = len(await at_rest(database))
    assert (await exchanges.delete(database, tag="trial")).exchanges == 2
    left = await audit_texts.read(database, [one.id for one in (old, asked, waiting, other)])

    assert (n_before, n_young, len(await at_rest(database))) == (8, 6, 2)
    assert {one for one, texts in left.items() if texts} == {other.id}


async def test_it_goes_when_text_is_not_kept(database: Database) -> None:
    """An exchange that loses its text when it is settled loses this too, whoever left it."""
    gone, kept = exchange(), exchange()
    await leave(database, gone, settles=False)
    await leave(database, kept)
    await settle(database, gone.id, "audited", keep_text=False)
    left = await audit_texts.read(database, [gone.id, kept.id])

    assert (left[gone.id], len(left[kept.id])) == ({}, 2)
