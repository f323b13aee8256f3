"""The limiter of a server: real requests wait for the others there, all are answered, and none starves."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from auditors.clients.completion import HttpCompleter
from auditors.types import CompletionRequest, Message
from gateway.auditor.backpressure.limiter import ConcurrencyLimiter, ConcurrencyLimiters
from gateway.auditor.backpressure.vllm_load import LoadReader
from gateway.config.schema import AuditsConfig
from tests.support.auditors.scripted import Asked, Reply, ScriptedServer, chat, scripted_server
from tests.support.waiting import eventually

QUESTION = CompletionRequest(model="m", messages=[Message("user", "Hello?")], max_tokens=5)
LOOK = 0.05
"""Seconds between two polls in these tests."""


def page(running: int, waiting: int, kv_usage: float = 0.0, **more: float) -> Reply:
    """A page of metrics as vLLM writes it."""
    values = {"num_requests_running": running, "num_requests_waiting": waiting, "kv_cache_usage_perc": kv_usage} | more
    lines = (f'vllm:{name}{{engine="0",model_name="m"}} {float(value)}\n' for name, value in values.items())
    return Reply("".join(lines).encode())


class CompetingLoad:
    """A script: chat completions that take a moment, and metrics of the others whom a test puts there."""

    def __init__(self, seconds: float = 0.05) -> None:
        self.running = self.waiting = 0
        self.seconds = seconds
        self.server: ScriptedServer | None = None
        self.refusals = 0
        self.in_flight_at_polls: list[int] = []
        self.slower = 0.0
        """By how much of itself a step takes longer while audits are in the batch."""
        self._tokens = self._token_seconds = 0.0
        self._polled_at = time.monotonic()

    def __call__(self, asked: Asked) -> Reply:
        if asked.path == "/metrics":
            ours = (self.server.in_flight if self.server else 1) - 1  # this poll is one
            self.in_flight_at_polls.append(ours)
            return page(self.running + ours, self.waiting, **self._step(self.running + ours, ours))
        if self.refusals:
            self.refusals -= 1
            return Reply(b"{}", status=503, headers={"retry-after": "0"})
        return chat("a")._replace(delay=self.seconds)

    def _step(self, running: int, ours: int) -> dict[str, float]:
        """vLLM's sums of what the batch did since the last poll, at a millisecond a step without audits."""
        since, self._polled_at = time.monotonic() - self._polled_at, time.monotonic()
        self._tokens += running * since / (0.001 * (1 + (self.slower if ours else 0.0)))
        self._token_seconds += running * since
        name = "inter_token_latency_seconds"
        return {f"{name}_count": self._tokens, f"{name}_sum": self._token_seconds}


@asynccontextmanager
async def competing(
    load: CompetingLoad, *, cap: int = 8, max_pause_seconds: float = 60.0
) -> AsyncIterator[tuple[ConcurrencyLimiter, HttpCompleter]]:
    """A limiter before a server with that load, and a completer that passes it."""
    async with scripted_server(load) as server:
        load.server = server
        settings = AuditsConfig(max_pause_seconds=max_pause_seconds)
        limiter = ConcurrencyLimiter(LoadReader(server.base_url), settings, poll_seconds=LOOK)
        limiter.widen(cap)
        completer = HttpCompleter(server.base_url, max_concurrency=64, gate=limiter)
        try:
            yield limiter, completer
        finally:
            await completer.aclose()
            await limiter.aclose()


def chats(load: CompetingLoad) -> int:
    """Chat completions that the server was asked for."""
    return sum(one.path != "/metrics" for one in load.server.asked) if load.server else 0


