"""Two gateways on one store, replaced one after the other under clients that always have a hundred streams open."""

import asyncio
import contextlib
import random
import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import msgspec
import pytest

from benchmarks.simulator.loading import load
from gateway.store import ledger
from gateway.store.database import Database
from tests.support.integration.auditing import until
from tests.support.integration.load import COMPLETIONS
from tests.support.integration.serving import Command, closed, command
from tests.support.processes import free_port
from tests.support.simulated import running_simulator
from tests.support.waiting import eventually

pytestmark = pytest.mark.long

STREAMS = 100
NOTICE_SECONDS = 2
"""Ten times what the clients' balancer takes to see that a gateway is not ready."""
PROBE_SECONDS = 0.2


@dataclass
class Balancer:
    """The gateways that may be asked: those whose /readyz was good a moment ago."""

    ports: list[int]
    ready: set[int] = field(default_factory=set)

    async def probe(self, port: int) -> None:
        while True:
            try:
                async with httpx.AsyncClient(trust_env=False, timeout=30) as http:
                    answer = await http.get(f"http://127.0.0.1:{port}/readyz")
                is_ready = answer.status_code == 200
            except httpx.TransportError:
                is_ready = False
            (self.ready.add if is_ready else self.ready.discard)(port)
            await asyncio.sleep(PROBE_SECONDS)


@dataclass
class Crowd:
    """Clients that each have one stream after another, and what became of all of them."""

    balancer: Balancer
    open: Counter[int] = field(default_factory=Counter)
    """Streams whose first event was read and that are not over, by port."""
    whole: int = 0
    refused: int = 0
    cut: list[str] = field(default_factory=list)
    stopping: bool = False

    async def ask(self, rng: random.Random) -> None:
        while not self.stopping:
            if not self.balancer.ready:
                await asyncio.sleep(PROBE_SECONDS)
                continue
            port = rng.choice(sorted(self.balancer.ready))
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=120) as http:
                try:
                    await self._stream(http, port)
                except httpx.ConnectError:
                    self.refused += 1  # nothing was sent: the next turn asks the other
                except httpx.HTTPError as exc:
                    self.cut.append(f"{port}: {exc!r}")

    async def _stream(self, http: httpx.AsyncClient, port: int) -> None:
        asked = {"model": "simulated", "stream": True, "messages": [{"role": "user", "content": "Tell me a story."}]}
        async with http.stream("POST", COMPLETIONS, json=asked) as answer:
            chunks = answer.aiter_raw()
            text = await anext(chunks)
            self.open[port] += 1
            try:
                async for chunk in chunks:
                    text += chunk
            finally:
                self.open[port] -= 1
        if answer.status_code == 200 and text.endswith(b"data: [DONE]\n\n") and b'"error"' not in text:
            self.whole += 1
        else:
            self.cut.append(f"{port}: {answer.status_code} ...{text[-120:]!r}")


@asynccontextmanager
async def crowd(ports: list[int]) -> AsyncIterator[Crowd]:
    """Runs until the block ends; then every stream that is open is read to its end."""
    found = Crowd(Balancer(ports))
    probing = [asyncio.create_task(found.balancer.probe(port)) for port in ports]
    asking = [asyncio.create_task(found.ask(random.Random(number))) for number in range(STREAMS)]
    try:
        yield found
        found.stopping = True
        await asyncio.gather(*asking)
    finally:
        for task in (*probing, *asking):
            task.cancel()
        await asyncio.gather(*probing, *asking, return_exceptions=True)


def configured(directory: Path, upstream: str, store: str) -> Path:
    path = directory / "biasgate.toml"
    path.write_text(
        f'[store]\nurl = "{store}"\n[[upstreams]]\nname = "up"\nbase_url = "{upstream}"\n'
        f"[server]\ndrain_seconds = 120\ndrain_notice_seconds = {NOTICE_SECONDS}\n[sampling]\nrate = 1.0\n"
    )
    return path


async def started(stack: contextlib.AsyncExitStack, config: Path, port: int) -> Command:
    running = await stack.enter_async_context(command("gateway", "--config", str(config), "--port", str(port)))
    await running.line("biasgate is ready")
    return running


@pytest.mark.parametrize("store_url", [pytest.param("postgresql", marks=pytest.mark.postgres)], indirect=True)
async def test_replacing_two_gateways_cuts_no_stream(tmp_path: Path, store_url: str) -> None:
    """Each old one is told to stop while half of a hundred streams run on it, ends well, and nothing is cut or lost."""
    slow = load("default")
    slow = msgspec.structs.replace(slow, latency=msgspec.structs.replace(slow.latency, tokens_per_second=8))
    ports = [free_port(), free_port()]
    was_open: list[int] = []
    async with running_simulator(slow) as upstream, contextlib.AsyncExitStack() as stack:
        config = configured(tmp_path, upstream, store_url)
        old = [await started(stack, config, port) for port in ports]
        async with crowd(ports) as clients:
            for port, gateway in zip(ports, old, strict=True):
                await eventually(lambda: min(clients.open[one] for one in ports) >= STREAMS // 4, within_seconds=120)
                await eventually(lambda: clients.open.total() >= STREAMS * 9 // 10, within_seconds=120)
                was_open.append(clients.open[port])
                gateway.process.send_signal(signal.SIGTERM)
                await closed(port)
                await started(stack, config, port)
                await eventually(lambda port=port: port in clients.balancer.ready, within_seconds=60)  # type: ignore[misc]
            codes = [await gateway.exit_code() for gateway in old]
        await eventually_stored(store_url, clients.whole)

    assert clients.cut == []
    assert codes == [0, 0]
    assert min(was_open) >= STREAMS // 4
    assert clients.whole >= 2 * STREAMS


async def eventually_stored(url: str, count: int) -> None:
    """Wait until the ledger has as many exchanges as there were whole answers, and no more."""
    database = await Database.open(url, migrate=False)

    async def is_stored() -> bool:
        return sum((await ledger.counts(database)).values()) >= count

    await until(is_stored, within_seconds=60)
    assert sum((await ledger.counts(database)).values()) == count
    await database.close()
