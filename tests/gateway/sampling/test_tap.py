"""The tap: each request has one counted outcome, probabilities are recorded, nothing counted as queued is ever lost."""

import asyncio
import contextlib
import sqlite3
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.config.schema import SamplingConfig
from gateway.jobs import JobQueue, open_queue
from gateway.proxy.types import Sampled, SamplingRequest
from gateway.sampling.decision import fraction
from gateway.sampling.folding import folded
from gateway.sampling.tap import SamplingTap
from gateway.sampling.writer.direct import AUDIT_TASK, IDS_PER_JOB, DirectSink
from gateway.sampling.writer.sink import ExchangeSink
from gateway.store import exchanges, ledger
from gateway.store.database import Database
from tests.support.store.made import exchange, settle
from tests.support.waiting import eventually

pytestmark = pytest.mark.stores("sqlite")

SECRET = b"0123456789abcdef"
NEUTRAL = b'{"messages": [{"role": "user", "content": "What is a good soup?"}]}'
NAMING = b'{"messages": [{"role": "user", "content": "Do women lead better than men?"}]}'
STRATA = {"identity_mention": 0.6, "other": 0.2, "vip": 0.9}


@pytest.fixture
async def queue(database: Database) -> AsyncIterator[JobQueue]:
    """The queue that fits the store."""
    opened = open_queue(database)
    yield opened
    await opened.close()


def decide(tap: SamplingTap, exchange_id: str, **given: Any) -> Sampled | None:
    """A decision about an eligible request that asks for nothing special."""
    request: dict[str, Any] = {"eligible": True, "body": NEUTRAL, "may_opt": True}
    return tap.decide(SamplingRequest(exchange_id, **request | given))


async def started(database: Database, sink: ExchangeSink, **config: Any) -> SamplingTap:
    """A tap that samples everything into a sink, and runs."""
    tap = SamplingTap(SamplingConfig(**{"rate": 1.0} | config), SECRET, database, sink)
    await tap.start()
    return tap


def unstored(config: SamplingConfig) -> SamplingTap:
    """A tap whose writer is never started: decisions and buffer only."""
    return SamplingTap(config, SECRET, Database.__new__(Database), None)  # type: ignore[arg-type] # never used


def id_between(low: float, high: float) -> str:
    """An exchange id whose fraction lies there."""
    return next(name for n in range(10_000) if low <= fraction(SECRET, name := f"id-{n}") < high)


@pytest.mark.stores("sqlite", "postgresql")
async def test_sampled_exchanges_reach_store_ledger_and_queue(database: Database, queue: JobQueue) -> None:
    """Offered copies are stored with what was recorded about them, counted as queued, and announced in jobs."""
    tap = await started(database, DirectSink(database, queue))
    sampled = decide(tap, "r")
    assert sampled == Sampled("other", 1.0)
    batch = [exchange(inclusion_probability=sampled.inclusion_probability) for _ in range(IDS_PER_JOB + 1)]
    for one in batch:
        tap.offer(one)
    await tap.stop()
    stored = await exchanges.load(database, [one.id for one in batch])
    assert stored == [folded(one, None) for one in sorted(batch, key=lambda one: one.received_at)]
    assert await ledger.counts(database) == {("other", "queued"): len(batch)}
    assert tap.counts == {"queued": len(batch)}
    announced = [one for job in await queue.pending(AUDIT_TASK) for one in job["ids"]]
    assert sorted(announced) == sorted(one.id for one in batch)


@pytest.mark.parametrize(
    ("given", "outcome"),
    [
        ({"eligible": False}, "filtered"),
        ({"eligible": False, "opt": "on"}, "filtered"),
        ({"opt": "off"}, "opted_out"),
        ({"opt": "off", "may_opt": False}, None),
        ({"opt": "on"}, None),
        ({"opt": "sideways"}, None),
    ],
)
def test_opting(given: dict[str, Any], outcome: str | None) -> None:
    """Opting out is honoured only for keys that may; what is not eligible is filtered whatever it asks for."""
    tap = unstored(SamplingConfig(rate=1.0))
    assert (decide(tap, "r", **given) is None) == (outcome is not None)
    assert tap.counts == ({outcome: 1} if outcome else {})


