"""How many audits may be in flight: never above the cap, few while others wait, all again afterwards, never none."""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditors.completion import HttpCompleter
from auditors.pacing import NEVER_SENT
from auditors.types import CompletionError, CompletionRequest, Message
from gateway.auditing.allowance import CALM_LOOKS, LOOKS_TO_THE_CAP, Allowance, Allowances, Controller
from gateway.auditing.live_latency import Verdict
from gateway.auditing.server_load import Load, LoadReader
from gateway.auditing.time_limit import time_limit
from gateway.config import AuditsConfig
from tests.auditors.scripted import Asked, Reply, ScriptedServer, chat, scripted_server

QUESTION = CompletionRequest(model="m", messages=[Message("user", "Hello?")], max_tokens=5)
LOOK = 0.05
"""Seconds between two looks in these tests."""
IDLE = Load()


def controller(cap: int, *, max_pause_seconds: float = 10.0) -> Controller:
    """One with this cap, which it has reached."""
    made = Controller(max_kv_usage_ratio=0.9, max_pause_seconds=max_pause_seconds)
    made.widen(cap)
    return made


loads = st.builds(Load, st.integers(0, 50), st.integers(0, 50), st.floats(0, 1))
events = st.one_of(st.none(), loads, st.sampled_from(["503", "slow"]))


