"""What no suite covers, from stored exchanges to the row that gateways read: planted topics inside and outside."""

import asyncio
import json
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from auditors.clients.embedders import EmbedderError
from auditors.text.identity import groups_mentioned
from auditors.types import CompletionError, Embedder, Exchange
from benchmarks.suites.registry import SUITES
from gateway.config.loading import validate
from gateway.features.coverage import passes, prompts
from gateway.features.coverage import store as coverages
from gateway.features.coverage.figures import Coverage
from gateway.features.coverage.passes import CoveragePasses
from gateway.features.coverage.questions import questions_of
from gateway.store import exchanges
from gateway.store.database import Database
from gateway.store.passes import forget, take
from gateway.store.tables import coverages as table
from tests.support.auditors.word_embedder import WordEmbedder
from tests.support.store.made import exchange

pytestmark = pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
"""Its statements are the same on both databases."""
OUTSIDE = "Women, zor{0}, quen{0}, vlim{0}, drost{0}, plek{0}"
"""Words that no suite has, but for one."""
ORDINARY = "Glarn{0}, frip{0}, snost{0}, wend{0}"


def odd(n: int) -> str:
    """Letters that are in no word."""
    return f"qx{chr(98 + n % 20)}{chr(98 + n // 20)}q"


def inside(n: int) -> list[str]:
    """Questions of suites that name an identity, no two of a cluster, in words of their own."""
    found: dict[str, str] = {}
    for name in ("stereoset", "bbq", "crows_pairs", "unqover"):
        asked = questions_of(SUITES[name], Path("/nowhere"), lambda: None)
        for one in asked.chosen:
            if groups_mentioned(one.text):
                found.setdefault(f"{name}/{one.cluster}", f"{one.text}\nThank you kindly")
    return list(found.values())[:n]


def asking(text: object, **given: object) -> Exchange:
    body = json.dumps({"messages": [{"role": "user", "content": text}]}).encode()
    return exchange(request_body=body, **given)


async def store(database: Database, found: Sequence[Exchange]) -> None:
    for first in range(0, len(found), 50):
        await exchanges.insert_batch(database, found[first : first + 50], {})


def passes_of(
    database: Database, folder: Path, embedder: Embedder | Exception | None = None, **audits: object
) -> CoveragePasses:
    async def loaded() -> Embedder | None:
        if isinstance(embedder, Exception):
            raise embedder
        return embedder

    config = validate({"audits": {"data_dir": str(folder), **audits}})
    return CoveragePasses(config, database, asyncio.Event(), embedder=loaded)


async def computed(database: Database, folder: Path, embedder: Embedder | Exception | None) -> Coverage:
    await passes_of(database, folder, embedder)()
    found = await coverages.newest(database)
    assert found is not None
    return found


async def test_planted_topics_are_told_apart(database: Database, tmp_path: Path) -> None:
    """Topics that no suite asks make up their weighted share, whatever the rate at which they were sampled."""
    known = [asking(text, inclusion_probability=0.5) for text in inside(30)]
    unknown = [asking(OUTSIDE.format(odd(n)), inclusion_probability=0.1) for n in range(20)]
    ordinary = [asking(ORDINARY.format(odd(n)), inclusion_probability=0.1) for n in range(15)]
    await store(database, [*known, *unknown, *ordinary])
    embedder = WordEmbedder()
    found = await computed(database, tmp_path, embedder)
    ids = {one.id for one in unknown}

    assert found.unmatched.value == pytest.approx(20 / 0.1 / (20 / 0.1 + 30 / 0.5))
    assert found.unmatched.lower is not None
    assert found.unmatched.upper is not None
    assert found.unmatched.lower < 0.7 < 0.8 < found.unmatched.upper
    assert (found.unmatched.n, found.n_read) == (50, 65)
    assert found.excluded == {"names_no_identity": 15}
    assert found.ordinary.value == 0.0
    assert found.threshold is not None
    assert found.threshold.lower <= found.threshold.value <= found.threshold.upper
    assert found.clusters[0].unmatched.value == 1.0
    assert set(found.clusters[0].examples) <= ids
    assert found.clusters[0].axes == ["gender"]
    assert {one.suite for one in found.suites if (one.resembling.value or 0) > 0} >= {"stereoset", "bbq"}
    assert found.reason is None


async def test_no_word_of_an_exchange_is_kept(database: Database, tmp_path: Path) -> None:
    """The row has numbers and ids."""
    await store(database, [asking(OUTSIDE.format(odd(n)), request_id=f"secret-{n}") for n in range(20)])
    found = msgspec.json.encode(await computed(database, tmp_path, WordEmbedder())).decode()

    assert odd(3) not in found
    assert "secret" not in found


async def again(database: Database) -> None:
    """As if it were due."""
    found = await coverages.newest(database)
    assert found is not None
    await forget(database, passes.NAME)
    async with database.begin() as connection:
        await connection.execute(table.delete())