class TestAllowance:
    async def test_the_cap_holds_and_all_are_answered(self) -> None:
        """Forty requests at once to an idle server: no more in flight than the cap."""
        load = CompetingLoad()
        async with competing(load) as (limiter, completer):
            answers = await asyncio.gather(*(completer.complete(QUESTION) for _ in range(40)))
            assert limiter.in_flight == 0
            assert limiter.allowed == 8
        assert [one.text for one in answers] == ["a"] * 40
        assert 1 < max(load.in_flight_at_polls) <= 8

    async def test_the_first_request_comes_after_the_first_look(self) -> None:
        """With a queue that was there before, nothing is sent; once it is gone, all is."""
        load = CompetingLoad()
        load.running, load.waiting = 4, 3
        async with competing(load) as (limiter, completer):
            asking = [asyncio.create_task(completer.complete(QUESTION)) for _ in range(6)]
            await eventually(lambda: len(load.in_flight_at_polls) >= 4)
            assert chats(load) == 0
            assert limiter.allowed == 0
            assert limiter.held_seconds() > 0
            load.running = load.waiting = 0
            await asyncio.gather(*asking)
            held = limiter.held_seconds()
            await asyncio.sleep(3 * LOOK)
            assert limiter.held_seconds() == held
            await eventually(lambda: limiter.allowed == 8)

    async def test_audits_that_slow_live_answers_down_give_way(self) -> None:
        """Half a step longer: down to one at a time, now and then; no longer so: all again."""
        load = CompetingLoad(seconds=0.3)
        load.running, load.slower = 20, 0.5
        async with competing(load, max_pause_seconds=0.3) as (limiter, completer):
            await completer.complete(QUESTION)
            polls = len(load.in_flight_at_polls)
            await eventually(lambda: len(load.in_flight_at_polls) > polls + 10)  # nothing is in flight, and it polls on
            assert limiter.live_latency_ratio is None
            stop = asyncio.Event()

            async def keep_asking() -> None:
                while not stop.is_set():
                    await completer.complete(QUESTION)

            asking = [asyncio.create_task(keep_asking()) for _ in range(12)]
            await eventually(lambda: (limiter.live_latency_ratio or 0) > 1.3)
            await eventually(lambda: limiter.allowed == 0 and limiter.in_flight == 0)
            asked = chats(load)
            await eventually(lambda: chats(load) >= asked + 3)  # one after each pause
            assert limiter.allowed == 0
            load.slower = 0.0
            await eventually(lambda: limiter.allowed == 8 and limiter.in_flight == 8)
            await eventually(lambda: limiter.live_latency_ratio == pytest.approx(1, abs=0.05))
            stop.set()
            await asyncio.gather(*asking)

    async def test_refusals_are_asked_again_at_a_slower_pace(self) -> None:
        """503 halves what may be in flight where there are no metrics as well; nothing is lost."""
        load = CompetingLoad()
        load.refusals = 2

        def without_metrics(asked: Asked) -> Reply:
            return Reply(b"", status=404) if asked.path == "/metrics" else load(asked)

        async with scripted_server(without_metrics) as server:
            limiter = ConcurrencyLimiter(LoadReader(server.base_url), AuditsConfig(), poll_seconds=LOOK)
            limiter.widen(8)
            completer = HttpCompleter(server.base_url, gate=limiter)
            least = 8
            asking = asyncio.gather(*(completer.complete(QUESTION) for _ in range(24)))
            while not asking.done():
                least = min(least, limiter.allowed)
                await asyncio.sleep(0.005)
            await asking
            await completer.aclose()
            await limiter.aclose()
        assert least == 4
        assert Counter(one.path for one in server.asked) == {"/metrics": 1, "/v1/chat/completions": 26}


async def test_one_that_was_let_through_is_not_cut_off() -> None:
    """A queue that never ends: the one request of each pause is answered, however long it takes."""
    load = CompetingLoad(seconds=0.5)
    load.running, load.waiting = 4, 3
    async with competing(load, max_pause_seconds=0.2) as (limiter, completer):
        await asyncio.gather(*(completer.complete(QUESTION) for _ in range(2)))
        assert not limiter.evictions
    assert chats(load) == 2


async def test_a_server_has_one_limiter() -> None:
    """Two upstreams at one address share a limiter, under the first name."""
    limiters = ConcurrencyLimiters(AuditsConfig())
    first, second = limiters.of("http://h", "a"), limiters.of("http://h", "b")
    other = limiters.of("http://i", "c")
    assert first is second is not other
    assert first is not None
    first.widen(4)
    assert limiters.allowed() == {"a": 4, "c": 0}
    await limiters.aclose()
