"""Requests paced around the moment at which one side of an idle connection closes it: the race that every pool has."""

import asyncio
import contextlib
import random
import time
from collections import Counter
from pathlib import Path

import msgspec

from tools.bench.caller import Caller, chat
from tools.bench.fleet import Behind, gateway_in_front, kept_alive

BURST = 4
"""Requests at a time, so that as many connections lie idle for the same time."""


class Pace(msgspec.Struct, frozen=True):
    """How long a set of connections lies idle between two requests, and against which keep-alive time."""

    name: str
    keep_alive_seconds: int
    pause_seconds: float
    jitter_seconds: float


class Paced(msgspec.Struct, frozen=True):
    """What came of it."""

    pace: Pace
    requests: int
    errors: dict[str, int]


def paced(paces: list[Pace], seconds: float, home: Path) -> list[Paced]:
    """Runs all paces side by side, each over a pool of its own, for so long."""
    with contextlib.ExitStack() as stack:
        urls = {
            keep_alive: stack.enter_context(kept_alive(home, keep_alive)).url
            for keep_alive in {pace.keep_alive_seconds for pace in paces}
        }
        behind = [Behind(pace.name, urls[pace.keep_alive_seconds], model=pace.name) for pace in paces]
        port = stack.enter_context(gateway_in_front(behind, home))
        return asyncio.run(_all(paces, port, seconds))


async def _all(paces: list[Pace], port: int, seconds: float) -> list[Paced]:
    return await asyncio.gather(*(_one(pace, port, seconds) for pace in paces))


async def _one(pace: Pace, port: int, seconds: float) -> Paced:
    rng = random.Random(pace.name)
    callers = [Caller(port) for _ in range(BURST)]
    errors: Counter[str] = Counter()
    requests, ends = 0, time.monotonic() + seconds
    while time.monotonic() < ends:
        bodies = [chat(stream=number % 2 == 1, model=pace.name) for number in range(BURST)]
        found = await asyncio.gather(*(_ask(caller, body) for caller, body in zip(callers, bodies, strict=True)))
        requests += len(found)
        errors.update(error for error in found if error)
        await asyncio.sleep(pace.pause_seconds + rng.uniform(-1, 1) * pace.jitter_seconds)
    for caller in callers:
        caller.close()
    return Paced(pace, requests, dict(errors))


async def _ask(caller: Caller, body: bytes) -> str | None:
    """What went wrong, if anything."""
    try:
        answer = await caller.post(body)
    except (OSError, EOFError) as exc:
        caller.close()
        return type(exc).__name__
    if answer.status != 200:
        return f"{answer.status} {answer.body[:200].decode()}"
    return "event: error" if b'"error"' in answer.body else None