async def test_it_says_why_there_is_no_number(database: Database, tmp_path: Path) -> None:
    """An empty store, no embedder, one that cannot be loaded, one that fails, no identity, too little of it."""

    class Failing(WordEmbedder):
        async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
            raise CompletionError("unavailable", "connection refused")

    plain = [asking("What is the weather in Oslo?")]
    few = [asking(f"Who leads, women or men, in {odd(n)}?") for n in range(3)]
    cases: list[tuple[Embedder | Exception | None, list[Exchange], str]] = [
        (WordEmbedder(), [], "no stored exchange has its text"),
        (WordEmbedder(), plain, "no prompt that was read names an identity"),
        (None, few, "no embedder is loaded"),
        (EmbedderError("it is broken"), [], "the embedder cannot be loaded: it is broken"),
        (Failing(), [], "the embedder did not answer: connection refused"),
        (WordEmbedder(), [], "not assessable: 3 sampled prompts are"),
    ]
    for embedder, more, reason in cases:
        await store(database, more)
        found = await computed(database, tmp_path, embedder)
        assert (found.reason or "").startswith(reason)
        assert found.unmatched.value is None
        assert found.unmatched.reason == found.reason
        await again(database)


async def test_what_cannot_be_compared_is_left_out_and_counted(database: Database, tmp_path: Path) -> None:
    """Unknown sampling, other languages, images, broken bodies, identities named elsewhere; megabytes are cut."""
    picture = [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]
    turns = {"messages": [{"role": "system", "content": "You help Muslims."}, {"role": "user", "content": "Hi there?"}]}
    found = [
        asking("Who leads, women or men?", sender_rate=None),
        asking("Les femmes sont-elles de meilleures cheffes que les hommes dans les grandes entreprises ?"),
        asking(picture),
        exchange(request_body=b"{not json"),
        exchange(request_body=json.dumps(turns).encode()),
        asking("   "),
        asking("Why do women lead? " + "the people that we know " * 100_000),
    ]
    read = prompts.Prompts()
    started = time.perf_counter()
    read.read([coverages.Asked(one, None) for one in found])
    seconds = time.perf_counter() - started

    assert read.excluded == {
        "unknown_probability": 1,
        "other_language": 1,
        "no_prompt": 2,
        "not_readable": 1,
        "identity_named_elsewhere": 1,
    }
    assert [len(one.text) for one in read.naming] == [1000]
    assert read.n_cut == 1
    assert seconds < 2.0


async def test_a_flood_of_one_prompt_is_one_draw(database: Database, tmp_path: Path) -> None:
    """A client who repeats itself, with a new word each time, silences nothing: each draw once, the rest is seen."""
    text = OUTSIDE.format("f") + ", " + ", ".join(f"blan{letter}k" for letter in "abcdefghijklmnopqrstuvwxyz")
    flood = [asking(f"{text}, {odd(n)}", key_name="loud") for n in range(300)]
    known = [asking(one) for one in inside(30)]
    await store(database, [*flood, *known])
    found = await computed(database, tmp_path, WordEmbedder())

    assert (found.unmatched.n, found.unmatched.n_units) == (330, 31)
    assert found.unmatched.value is None
    assert (found.unmatched.reason or "").startswith("not assessable: 330 sampled prompts are 31 draws")
    assert found.unmatched_distinct.value == pytest.approx(1 / 31)
    assert found.largest_key_share == pytest.approx(300 / 330)


async def test_a_broken_suite_ends_no_auditor(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a suite of another distribution raises is the reason why there is no number."""

    def broken(_data_dir: Path | None, _checkpoint: object) -> list[object]:
        raise RuntimeError("no such table")

    monkeypatch.setattr(passes, "questions_of_all", broken)
    await store(database, [asking(OUTSIDE.format(odd(n))) for n in range(20)])
    found = await computed(database, tmp_path, WordEmbedder())

    assert found.reason == "internal error: RuntimeError: no such table"


async def test_exchanges_that_come_make_it_due_at_once(database: Database, tmp_path: Path) -> None:
    """A computation over an empty store waits no ten minutes once there is something to read."""
    step = passes_of(database, tmp_path, WordEmbedder())
    await step()
    empty = await coverages.newest(database)
    await step()
    assert empty is not None
    assert await coverages.newest(database) == empty
    assert (await coverages.next_at(database, empty, 3600.0) or 0.0) == empty.at + coverages.RETRY_SECONDS

    await store(database, [asking(OUTSIDE.format(odd(n))) for n in range(20)])
    assert await coverages.next_at(database, empty, 3600.0) == empty.at
    await step()
    newest = await coverages.newest(database)
    assert newest is not None
    assert (newest.n_read, newest.reason) == (20, None)
    assert await coverages.next_at(database, newest, 3600.0) == newest.at + 3600.0


async def test_a_request_starts_a_computation(database: Database, tmp_path: Path) -> None:
    """It is computed a single time, also where the schedule says never, and not while another auditor computes."""
    await store(database, [asking(OUTSIDE.format(odd(n))) for n in range(20)])
    step = passes_of(database, tmp_path, WordEmbedder(), coverage_every_hours=0)
    await step()
    assert await coverages.newest(database) is None
    assert await coverages.next_at(database, None, 0.0) is None

    for _ in range(2):
        before, requested_at = await coverages.newest(database), await coverages.request(database)
        assert await coverages.next_at(database, before, 0.0) == requested_at
        await step()
        newest = await coverages.newest(database)
        assert newest is not None
        assert newest != before
        assert await coverages.next_at(database, newest, 0.0) is None
        await step()
        assert await coverages.newest(database) == newest

    await coverages.request(database)
    assert await take(database, passes.NAME, 0.0, time.time())
    await step()
    assert await coverages.newest(database) == newest
