"""Text in the store: redacted and sealed before it is written, opened by its keys only, deleted on request."""

import re
from collections import Counter
from typing import Any

import pytest
import sqlalchemy as sa
from cryptography.fernet import Fernet

from auditors.text.readers.exchange import read_conversation
from gateway.config.loading import validate
from gateway.errors import ConfigError, StoreError
from gateway.privacy.encryption import cipher_of
from gateway.privacy.redaction import Redactor
from gateway.privacy.texts import DRAWN_KEY_VARIABLE, Texts, texts_of
from gateway.store import counters, exchanges, ledger
from gateway.store.database import Database
from tests.support.store.made import audited, exchange, list_streams, measurement, record, settle
from tests.support.store.scored import scores_of

pytestmark = pytest.mark.stores("sqlite")

ASKED = b'{"user": "ann", "messages": [{"role": "user", "content": "I am ann@example.org. Who leads better?"}]}'
WHISPER = b"Who leads better"


def sealing(*keys: str) -> Texts:
    return Texts(Redactor(), cipher_of(",".join(keys), "KEYS"))


def new_key() -> str:
    return Fernet.generate_key().decode()


async def raw_bodies(database: Database) -> list[bytes]:
    rows = await database.fetch_rows(sa.text("SELECT request_body, response_body FROM exchanges"))
    return [bytes(body) for row in rows for body in row if body is not None]


async def test_text_is_redacted_before_it_is_written(store_url: str) -> None:
    """What identifies a person never reaches the table; how much was replaced is counted by kind."""
    database = await Database.open(store_url, texts=Texts(Redactor()))
    one = exchange(request_body=ASKED)
    await exchanges.insert_batch(database, [one], {})
    assert not any(b"ann" in body for body in await raw_bodies(database))
    stored = await exchanges.get(database, one.id)
    assert stored is not None
    assert read_conversation(stored).prompt_text == "I am [email]. Who leads better?"
    assert await counters.read(database) == {("redactions", ("email",)): 1.0}
    assert await database.fetch_value(sa.text("SELECT redactions FROM exchanges")) == '{"email":1}'
    await database.close()


async def test_sealed_text_is_opened_by_its_key_only(store_url: str) -> None:
    """Nobody reads the text out of the database; who has the key gets it as before; the wrong key is one clear line."""
    key = new_key()
    database = await Database.open(store_url, texts=sealing(key))
    one = exchange(request_body=ASKED)
    await exchanges.insert_batch(database, [one], {})
    assert not any(WHISPER in body for body in await raw_bodies(database))
    await database.close()

    again = await Database.open(store_url, texts=sealing(key))
    stored = await exchanges.get(again, one.id)
    assert stored is not None
    assert WHISPER in stored.request_body
    await again.close()

    with pytest.raises(StoreError, match=r"sealed with another key than those in \$KEYS: add the old key") as caught:
        await Database.open(store_url, texts=sealing(new_key()))
    assert "\n" not in str(caught.value)
    with pytest.raises(StoreError, match=r"holds sealed text, but store\.encryption_key_env names no key"):
        await Database.open(store_url, texts=Texts())


async def test_keys_rotate(store_url: str) -> None:
    """A new key in front of the old one seals from now on; later the old one can go, with the text it sealed."""
    old, new = new_key(), new_key()
    database = await Database.open(store_url, texts=sealing(old))
    await exchanges.insert_batch(database, [exchange(id="before")], {})
    await database.close()

    rotated = await Database.open(store_url, texts=sealing(new, old))
    await exchanges.insert_batch(rotated, [exchange(id="after")], {})
    assert all(one.request_body for one in await exchanges.load(rotated, ["before", "after"]))
    await rotated.close()

    only_new = await Database.open(store_url, texts=sealing(new))
    bodies = {one.id: one.request_body for one in await exchanges.load(only_new, ["before", "after"])}
    assert bodies["before"] == b""
    assert WHISPER in bodies["after"]
    await only_new.close()


async def test_sealing_can_be_switched_off_when_nothing_sealed_is_left(store_url: str) -> None:
    """Once the last sealed text is gone the store opens without a key, and with any other."""
    database = await Database.open(store_url, texts=sealing(new_key()))
    await exchanges.insert_batch(database, [exchange(request_id="r")], {})
    await exchanges.delete(database, request_id="r")
    await database.close()
    await (await Database.open(store_url, texts=Texts())).close()
    await (await Database.open(store_url, texts=sealing(new_key()))).close()


