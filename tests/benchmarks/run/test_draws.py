"""Several samples of an item come in one request where the server draws them, and are replies like any others."""

import asyncio
from collections import Counter

import msgspec
import pytest

from auditors.types import Completion, CompletionError, CompletionRequest
from benchmarks.run.plan import Plan
from benchmarks.run.runner import ask, run_plan
from tests.support.benchmarks.scripted import MemoryLog, ScriptedCompleter, pick, plan

SAMPLES = 10


class Drawing(ScriptedCompleter):
    """Draws as many as it is asked for, each with a text of its own; or refuses to."""

    def __init__(self, plan: Plan, *, refuses: bool = False, fails_first: bool = False) -> None:
        super().__init__(plan, pick("stereotype"))
        self._refuses = refuses
        self._fails_next = fails_first

    async def complete(self, request: CompletionRequest) -> Completion:
        n = request.extra.get("n", 1)
        if self._refuses and n > 1:
            self.asked.append(request)
            raise CompletionError("rejected", "n must be 1", status_code=400)
        first = await super().complete(request)
        if n > 1 and self._fails_next:
            self._fails_next = False
            raise CompletionError("unavailable", "status 500", status_code=500)
        others = [msgspec.structs.replace(first, text=f"{first.text}.") for _ in range(n - 1)]
        usage = {"completion_tokens": 2 * n}
        return msgspec.structs.replace(first, usage=usage, further=others)

    def n_by_request(self) -> Counter[int]:
        return Counter(request.extra.get("n", 1) for request in self.asked)


async def test_each_sample_is_a_reply_of_its_own() -> None:
    """Ten samples an item in requests of four, four and two: each sample once, each with its own text."""
    asked = plan(samples=SAMPLES)
    server = Drawing(asked)
    result = await run_plan(asked, completer=server, log=(log := MemoryLog()))
    assert server.n_by_request() == {4: 2 * len(asked.items), 2: len(asked.items)}
    keys = [(reply.item_id, reply.sample) for reply in log.replies]
    assert sorted(keys) == sorted((item.item_id, sample) for item in asked.items for sample in range(SAMPLES))
    assert {reply.status for reply in log.replies} == {"ok"}
    assert result.n_replies == SAMPLES * len(asked.items)


async def test_costs_are_counted_once() -> None:
    """Requests are those that were sent, and tokens those that the server counted."""
    asked = plan(samples=SAMPLES)
    server = Drawing(asked)
    result = await run_plan(asked, completer=server, log=(log := MemoryLog()))
    assert result.provenance.requests == len(server.asked) + server.n_probes
    assert sum((reply.usage or {}).get("completion_tokens", 0) for reply in log.replies) == 2 * len(log.replies)


@pytest.mark.parametrize("refuses", [True, False])
async def test_a_server_that_draws_one_is_asked_for_one(refuses: bool) -> None:
    """One that refuses `n`, or takes it and sends one reply, gives all replies all the same, asked for singly."""
    asked = plan(samples=SAMPLES, concurrency=8 * 4)
    server = Drawing(asked, refuses=True) if refuses else ScriptedCompleter(asked, pick("stereotype"))
    replies = await ask(asked, completer=server, log=MemoryLog())
    assert replies.n_answered == asked.total
    several = [request for request in server.asked if request.extra.get("n", 1) > 1]
    assert len(several) <= 32  # those in flight when the first was answered
    assert len(server.asked) <= asked.total + 32


@pytest.mark.parametrize("options", [{"temperature": 0.0}, {"concurrency": 4}])
async def test_asked_singly_where_several_make_no_sense(options: dict[str, object]) -> None:
    """At temperature 0 there is nothing to draw, and who has few requests in flight gets one reply from each."""
    asked = plan(samples=SAMPLES, **options)
    server = Drawing(asked)
    await ask(asked, completer=server, log=MemoryLog())
    assert server.n_by_request() == {1: asked.total}


async def test_a_request_that_fails_is_one_failed_reply() -> None:
    """Of four samples asked for together one is recorded as failed, and the three others are asked for again."""
    asked = plan(samples=4, limit=3)
    server = Drawing(asked, fails_first=True)
    await ask(asked, completer=server, log=(log := MemoryLog()))
    assert Counter(reply.status for reply in log.replies) == {"error": 1, "ok": 11}
    assert server.n_by_request()[3] == 1


async def test_resumed_with_what_is_missing() -> None:
    """A run that has some samples of each item asks for the others only."""
    asked, log = plan(samples=SAMPLES), MemoryLog()
    await ask(asked, completer=Drawing(asked), log=log)
    some = MemoryLog()
    await some.append([reply for reply in log.replies if reply.sample % 2])
    server = Drawing(asked)
    replies = await asyncio.wait_for(ask(asked, completer=server, log=some), 30)
    assert replies.n_answered == asked.total
    assert sum(n * count for n, count in server.n_by_request().items()) == asked.total // 2