def test_opting_in_gives_way_too() -> None:
    """Neither a backlog nor a full buffer is for those who ask to be audited: their rate falls on record too."""
    tap = unstored(SamplingConfig(rate=0.0, max_backlog=100, buffer_exchanges=20))
    low, high = id_between(0.0, 0.25), id_between(0.5, 1.0)
    assert decide(tap, high, opt="on") == Sampled("opted_in", 1.0)
    assert decide(tap, low, opt="on", may_opt=False) is None
    tap.adapt_to_backlog(200)
    assert decide(tap, low, opt="on") == Sampled("opted_in", 0.5, 0.5)
    assert decide(tap, high, opt="on") is None
    for _ in range(15):
        tap.offer(exchange())
    pressure = 1 - 0.5 * 63 / 64
    assert decide(tap, low, opt="on") == Sampled("opted_in", 0.5 * pressure, 0.5 * pressure)
    assert tap.outcomes == {("opted_in", "sampled_out"): 1, ("other", "sampled_out"): 1}
    tap.adapt_to_backlog(0)
    assert decide(tap, low, opt="on") == Sampled("opted_in", pressure, pressure)


def test_strata_by_model_and_route() -> None:
    """A tag goes before a model, a model before a route, a route before a mention; each has its own rate."""
    strata = STRATA | {"model:big": 0.5, "route:/v1/completions": 0.4, "other": 0.1}
    tap = unstored(SamplingConfig(rate=0.5, strata=strata, tags=["vip"]))
    low, high = id_between(0.0, 0.1), id_between(0.5, 0.6)
    place = {"model": "big", "route": "/v1/completions"}
    assert decide(tap, low, tag="vip", **place) == Sampled("vip", 0.9)
    assert decide(tap, low, body=NAMING, **place) == Sampled("model:big", 0.5)
    assert decide(tap, low, body=NAMING, model="small", route=place["route"]) == Sampled("route:/v1/completions", 0.4)
    assert decide(tap, low, body=NAMING, model="small", route="/v1/messages") == Sampled("identity_mention", 0.6)
    assert decide(tap, low, model=None) == decide(tap, low, tag="unheard-of") == Sampled("other", 0.1)
    assert decide(tap, high, **place) is None
    assert tap.outcomes == {("model:big", "sampled_out"): 1}


def test_a_backlog_lowers_the_recorded_rates_until_it_is_gone(caplog: pytest.LogCaptureFixture) -> None:
    """What waits beyond the limit lowers every rate in proportion, to an eighth at most; afterwards they come back."""
    tap = unstored(SamplingConfig(rate=0.8, strata={"identity_mention": 1.0}, max_backlog=100))
    seen = []
    for waiting in (100, 125, 200, 200, 400, 800, 5000, 5000, 400, 80, 0):
        tap.adapt_to_backlog(waiting)
        seen.append(tap.rates["identity_mention"])
    assert seen == [1.0, 0.8, 0.5, 0.5, 0.25, 0.125, 0.125, 0.125, 0.25, 1.0, 1.0]
    tap.adapt_to_backlog(200)
    assert decide(tap, id_between(0.0, 0.4)) == Sampled("other", 0.4, 0.5)
    assert decide(tap, id_between(0.4, 0.5), body=NAMING) == Sampled("identity_mention", 0.5, 0.5)
    assert decide(tap, id_between(0.5, 1.0), body=NAMING) is None
    assert "400 exchanges wait for an audit: sampling at 0.25 of the configured rates" in caplog.text
    assert caplog.text.count("wait for an audit") == 6


@pytest.mark.parametrize(("min_rate", "other", "mention"), [(0.01, 0.01, 0.01), (0.3, 0.2, 0.3), (0.0, 0.0002, 0.0006)])
def test_how_far_rates_fall_is_configured(min_rate: float, other: float, mention: float) -> None:
    """No rate falls below `min_rate`, nor below its own value where that is smaller; 0 sets no limit."""
    tap = unstored(SamplingConfig(rate=0.5, strata=STRATA, max_backlog=100, min_rate=min_rate))
    tap.adapt_to_backlog(100_000)
    assert tap.rates["other"] == pytest.approx(other)
    assert tap.rates["identity_mention"] == pytest.approx(mention)
    tap.adapt_to_backlog(0)
    assert tap.rates["identity_mention"] == 0.6


def test_one_key_cannot_fill_the_sample() -> None:
    """95 % of the requests with one key make up half of the sample, as configured; what others send is all there."""
    tap = unstored(SamplingConfig(rate=1.0, max_share_per_key=0.5))
    kept: Counter[str] = Counter()
    weight = {"flood": 0.0, "quiet": 0.0}
    for number in range(4000):
        key = "quiet" if number % 20 == 7 else "flood"
        sampled = decide(tap, f"id-{number}", key_name=key)
        if sampled is not None:
            kept[key] += 1
            weight[key] += 1 / sampled.inclusion_probability
    assert kept["quiet"] == 200
    assert kept["flood"] <= 240
    assert weight["flood"] == pytest.approx(3800, rel=0.25)
    assert tap.counts == {"sampled_out": 4000 - kept.total()}