class TestController:
    @given(st.integers(1, 64), st.lists(st.tuples(events, st.integers(0, 64))))
    def test_never_above_the_cap_and_back_to_it(self, cap: int, story: list[tuple[Load | str | None, int]]) -> None:
        """Whatever happens, 0 to the cap are allowed; an idle server allows all again after so many looks."""
        one = controller(cap)
        for second, (event, in_flight) in enumerate(story):
            if event == "503":
                one.turned_away(in_flight=in_flight, now=float(second))
            elif event == "slow":
                one.look(IDLE, in_flight=in_flight, peak=in_flight, now=float(second), latency="over")
            elif not isinstance(event, str):
                one.look(event, in_flight=in_flight, peak=in_flight, now=float(second))
            assert 0 <= one.allowed <= cap
        for more in range(CALM_LOOKS + LOOKS_TO_THE_CAP - 1):
            one.look(IDLE, in_flight=0, peak=0, now=float(len(story) + more), latency="within")
        assert one.allowed == cap

    @given(st.integers(1, 64), st.integers(0, 64), st.integers(0, 64))
    def test_own_requests_are_nobody_elses(self, cap: int, running: int, waiting: int) -> None:
        """A server that holds ours alone never gives a reason to hold back, however many of them wait."""
        one = controller(cap)
        one.look(Load(running, waiting), in_flight=running + waiting, peak=running + waiting, now=1.0)
        assert one.allowed == cap

    def test_requests_that_have_just_ended_are_ours_too(self) -> None:
        """A gauge of the moment before still counts them; the peak since the last look does as well."""
        one = controller(8)
        one.look(Load(running=4, waiting=4), in_flight=5, peak=8, now=1.0)
        assert one.allowed == 8

    def test_others_in_the_queue_halve_what_is_in_flight(self) -> None:
        """Down to none, also when it is ours that run and theirs that wait."""
        one = controller(16)
        seen = []
        for second, in_flight in enumerate((10, 5, 2, 1)):
            one.look(Load(running=10, waiting=3), in_flight=in_flight, peak=in_flight, now=float(second))
            seen.append(one.allowed)
        assert seen == [5, 2, 1, 0]

    @pytest.mark.parametrize(("kv_usage", "expected"), [(0.95, [2, 1, 1]), (0.9, [8, 8, 8])])
    def test_a_full_cache_leaves_one(self, kv_usage: float, expected: list[int]) -> None:
        """Above the limit half, down to one; at the limit nothing changes."""
        one = controller(8)
        seen = []
        for second, in_flight in enumerate((4, 2, 1)):
            one.look(Load(running=4, kv_usage=kv_usage), in_flight=in_flight, peak=4, now=float(second))
            seen.append(one.allowed)
        assert seen == expected

    def test_slow_answers_halve_and_hold(self) -> None:
        """Down to none; nothing comes back until answers are known to be within the budget, then step by step."""
        one = controller(16)
        seen = []
        story: list[tuple[int, Verdict]] = [
            (10, "over"), (5, "unknown"), (5, "over"), (2, "over"), (1, "over"), (0, "unknown"), (1, "within"),
        ]  # fmt: skip
        for second, (in_flight, latency) in enumerate(story):
            one.look(Load(running=12), in_flight=in_flight, peak=in_flight, now=float(second), latency=latency)
            seen.append(one.allowed)
        assert seen == [5, 5, 2, 1, 0, 0, 0]
        for second, allowed in ((7, 2), (8, 4)):
            one.look(Load(running=12), in_flight=0, peak=0, now=float(second))
            assert one.allowed == allowed

    @pytest.mark.parametrize(("affordable", "expected"), [(0.5, 8), (0.25, 4), (0.025, 0)])
    def test_answers_that_are_much_too_slow_cut_at_once(self, affordable: float, expected: int) -> None:
        """As many stay as the budget affords, in one look and not in one for every half."""
        one = controller(16)
        one.look(Load(running=20), in_flight=16, peak=16, now=0.0, latency="over", affordable=affordable)
        assert one.allowed == expected

    def test_unknown_latency_is_no_reason(self) -> None:
        """An allowance that was never cut for latency grows as ever while nothing is known of it."""
        one = controller(16)
        one.look(Load(running=10, waiting=3), in_flight=8, peak=8, now=0.0)
        for second in range(1, 1 + CALM_LOOKS):
            one.look(Load(running=10), in_flight=4, peak=4, now=float(second), latency="unknown")
        assert one.allowed == 6

    def test_a_queue_that_comes_and_goes_is_one(self) -> None:
        """As vLLM's own gauge has it under a steady crowd: a look or two without a queue give nothing back."""
        one = controller(16)
        seen = []
        for second, waiting in enumerate((15, 15, 0, 13, 0, 0, 11, 8, 0, 12, 0, 0, 0)):
            load = Load(running=4 if waiting else 0, waiting=waiting)
            one.look(load, in_flight=min(4, int(one.allowed)), peak=4, now=float(second))
            seen.append(one.allowed)
        assert seen == [2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]

    def test_a_pause_lets_one_through_all_the_same(self) -> None:
        """Nobody is sent while a baseline is taken, but for the one that has waited long enough."""
        one = controller(4, max_pause_seconds=10)
        assert not one.may_send(in_flight=0, idle_seconds=9, is_pausing=True)
        assert one.may_send(in_flight=0, idle_seconds=10, is_pausing=True)

    def test_a_burst_of_refusals_counts_once(self) -> None:
        """Eight answers of 503 in one moment halve once, and the next looks do not take it back."""
        one = controller(8)
        one.look(None, in_flight=8, peak=8, now=0.0)
        for _ in range(8):
            one.turned_away(in_flight=8, now=0.5)
        assert one.allowed == 4
        for second in range(1, CALM_LOOKS):
            one.look(None, in_flight=4, peak=8, now=float(second))
            assert one.allowed == 4
        one.look(None, in_flight=4, peak=4, now=float(CALM_LOOKS))
        assert one.allowed == 5

    @given(st.lists(loads, min_size=20, max_size=60), st.floats(1, 5))
    def test_nobody_starves(self, seen: list[Load], pause: float) -> None:
        """With requests that take a second each, the longest time without one is the pause and a look."""
        one = controller(4, max_pause_seconds=pause)
        in_flight, idle = 0, 0.0
        for second, load in enumerate(seen):
            crowd = load._replace(running=load.running + 10, waiting=load.waiting + 1)
            one.look(crowd, in_flight=in_flight, peak=in_flight, now=float(second))
            idle = 0.0 if in_flight else idle + 1.0
            in_flight = int(one.may_send(in_flight=0, idle_seconds=idle))
            assert idle <= pause + 1.0

    def test_whoever_comes_and_goes_moves_the_cap(self) -> None:
        """An open gate stays open, one that holds back goes on holding back, nothing is left when all have gone."""
        one = controller(4)
        one.widen(16)
        assert (one.cap, one.allowed) == (20, 20)
        one.look(Load(running=10, waiting=3), in_flight=6, peak=6, now=0.0)
        one.widen(8)
        assert (one.cap, one.allowed) == (28, 3)
        one.widen(-28)
        assert (one.cap, one.allowed) == (0, 0)
        assert not one.may_send(in_flight=0, idle_seconds=1e9)


