"""A stopped run ends within a second, whatever it is at, and what it leaves is completed by the next."""

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from auditors.types import Completer, Completion, CompletionRequest
from benchmarks.errors import RunStopped
from benchmarks.run.client import open_client
from benchmarks.run.plan import Plan
from benchmarks.run.runner import RunOptions, run, run_plan
from benchmarks.run.thinking import QUESTION
from tests.support.benchmarks.replayed import Saying, answered, recorded_plan, saying
from tests.support.benchmarks.scripted import MemoryLog, ScriptedCompleter, pick, plan
from tests.support.waiting import eventually

MOST_SECONDS = 1.0


class Silent:
    """A server that takes every request, and answers none but whether it thinks."""

    def __init__(self) -> None:
        self.n_asked = self.n_given_up = 0

    async def complete(self, request: CompletionRequest) -> Completion:
        if request.messages[-1].content == QUESTION:
            return Completion(text="Yes.", finish_reason="stop")
        self.n_asked += 1
        try:
            await asyncio.Event().wait()
        finally:
            self.n_given_up += 1
        raise AssertionError

    async def aclose(self) -> None:
        """Holds nothing open."""


class SilentEmbedder:
    """The same for texts."""

    name = "silent"

    def __init__(self) -> None:
        self.n_asked = 0

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.n_asked += 1
        await asyncio.Event().wait()
        raise AssertionError


async def seconds_to_stop(running: "asyncio.Task[Any]", stop: asyncio.Event) -> float:
    """How long a run takes to end once it is stopped."""
    stop.set()
    began = time.monotonic()
    with pytest.raises(RunStopped):
        await running
    return time.monotonic() - began


async def stopped_once(
    condition: Callable[[], bool], ready: Plan, *, completer: Completer, log: Any = None, **parts: Any
) -> float:
    """Runs a plan, stops it when a condition holds, and says how long the end took."""
    stop = asyncio.Event()
    running = asyncio.create_task(run_plan(ready, completer=completer, log=log or MemoryLog(), stop=stop, **parts))
    await eventually(lambda: condition() or running.done())
    return await seconds_to_stop(running, stop)


async def test_while_nothing_is_answered() -> None:
    """All requests in flight are given up, and nothing is asked in their place."""
    silent = Silent()

    assert await stopped_once(lambda: silent.n_asked == 32, plan(samples=100), completer=silent) < MOST_SECONDS
    assert silent.n_asked == silent.n_given_up == 32


@pytest.mark.parametrize("status", [429, 503])
async def test_while_it_waits_as_long_as_it_was_told_to(status: int) -> None:
    """A pause of a minute that the server asked for is cut short."""
    asked = 0

    def busy() -> bytes:
        nonlocal asked
        asked += 1
        return b"HTTP/1.1 %d Busy\r\nRetry-After: 60\r\ncontent-length: 0\r\n\r\n" % status

    async with saying(busy) as url:
        completer = open_client(url, concurrency=4)
        spent = await stopped_once(lambda: asked >= 1, plan(concurrency=4), completer=completer)
        await completer.aclose()
    assert spent < MOST_SECONDS


async def test_while_the_judge_is_silent() -> None:
    """A judge that does not answer holds nothing up."""
    silent, ready = Silent(), recorded_plan("decision", samples=1, limit=8)

    spent = await stopped_once(lambda: silent.n_asked > 0, ready, completer=Saying("P1 leads."), judge=silent)
    assert spent < MOST_SECONDS


async def test_while_texts_are_embedded(tmp_path: Path) -> None:
    """Nor does an embedder."""
    silent, ready = SilentEmbedder(), recorded_plan("cogs", samples=1, limit=9)
    log = answered(tmp_path / "run", ready)

    spent = await stopped_once(lambda: silent.n_asked > 0, ready, completer=Saying("1"), log=log, embedder=silent)
    log.close()
    assert spent < MOST_SECONDS


async def test_while_it_is_scored(tmp_path: Path) -> None:
    """A score over many replies is broken off: the run at once, its thread at the next reply."""
    ready = recorded_plan("stereoset", samples=300, limit=None)
    log = answered(tmp_path / "run", ready)
    scoring: list[threading.Thread] = []

    def has_begun() -> bool:
        scoring[:] = [thread for thread in threading.enumerate() if thread.name == "_scored"]
        return bool(scoring)

    assert await stopped_once(has_begun, ready, completer=Saying(""), log=log) < MOST_SECONDS
    assert scoring[0].name == "_scored"
    await eventually(lambda: not scoring[0].is_alive(), within_seconds=MOST_SECONDS)
    log.close()


async def test_while_it_is_planned() -> None:
    """Items are made by the thousand; a run stopped meanwhile asks nothing."""
    silent, stop = Silent(), asyncio.Event()
    options = RunOptions(suite="ltf_test", model="m", data="canonical")
    running = asyncio.create_task(run(options, completer=silent, log=MemoryLog(), stop=stop))
    await eventually(lambda: any(thread.name == "prepare" for thread in threading.enumerate()))

    assert await seconds_to_stop(running, stop) < MOST_SECONDS
    assert silent.n_asked == 0


async def test_replies_that_arrive_in_time_are_kept() -> None:
    """What is in flight has a moment to arrive, is kept, and is not asked again."""
    ready, log, stop = plan(concurrency=8), MemoryLog(), asyncio.Event()
    first = ScriptedCompleter(ready, pick("stereotype"), delay=0.1)
    running = asyncio.create_task(run_plan(ready, completer=first, log=log, stop=stop))
    await eventually(lambda: len(first.asked) == 8)

    assert await seconds_to_stop(running, stop) < MOST_SECONDS
    assert len(log.replies) == 8
    second = ScriptedCompleter(ready, pick("stereotype"))
    await run_plan(ready, completer=second, log=log)
    assert len(second.asked) == 40
