"""What a dead upstream costs the requests that healthy ones could answer, and how evenly healthy ones share."""

import asyncio
import contextlib
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from tests.support.integration.failing import black_hole
from tests.support.processes import free_port
from tools.bench.caller import Caller, chat
from tools.bench.fleet import Behind, gateway_in_front, kept_alive

CALLERS = 16
SLOW_SECONDS = 0.5
FATES = {"killed": signal.SIGKILL, "stopped": signal.SIGSTOP}
"""What meets the third upstream when a third of the time is over."""


class Felt(msgspec.Struct, frozen=True):
    """What the clients of a fleet felt. Latencies in seconds, of the requests that were answered with 200."""

    fleet: str
    requests: int
    failures: dict[str, int]
    p50_seconds: float
    p99_seconds: float
    max_seconds: float
    slow: int
    """Answered, but only after SLOW_SECONDS."""


class Shares(msgspec.Struct, frozen=True):
    """Requests by upstream, and how far the worst is from its share."""

    weights: list[float]
    requests: list[int]
    worst_ratio: float


def felt(kind: str, seconds: float, home: Path) -> Felt:
    """Two healthy upstreams and a third one of this kind, for so long."""
    with contextlib.ExitStack() as stack:
        urls = [stack.enter_context(kept_alive(home)).url for _ in range(2)]
        if kind == "refusing":
            urls.append(f"http://127.0.0.1:{free_port()}")
        elif kind == "black-holed":
            urls.append(stack.enter_context(black_hole()))
        signals: list[Callable[[], None]] = []
        if kind in FATES:
            third = stack.enter_context(kept_alive(home))
            urls.append(third.url)
            signals.append(lambda: third.process.send_signal(FATES[kind]))
            stack.callback(third.process.send_signal, signal.SIGCONT)  # a stopped process would not hear SIGTERM
        behind = [Behind(f"up{number}", url, first_byte_seconds=2.0) for number, url in enumerate(urls)]
        port = stack.enter_context(gateway_in_front(behind, home))
        return asyncio.run(_load(kind, port, seconds, signals))


async def _load(kind: str, port: int, seconds: float, signals: Sequence[Callable[[], None]]) -> Felt:
    latencies: list[float] = []
    failures: Counter[str] = Counter()
    ends = time.monotonic() + seconds
    for send in signals:
        asyncio.get_running_loop().call_later(seconds / 3, send)

    async def call() -> None:
        caller, body = Caller(port), chat()
        while time.monotonic() < ends:
            began = time.monotonic()
            try:
                answer = await caller.post(body)
            except (OSError, EOFError) as exc:
                caller.close()
                failures[type(exc).__name__] += 1
                continue
            if answer.status == 200:
                latencies.append(time.monotonic() - began)
            else:
                failures[str(answer.status)] += 1
        caller.close()

    await asyncio.gather(*(call() for _ in range(CALLERS)))
    latencies.sort()
    return Felt(
        kind,
        len(latencies) + failures.total(),
        dict(failures),
        latencies[len(latencies) // 2],
        latencies[len(latencies) * 99 // 100],
        latencies[-1],
        sum(latency > SLOW_SECONDS for latency in latencies),
    )


def shares(weights: list[float], requests: int, home: Path) -> Shares:
    """How so many requests are spread over equally fast upstreams of these weights."""
    with contextlib.ExitStack() as stack:
        urls = [stack.enter_context(kept_alive(home)).url for _ in weights]
        behind = [Behind(f"up{n}", urls[n], weight=weight) for n, weight in enumerate(weights)]
        port = stack.enter_context(gateway_in_front(behind, home))
        counts = asyncio.run(_count(port, requests))
    found = [counts[f"up{number}"] for number in range(len(weights))]
    fair = [requests * weight / sum(weights) for weight in weights]
    return Shares(weights, found, max(abs(got / due - 1) for got, due in zip(found, fair, strict=True)))


async def _count(port: int, requests: int) -> Counter[str]:
    counts: Counter[str] = Counter()
    left = iter(range(requests))

    async def call() -> None:
        caller, body = Caller(port), chat()
        for _ in left:
            counts[(await caller.post(body)).headers["x-biasgate-upstream"]] += 1
        caller.close()

    await asyncio.gather(*(call() for _ in range(CALLERS)))
    return counts