def page(running: int, waiting: int, kv_usage: float = 0.0, **more: float) -> Reply:
    """A page of metrics as vLLM writes it."""
    values = {"num_requests_running": running, "num_requests_waiting": waiting, "kv_cache_usage_perc": kv_usage} | more
    lines = (f'vllm:{name}{{engine="0",model_name="m"}} {float(value)}\n' for name, value in values.items())
    return Reply("".join(lines).encode())


class Crowd:
    """A script: chat completions that take a moment, and metrics of the others whom a test puts there."""

    def __init__(self, seconds: float = 0.05) -> None:
        self.running = self.waiting = 0
        self.seconds = seconds
        self.server: ScriptedServer | None = None
        self.refusals = 0
        self.in_flight_at_looks: list[int] = []
        self.slower = 0.0
        """By how much of itself a step takes longer while audits are in the batch."""
        self._tokens = self._token_seconds = 0.0
        self._looked_at = time.monotonic()

    def __call__(self, asked: Asked) -> Reply:
        if asked.path == "/metrics":
            ours = (self.server.in_flight if self.server else 1) - 1  # this look is one
            self.in_flight_at_looks.append(ours)
            return page(self.running + ours, self.waiting, **self._step(self.running + ours, ours))
        if self.refusals:
            self.refusals -= 1
            return Reply(b"{}", status=503, headers={"retry-after": "0"})
        return chat("a")._replace(delay=self.seconds)

    def _step(self, running: int, ours: int) -> dict[str, float]:
        """vLLM's sums of what the batch did since the last look, at a millisecond a step without audits."""
        since, self._looked_at = time.monotonic() - self._looked_at, time.monotonic()
        self._tokens += running * since / (0.001 * (1 + (self.slower if ours else 0.0)))
        self._token_seconds += running * since
        name = "inter_token_latency_seconds"
        return {f"{name}_count": self._tokens, f"{name}_sum": self._token_seconds}


@asynccontextmanager
async def crowded(
    crowd: Crowd, *, cap: int = 8, max_pause_seconds: float = 60.0
) -> AsyncIterator[tuple[Allowance, HttpCompleter]]:
    """An allowance before a server with that crowd, and a completer that passes it."""
    async with scripted_server(crowd) as server:
        crowd.server = server
        settings = AuditsConfig(max_pause_seconds=max_pause_seconds)
        allowance = Allowance(LoadReader(server.base_url), settings, look_seconds=LOOK)
        allowance.widen(cap)
        completer = HttpCompleter(server.base_url, max_concurrency=64, gate=allowance)
        try:
            yield allowance, completer
        finally:
            await completer.aclose()
            await allowance.aclose()


async def eventually(condition: Callable[[], bool]) -> None:
    """Waits until a condition holds."""
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - another object changes
            await asyncio.sleep(0.01)


def chats(crowd: Crowd) -> int:
    """Chat completions that the server was asked for."""
    return sum(one.path != "/metrics" for one in crowd.server.asked) if crowd.server else 0


