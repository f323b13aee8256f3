"""A real gateway data plane on a real socket, with a tap and counters that only remember."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import httpx
import msgspec
import uvicorn

from auditors.types import Exchange
from gateway.config.loading import validate
from gateway.config.schema import Config
from gateway.features.mitigation.mitigation import mitigation_of
from gateway.proxy.data_plane import DataPlane
from gateway.proxy.outlier_detector import OutlierDetector
from gateway.proxy.protocol import make_protocol
from gateway.proxy.types import EndedRequest, FilteredReason, Sampled, SamplingRequest
from gateway.proxy.upstreams import Upstream
from tests.support.integration.scripted_upstream import Script, ScriptedUpstream, reply, scripted_upstream

SECRET = b"a secret of sixteen bytes or more"
"""Of the draws of arms."""


@dataclass
class RememberingTap:
    """Samples everything eligible when `samples` is set."""

    samples: bool = False
    probe_mark: str = "mark"
    """What it takes for the mark of a probe."""
    max_copy_bytes: int = 65536
    memory_bytes: int = 1 << 30
    """Of all copies in the making."""
    reserved_bytes: int = 0
    decisions: list[dict[str, Any]] = field(default_factory=list)
    offered: list[Exchange] = field(default_factory=list)
    dropped: list[tuple[str, str]] = field(default_factory=list)
    filtered: list[str] = field(default_factory=list)
    """Why those that were dropped as filtered were."""

    def decide(self, request: SamplingRequest) -> Sampled | None:
        self.decisions.append(msgspec.structs.asdict(request))
        return Sampled("other", 0.5) if self.samples and request.eligible else None

    def is_probe(self, request_id: str, mark: str, body: bytes) -> bool:
        return mark == self.probe_mark

    def reserve(self, size: int) -> bool:
        if self.reserved_bytes + size > self.memory_bytes:
            return False
        self.reserved_bytes += size
        return True

    def release(self, size: int) -> None:
        self.reserved_bytes -= size

    def offer(self, exchange: Exchange) -> None:
        self.offered.append(exchange)

    def drop(self, stratum: str, outcome: Literal["filtered", "truncated", "failed"]) -> None:
        self.dropped.append((stratum, outcome))

    def filtered_for(self, reason: FilteredReason) -> None:
        self.filtered.append(reason)


@dataclass
class RememberingStats:
    """Every call, in order; starts that were taken back are left out."""

    starts: list[str] = field(default_factory=list)
    ends: list[dict[str, Any]] = field(default_factory=list)
    evicted: list[tuple[str, int]] = field(default_factory=list)
    """Upstream and tokens of each audit that was cut off."""
    mitigations: list[tuple[str, str, str]] = field(default_factory=list)
    """Policy, action and outcome."""
    filter_seconds: list[tuple[str, str, float]] = field(default_factory=list)
    """Policy, action and how long it took."""

    def started(self, upstream: str) -> None:
        self.starts.append(upstream)

    def withdrawn(self, upstream: str) -> None:
        self.starts.remove(upstream)

    def audit_evicted(self, upstream: str, *, prompt_tokens: int, generation_tokens: int) -> None:
        self.evicted.append((upstream, prompt_tokens + generation_tokens))

    def mitigated(self, policy: str, action: str, outcome: str) -> None:
        self.mitigations.append((policy, action, outcome))

    def mitigation_took(self, policy: str, action: str, seconds: float) -> None:
        self.filter_seconds.append((policy, action, seconds))

    def ended(self, request: EndedRequest) -> None:
        self.ends.append(msgspec.structs.asdict(request))

    @property
    def outcomes(self) -> list[str]:
        return [end["outcome"] for end in self.ends]


@dataclass
class Gateway:
    """A running gateway, and what it told its surroundings."""

    port: int
    plane: DataPlane
    tap: RememberingTap
    stats: RememberingStats
    server: uvicorn.Server

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def http(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=self.base_url, trust_env=False, timeout=10)

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def exchange(self, request: bytes) -> bytes:
        """Sends bytes and returns all that comes until the gateway closes. Say `connection: close` in the request."""
        reader, writer = await self.connect()
        writer.write(request)
        answer = await reader.read(-1)
        writer.close()
        return answer

    async def ended(self, count: int = 1) -> None:
        """Waits until that many requests have ended."""
        await eventually(lambda: len(self.stats.ends) >= count)


async def eventually(condition: Callable[[], object], *, seconds: float = 5.0) -> None:
    """Waits until the condition holds, and fails when it does not in time."""
    deadline = time.monotonic() + seconds
    for _ in iter(lambda: bool(condition()), True):
        assert time.monotonic() < deadline, "it did not happen"
        await asyncio.sleep(0.002)


def believe_up(upstream: Upstream) -> None:
    """As if the upstream had been well until now: whatever is wrong with it, nobody has noticed, and it is next."""
    upstream.mark_up()
    upstream.outliers = OutlierDetector(upstream.config.ejection)
    upstream.weight = upstream.config.weight
    upstream.turn = -1.0


async def outside_app(scope: Any, receive: Any, send: Any) -> None:
    """The ASGI app beside the relay: answers with the path and the size of the body it was given."""
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    answer = f"app {scope['path']} {len(body)}".encode()
    await send({"type": "http.response.start", "status": 404, "headers": [(b"content-length", b"%d" % len(answer))]})
    await send({"type": "http.response.body", "body": answer})


def config_for(*upstreams: ScriptedUpstream, **sections: Any) -> Config:
    """A configuration with these upstreams, named up0, up1, ...; `timeouts` and `upstream` apply to each."""
    timeouts, extra = sections.pop("timeouts", {}), sections.pop("upstream", {})
    listed = [
        {"name": f"up{index}", "base_url": upstream.base_url, "timeouts": timeouts, **extra}
        for index, upstream in enumerate(upstreams)
    ]
    return validate({"upstreams": listed, **sections})


@asynccontextmanager
async def running_gateway(
    config: Config, *, tap: RememberingTap | None = None, drain_seconds: float = 0.0
) -> AsyncIterator[Gateway]:
    """uvicorn with the relay protocol, in this event loop."""
    tap, stats = tap or RememberingTap(), RememberingStats()
    plane = DataPlane(config, tap=tap, stats=stats, mitigation=mitigation_of(config, SECRET))
    await plane.start()
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(
        uvicorn.Config(outside_app, http=make_protocol(plane), lifespan="off", log_config=None, ws="none")
    )
    serving = asyncio.create_task(server._serve([listener]))
    try:
        await eventually(lambda: server.started)
        yield Gateway(listener.getsockname()[1], plane, tap, stats, server)
    finally:
        server.should_exit = True
        await plane.stop(drain_seconds)
        await serving


class Relay(NamedTuple):
    """A running gateway between an upstream and a client."""

    upstream: ScriptedUpstream
    gateway: Gateway
    http: httpx.AsyncClient


@asynccontextmanager
async def relaying(
    *answers: Script, default: Script | None = None, tap: RememberingTap | None = None, **sections: Any
) -> AsyncIterator[Relay]:
    """Run an upstream with these answers, a gateway of these sections before it, and a client of the gateway."""
    async with (
        scripted_upstream(*answers, default=default or reply()) as upstream,
        running_gateway(config_for(upstream, **sections), tap=tap) as gateway,
        gateway.http() as http,
    ):
        yield Relay(upstream, gateway, http)
