"""One soak from start to accounts: traffic, restarts of upstreams, a look every second, and then the comparison."""

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tools.soak.accounts import Accounts, Samples, disagreements
from tools.soak.backends import SIMULATED, Backend
from tools.soak.driver import ABORT_SECONDS, Driver, Restarts
from tools.soak.front import Front
from tools.soak.system import MAX_COPY_BYTES, RATE, SECRET, exchange_ids, running_system
from tools.soak.traffic import Traffic
from tools.soak.watch import Watch, scrape

RESTART_EVERY_SECONDS = 40.0
AWAY_SECONDS = 2.0
GROWTH_MB = 5.0
"""Most that the straight line through a gateway worker's resident memory may rise over the second half."""
SETTLE_SECONDS = 180.0
"""Longest wait for the auditor to settle what is queued."""


@dataclass
class Soaked:
    """What there is to tell afterwards."""

    accounts: Accounts
    driver: Driver
    watch: Watch
    restarts: Restarts
    seconds: float
    stored: dict[str, int]
    """Outcome counts of GET /live/ledger."""
    growth: dict[str, tuple[float, float]]
    """Process to (MB by which its memory rose over the second half, MB at the end)."""
    faults: list[str]
    """One line for each invariant that does not hold; empty is good."""


async def soak(
    backends: list[Backend], home: Path, *, seconds: float, clients: int, seed: int, hostile: float = 0.0
) -> Soaked:
    """Traffic of `clients` for `seconds`, then the accounts. Each backend but a lone one is behind one front.

    `hostile`: share of the requests that mean harm.
    """
    async with AsyncExitStack() as stack:
        fronts = [Front(backend.url) for backend in backends for _ in range(1 if len(backends) > 1 else 2)]
        for front in fronts:
            await front.start()
            stack.push_async_callback(front.stop)
        system = await stack.enter_async_context(running_system(fronts, home))
        accounts, restarts = Accounts(SECRET.encode(), RATE, MAX_COPY_BYTES), Restarts()
        models = sorted({backend.model for backend in backends})
        traffic = Traffic(seed, models, max_tokens=24 if models == [SIMULATED] else 12, hostile=hostile)
        driver = Driver(system.port, fronts, traffic, accounts, restarts)
        watch = Watch([system.gateway, system.auditor], system.pids, RATE)
        started = time.monotonic()
        async with _background(watch.look_until_cancelled()):
            async with _background(_restart_now_and_then(fronts, restarts, seed)):
                await asyncio.gather(*(driver.work(started + seconds) for _ in range(clients)))
            ended = time.monotonic()
            for front in fronts:  # the last restart may have been cut off in the middle
                await front.stop()
                await front.start()
            stored, samples, still_running = await _last_look(system.gateway, backends)
        growth = {name: watch.growth_mb(name, since=(started + ended) / 2, until=ended) for name in watch.memory}
        died = [name for name, pid in system.pids.items() if not _is_there(pid)]
    accounts.settle(exchange_ids(home / "gateway.log"))
    faults = [
        *(f"unexplained end: {one}" for one in accounts.unexplained),
        *disagreements(accounts, samples, stored, was_pressed=watch.was_pressed),
        *(f"bytes differ: {one}" for one in driver.different),
        *(f"repeated: {one}" for one in driver.repeated),
        *(f"departure not heard of upstream in {ABORT_SECONDS:g} s: {one}" for one in driver.unnoticed),
        *(f"counter fell: {one}" for one in watch.fallen),
        *(f"scrape failed: {one}" for one in watch.failed),
        *(f"process died: {one}" for one in died),
        *still_running,
        *(
            f"memory of {name} grew by {mb:.1f} MB over the second half, more than {GROWTH_MB:g}"
            for name, (mb, _) in growth.items()
            if mb > GROWTH_MB and name.startswith("gateway")
        ),
    ]
    return Soaked(accounts, driver, watch, restarts, ended - started, stored, growth, faults)


@asynccontextmanager
async def _background(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def _restart_now_and_then(fronts: list[Front], restarts: Restarts, seed: int) -> None:
    """One upstream at a time is away for a while."""
    draw = random.Random(seed)
    while True:
        await asyncio.sleep(RESTART_EVERY_SECONDS)
        front, gone = draw.choice(fronts), time.monotonic()
        restarts.windows.append((gone, float("inf")))
        await front.stop()
        await asyncio.sleep(AWAY_SECONDS)
        await front.start()
        restarts.windows[-1] = (gone, time.monotonic())


async def _last_look(gateway: str, backends: list[Backend]) -> tuple[dict[str, int], Samples, list[str]]:
    """(stored ledger, the gateway's samples, a line for each backend that still runs something), once all is quiet."""
    async with httpx.AsyncClient(trust_env=False, timeout=60) as http:
        stored = await _settled_ledger(http, gateway)
        lines = []
        for backend in backends:
            if count := await _running_count(http, backend):
                lines.append(f"{backend.url} still runs {count:.0f} requests that nobody waits for")
        return stored, await scrape(http, gateway), lines


async def _settled_ledger(http: httpx.AsyncClient, gateway: str) -> dict[str, int]:
    """Outcome counts, once nothing is queued and nothing changes any more, or time is up."""
    deadline, last = time.monotonic() + SETTLE_SECONDS, None
    while True:
        outcomes: dict[str, int] = (await http.get(f"{gateway}/live/ledger")).raise_for_status().json()["outcomes"]
        if (not outcomes.get("queued") and outcomes == last) or time.monotonic() > deadline:
            return outcomes
        last = outcomes
        await asyncio.sleep(2.0)


async def _running_count(http: httpx.AsyncClient, backend: Backend) -> float:
    """How many requests the backend is answering by its own count; it is given time to notice the last departures."""
    count = 0.0
    for _ in range(100):
        samples = await scrape(http, backend.url)
        count = sum(value for (name, _), value in samples.items() if name == "vllm:num_requests_running")
        if not count:
            break
        await asyncio.sleep(0.2)
    return count


def _is_there(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()