class TestAllowance:
    async def test_the_cap_holds_and_all_are_answered(self) -> None:
        """Forty requests at once to an idle server: no more in flight than the cap."""
        crowd = Crowd()
        async with crowded(crowd) as (allowance, completer):
            answers = await asyncio.gather(*(completer.complete(QUESTION) for _ in range(40)))
            assert allowance.in_flight == 0
            assert allowance.allowed == 8
        assert [one.text for one in answers] == ["a"] * 40
        assert 1 < max(crowd.in_flight_at_looks) <= 8

    async def test_the_first_request_comes_after_the_first_look(self) -> None:
        """With a queue that was there before, nothing is sent; once it is gone, all is."""
        crowd = Crowd()
        crowd.running, crowd.waiting = 4, 3
        async with crowded(crowd) as (allowance, completer):
            asking = [asyncio.create_task(completer.complete(QUESTION)) for _ in range(6)]
            await eventually(lambda: len(crowd.in_flight_at_looks) >= 4)
            assert chats(crowd) == 0
            assert allowance.allowed == 0
            assert allowance.held_seconds() > 0
            crowd.running = crowd.waiting = 0
            await asyncio.gather(*asking)
            held = allowance.held_seconds()
            await asyncio.sleep(3 * LOOK)
            assert allowance.held_seconds() == held
            await eventually(lambda: allowance.allowed == 8)

    async def test_audits_in_flight_go_down_and_come_back(self) -> None:
        """A stream of audits gives way within a few looks of a queue's beginning, and fills up after its end."""
        crowd = Crowd()
        async with crowded(crowd) as (allowance, completer):
            stop = asyncio.Event()

            async def keep_asking() -> None:
                while not stop.is_set():
                    await completer.complete(QUESTION)

            asking = [asyncio.create_task(keep_asking()) for _ in range(12)]
            await eventually(lambda: allowance.in_flight == 8)
            crowd.running, crowd.waiting = 4, 3
            await eventually(lambda: allowance.allowed == 0 and allowance.in_flight == 0)
            crowd.waiting = 0
            await eventually(lambda: allowance.allowed == 8 and allowance.in_flight == 8)
            stop.set()
            await asyncio.gather(*asking)

    async def test_audits_that_slow_live_answers_down_give_way(self) -> None:
        """Half a step longer: down to one at a time, now and then; no longer so: all again."""
        crowd = Crowd(seconds=0.3)
        crowd.running, crowd.slower = 20, 0.5
        async with crowded(crowd, max_pause_seconds=0.3) as (allowance, completer):
            await completer.complete(QUESTION)
            looks = len(crowd.in_flight_at_looks)
            await eventually(
                lambda: len(crowd.in_flight_at_looks) > looks + 10
            )  # nothing is in flight, and it looks on
            assert allowance.live_latency_ratio is None
            stop = asyncio.Event()

            async def keep_asking() -> None:
                while not stop.is_set():
                    await completer.complete(QUESTION)

            asking = [asyncio.create_task(keep_asking()) for _ in range(12)]
            await eventually(lambda: (allowance.live_latency_ratio or 0) > 1.3)
            await eventually(lambda: allowance.allowed == 0 and allowance.in_flight == 0)
            asked = chats(crowd)
            await eventually(lambda: chats(crowd) >= asked + 3)  # one after each pause
            assert allowance.allowed == 0
            crowd.slower = 0.0
            await eventually(lambda: allowance.allowed == 8 and allowance.in_flight == 8)
            await eventually(lambda: allowance.live_latency_ratio == pytest.approx(1, abs=0.05))
            stop.set()
            await asyncio.gather(*asking)

    async def test_one_is_let_through_after_each_pause(self) -> None:
        """A queue that never ends: one at a time, with at least the pause between, until all are answered."""
        crowd = Crowd(seconds=0.01)
        crowd.running, crowd.waiting = 4, 3
        async with crowded(crowd, max_pause_seconds=0.2) as (_, completer):
            started = asyncio.get_running_loop().time()
            await asyncio.gather(*(completer.complete(QUESTION) for _ in range(4)))
            assert asyncio.get_running_loop().time() - started >= 4 * 0.2
        assert max(crowd.in_flight_at_looks) <= 1

    async def test_refusals_are_asked_again_at_a_slower_pace(self) -> None:
        """503 halves what may be in flight where there are no metrics as well; nothing is lost."""
        crowd = Crowd()
        crowd.refusals = 2

        def without_metrics(asked: Asked) -> Reply:
            return Reply(b"", status=404) if asked.path == "/metrics" else crowd(asked)

        async with scripted_server(without_metrics) as server:
            allowance = Allowance(LoadReader(server.base_url), AuditsConfig(), look_seconds=LOOK)
            allowance.widen(8)
            completer = HttpCompleter(server.base_url, gate=allowance)
            least = 8
            asking = asyncio.gather(*(completer.complete(QUESTION) for _ in range(24)))
            while not asking.done():
                least = min(least, allowance.allowed)
                await asyncio.sleep(0.005)
            await asking
            await completer.aclose()
            await allowance.aclose()
        assert least == 4
        assert Counter(one.path for one in server.asked) == {"/metrics": 1, "/v1/chat/completions": 26}

    async def test_a_request_that_is_called_off_leaves_no_trace(self) -> None:
        """Its place goes to the next, it says that it was never sent, and the clock of the held stops."""
        crowd = Crowd()
        crowd.running, crowd.waiting = 4, 3
        async with crowded(crowd) as (allowance, completer):
            asking = asyncio.create_task(completer.complete(QUESTION))
            await eventually(lambda: len(crowd.in_flight_at_looks) >= 1)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError) as caught:
                await asking
            assert NEVER_SENT in caught.value.args
            crowd.running = crowd.waiting = 0
            await completer.complete(QUESTION)
            assert allowance.in_flight == 0
        assert chats(crowd) == 1

    async def test_a_server_that_is_gone_fails_requests_as_ever(self) -> None:
        """No look succeeds; requests go out all the same and say what is wrong."""
        crowd = Crowd()
        async with crowded(crowd) as (_, _unused):
            pass
        assert crowd.server is not None
        allowance = Allowance(LoadReader(crowd.server.base_url), AuditsConfig(), look_seconds=LOOK)
        allowance.widen(1)
        completer = HttpCompleter(crowd.server.base_url, retries=0, gate=allowance)
        with pytest.raises(CompletionError, match="ConnectError"):
            await completer.complete(QUESTION)
        await completer.aclose()
        await allowance.aclose()