async def test_a_key_that_ends_with_the_process_binds_no_store(store_url: str) -> None:
    """Text under a drawn key is lost with it: another start opens the store and finds the body empty."""
    drawn = Texts(None, cipher_of(new_key(), DRAWN_KEY_VARIABLE), has_lasting_key=False)
    database = await Database.open(store_url, texts=drawn)
    one = exchange(request_body=ASKED)
    await exchanges.insert_batch(database, [one], {})
    assert not any(WHISPER in body for body in await raw_bodies(database))
    await database.close()
    again = await Database.open(
        store_url, texts=Texts(None, cipher_of(new_key(), DRAWN_KEY_VARIABLE), has_lasting_key=False)
    )
    stored = await exchanges.get(again, one.id)
    assert stored is not None
    assert stored.request_body == b""
    await again.close()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, 'environment variable "TEXT_KEYS" is named'),
        ("secret-that-is-no-key", "key 1 in .TEXT_KEYS is not a Fernet"),
    ],
)
def test_a_bad_key_is_one_line_that_shows_no_key(
    value: str | None, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key that is missing or malformed is a configuration error that names the variable and not the value."""
    if value is not None:
        monkeypatch.setenv("TEXT_KEYS", value)
    with pytest.raises(ConfigError, match=message) as caught:
        texts_of(validate({"store": {"encryption_key_env": "TEXT_KEYS"}}))
    assert "secret-that" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_never_keeping_text_needs_a_key_between_the_roles() -> None:
    """Roles that are started apart cannot share a key drawn in memory, and are told what to do."""
    with pytest.raises(ConfigError, match="start both with `biasgate serve`, which draws one, or name one"):
        texts_of(validate({"store": {"keep_text": "never"}}))


async def _audited(database: Database, **given: Any) -> str:
    one = await audited(database, measurement(2.0, reason="she wrote that", detail={"quote": "she wrote"}), **given)
    await settle(database, one.id, "audited", keep_text=True)
    return one.id


@pytest.mark.stores("sqlite", "postgresql")
async def test_deletion_takes_the_text_and_leaves_the_numbers(database: Database) -> None:
    """Deleting by request id removes exchange and words; the stream keeps its sums, the measurement its value."""
    await _audited(database, request_id="gone")
    await _audited(database, request_id="stays")
    before = [stream.state for stream in await list_streams(database)]
    assert (await exchanges.delete(database, request_id="gone")).exchanges == 1
    assert [stream.state for stream in await list_streams(database)] == before
    async with database.read() as connection:
        rows = await connection.execute(
            sa.text("SELECT exchange_id, value, reason, detail FROM measurements ORDER BY id")
        )
        unlinked, linked = [tuple(row) for row in rows]
        audits = (await connection.execute(sa.text("SELECT COUNT(*) FROM exchange_audits"))).scalar()
    assert unlinked == (None, 2.0, None, None)
    assert linked[0] is not None
    assert linked[3] == '{"quote":"she wrote"}'
    assert audits == 1
    assert [one.exchange.request_id for one in await scores_of(database)] == ["stays"]


async def test_deletion_by_user_finds_all_of_theirs_and_keeps_no_name(database: Database) -> None:
    """A user's exchanges are found by a digest: the name itself is in no column, and other users' stay."""
    for number, user in enumerate(["ann", "ann", "bob"]):
        body = b'{"user": "%b", "messages": []}' % user.encode()
        await _audited(database, request_id=f"r{number}", request_body=body)
    digests = await database.fetch_column(sa.text("SELECT user_digest FROM exchanges"))
    assert "ann" not in digests
    assert (await exchanges.delete(database, user="ann", request_id="r2")).exchanges == 0
    assert (await exchanges.delete(database, user="ann")).exchanges == 2
    assert (await exchanges.delete(database, user="ann")).exchanges == 0
    assert [one.exchange.request_id for one in await scores_of(database)] == ["r2"]


class Stuck(Redactor):
    """Meets one word at which a pattern backtracks for years."""

    def redacted(self, text: str, found: Counter[str] | None = None) -> str:
        if "quagmire" in text:
            re.match(r"(?:a|a)*b", "a" * 64)
        return super().redacted(text, found)


async def test_text_that_takes_too_long_is_dropped_and_marked(
    database: Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One exchange that cannot be redacted in time is kept without text; those beside it are stored whole."""
    monkeypatch.setattr("gateway.store.exchanges.TEXT_SECONDS", 0.05)
    database.texts = Texts(Stuck())
    request = b'{"messages": [{"role": "user", "content": "into the quagmire"}]}'
    batch = [exchange(id="before"), exchange(id="stuck", request_body=request), exchange(id="after")]
    await exchanges.insert_batch(database, batch, {("other", "queued"): 3})

    before, stuck, after = [await exchanges.get(database, id) for id in ("before", "stuck", "after")]
    assert before is not None
    assert stuck is not None
    assert after is not None
    assert WHISPER in before.request_body
    assert WHISPER in after.request_body
    assert (stuck.request_body, stuck.response_body) == (b"", b"")
    assert await counters.read(database) == {("redactions", ("unredactable",)): 1.0}
    assert "took too long" in caplog.text
    assert "quagmire" not in caplog.text


async def test_deleting_what_waits_moves_it_in_the_ledger(database: Database) -> None:
    """An exchange deleted before its audit counts as opted out: the outcomes still sum to the requests."""
    waiting = exchange(tag="trial")
    await exchanges.insert_batch(database, [waiting, exchange()], {("other", "queued"): 2})
    assert (await exchanges.delete(database, tag="trial")).exchanges == 1
    assert await ledger.counts(database) == {("other", "queued"): 1, ("other", "opted_out"): 1}
    assert await counters.read(database) == {("exchanges", ("opted_out", "")): 1.0}
    late = await record(database, waiting, [measurement()])
    assert late is False