def test_a_reload_keeps_the_rates_lowered_and_takes_the_new_limit() -> None:
    """While too much waits, new rates are lowered as the old ones were; how much is too much is the new file's."""
    tap = unstored(SamplingConfig(rate=0.8, max_backlog=100))
    tap.adapt_to_backlog(400)
    tap.reconfigure(SamplingConfig(rate=0.4, max_backlog=1000))
    reloaded = tap.rates["other"]
    tap.adapt_to_backlog(2000)
    between = tap.rates["other"]
    tap.adapt_to_backlog(1000)

    assert (reloaded, between, tap.rates["other"]) == (0.1, 0.2, 0.4)
    tap.adapt_to_backlog(2000)
    assert decide(tap, id_between(0.2, 0.4)) is None
    assert decide(tap, id_between(0.0, 0.2)) == Sampled("other", 0.2, 0.5)


async def test_the_backlog_in_the_store_is_heeded(
    database: Database, queue: JobQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A running tap looks at what waits in the store, lowers its rate, and raises it when the auditors caught up."""
    monkeypatch.setattr("gateway.sampling.tap.BACKLOG_SECONDS", 0.05)
    batch = [exchange() for _ in range(5)]
    await exchanges.insert_batch(database, batch, {("other", "queued"): 5})
    tap = await started(database, DirectSink(database, queue), max_backlog=2)
    await eventually(lambda: tap.rates["other"] == 2 / 5)
    for one in batch:
        await settle(database, one.id, "audited", keep_text=True)
    await eventually(lambda: tap.rates["other"] == 1.0)
    await tap.stop()


async def test_pressure_lowers_the_recorded_rate_and_recovers() -> None:
    """Past half of the buffer the rate falls in a line; what overflows is counted as failed."""
    tap = unstored(SamplingConfig(rate=1.0, buffer_exchanges=20, min_rate=0.001))
    seen = []
    for number in range(22):
        seen.append(tap.buffer_factor)
        tap.offer(exchange(id=str(number)))
    assert seen[:11] == [1.0] * 11
    assert seen[11:21] == pytest.approx([1 - step / 10 * 63 / 64 for step in range(1, 11)])
    assert tap.rates == {"other": 0.015625}
    assert decide(tap, id_between(0.0, 0.015)) == Sampled("other", 0.015625, 0.015625)
    assert decide(tap, id_between(0.016, 1.0)) is None
    assert tap.counts == {"failed": 2, "sampled_out": 1}
    assert tap.pending == 20
    await tap.stop()
    assert tap.buffer_factor == 1.0


@pytest.mark.parametrize("filler", ["iVBORw0KGgo", "word "], ids=["picture", "words"])
def test_a_large_body_is_searched_at_its_ends(filler: str) -> None:
    """A picture hides no question before or after it, and no body keeps the event loop for long."""
    tap = unstored(SamplingConfig(rate=0.0, strata={"identity_mention": 1.0}))
    middle = (filler * (16_000_000 // len(filler))).encode()
    for body in (NAMING + middle, middle + NAMING):
        begun = time.thread_time()
        assert decide(tap, "r", body=body) == Sampled("identity_mention", 1.0)
        assert time.thread_time() - begun < 0.1
    assert decide(tap, "r", body=middle + NAMING + middle) is None


def test_copies_in_the_making_fill_the_buffer_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is reserved lowers the rate, leaves that much less for others, and is free again when it is released."""
    monkeypatch.setattr("gateway.sampling.tap.BUFFER_BYTES", 1000)
    tap = unstored(SamplingConfig(rate=1.0))
    assert tap.reserve(700)
    assert tap.rates["other"] == tap.buffer_factor < 0.7
    assert not tap.reserve(301)
    tap.offer(exchange(request_body=b"x" * 301, response_body=b""))
    assert tap.counts == {"failed": 1}
    tap.release(700)
    assert tap.rates["other"] == tap.buffer_factor == 1.0
    assert tap.reserve(1000)


async def test_too_much_text_is_truncated_in_tap_and_ledger(database: Database, queue: JobQueue) -> None:
    """Whoever stores a copy knows its text: what has too much is counted as truncated, once, and not as queued."""
    tap = await started(database, DirectSink(database, queue, max_text_bytes=100))
    long = b'{"messages": [{"role": "user", "content": "%b"}]}' % (b"a" * 101)
    stored = exchange()
    for one in (exchange(request_body=long), stored, exchange(response_body=long, stratum="vip")):
        tap.offer(one)
    await tap.stop()
    expected = {("other", "truncated"): 1, ("other", "queued"): 1, ("vip", "truncated"): 1}
    assert tap.outcomes == expected
    assert {key: n for key, n in (await ledger.counts(database)).items() if n} == expected
    assert [job["ids"] for job in await queue.pending(AUDIT_TASK)] == [[stored.id]]


async def test_a_copy_that_cannot_be_folded_takes_no_other_with_it(
    database: Database, queue: JobQueue, caplog: pytest.LogCaptureFixture
) -> None:
    """It is counted as failed, and the log says where, without a word of it."""
    tap = await started(database, DirectSink(database, queue))
    tap.offer(exchange(endpoint="/v1/secret-words", stream=True, response_body=b"data: 1"))
    tap.offer(exchange())
    await tap.stop()
    assert tap.outcomes == {("other", "failed"): 1, ("other", "queued"): 1}
    assert "a copy could not be folded: KeyError" in caplog.text
    assert "secret-words" not in caplog.text


REQUESTS = st.lists(
    st.fixed_dictionaries(
        {
            "eligible": st.booleans(),
            "opt": st.sampled_from([None, "on", "off"]),
            "may_opt": st.booleans(),
            "tag": st.sampled_from([None, "vip", "?"]),
            "body": st.sampled_from([NEUTRAL, NAMING, b"not json"]),
            "end": st.sampled_from(["offer", "filtered", "truncated"]),
        }
    ),
    max_size=120,
)


@settings(max_examples=25)
@given(requests=REQUESTS, buffer=st.integers(1, 40))
def test_outcomes_sum_to_requests(tmp_path_factory: pytest.TempPathFactory, requests: list[Any], buffer: int) -> None:
    """Whatever requests ask for and however they end, each is in exactly one outcome, in memory and in the ledger."""
    asyncio.run(_drive(f"sqlite:///{tmp_path_factory.mktemp('tap')}/store.db", requests, buffer))


async def _drive(url: str, requests: list[dict[str, Any]], buffer: int) -> None:
    database = await Database.open(url)
    sink = DirectSink(database, open_queue(database))
    tap = await started(database, sink, rate=0.5, strata=STRATA, tags=["vip"], buffer_exchanges=buffer)
    for number, request in enumerate(requests):
        asked = dict(request)
        end = asked.pop("end")
        sampled = tap.decide(SamplingRequest(f"id-{number}", **asked))
        if sampled is not None and end == "offer":
            tap.offer(exchange(stratum=sampled.stratum, inclusion_probability=sampled.inclusion_probability))
        elif sampled is not None:
            tap.drop(sampled.stratum, end)
        if number % 7 == 0:
            await asyncio.sleep(0)
    await tap.stop()
    assert sum(tap.counts.values()) == len(requests)
    assert Counter(await ledger.counts(database)) == tap.outcomes
    waiting, _ = await exchanges.backlog(database)
    assert waiting == tap.counts.get("queued", 0)
    await database.close()


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Another process writes to the store for as long as the block."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield


async def test_copies_that_the_store_never_takes_are_counted_as_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A stop does not wait for ever: what could not be written is counted as failed and logged."""
    monkeypatch.setattr("gateway.store.connections.BUSY_TIMEOUT_SECONDS", 0.1)
    database = await Database.open(f"sqlite:///{tmp_path}/store.db")
    with locked(tmp_path / "store.db"):
        tap = await started(database, DirectSink(database, open_queue(database)))
        for _ in range(3):
            tap.offer(exchange())
        await tap.stop(stall_seconds=0.5)
    assert tap.counts == {"failed": 3}
    assert "3 sampled exchanges were lost" in caplog.text
    await database.close()


@pytest.mark.stores("sqlite", "postgresql")
async def test_unstorable_batch_does_not_hold_up_the_next(database: Database, queue: JobQueue) -> None:
    """Exchanges that the database refuses for what they are count as failed, and later ones are stored."""
    tap = SamplingTap(SamplingConfig(rate=1.0), SECRET, database, DirectSink(database, queue))
    broken = exchange(
        status_code="no number, and no statement can be made of it" if database.dialect == "postgresql" else []
    )
    await tap.start()
    tap.offer(broken)
    await eventually(lambda: not tap.pending)
    tap.offer(exchange())
    await tap.stop()
    assert tap.counts == {"failed": 1, "queued": 1}
    assert await ledger.counts(database) == {("other", "failed"): 1, ("other", "queued"): 1}