class TestAllowances:
    async def test_one_gate_a_server(self) -> None:
        """Two upstreams at one address share theirs, under the first name."""
        allowances = Allowances(AuditsConfig())
        one, two = allowances.of("http://h", "a"), allowances.of("http://h", "b")
        other = allowances.of("http://i", "c")
        assert one is two is not other
        assert one is not None
        one.widen(4)
        assert allowances.allowed() == {"a": 4, "c": 0}
        await allowances.aclose()

    def test_none_when_it_is_off(self) -> None:
        """Then only the fixed limits hold, and nothing is exported."""
        allowances = Allowances(AuditsConfig(adaptive_concurrency=False))
        assert allowances.of("http://h", "a") is None
        assert allowances.allowed() == {}


class TestTimeLimit:
    async def test_held_time_is_left_out(self) -> None:
        """A block that was held back for 0.3 s has 0.3 s longer."""
        loop = asyncio.get_running_loop()
        began = loop.time()

        def held() -> float:
            return min(loop.time() - began, 0.3)

        with pytest.raises(TimeoutError):
            async with time_limit(0.2, held):
                await asyncio.sleep(5)
        assert loop.time() - began >= 0.5

    async def test_a_block_in_time_is_let_be(self) -> None:
        """No trace of the limit remains, also when the block raises or is called off by someone else."""
        async with time_limit(0.05, float):
            pass
        with pytest.raises(ValueError, match="mine"):
            async with time_limit(0.05, float):
                raise ValueError("mine")
        await asyncio.sleep(0.1)

        async def limited() -> None:
            async with time_limit(5, float):
                await asyncio.sleep(5)

        task = asyncio.create_task(limited())
        await asyncio.sleep(0.01)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        assert task.cancelled()
