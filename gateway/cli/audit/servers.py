"""Opens and closes the clients that a suite run needs: the model's, the judge's, the embedder's."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import NamedTuple

import msgspec

from auditors.clients.embedders import EmbedderError, RemoteEmbedder, load_embedder
from auditors.clients.pacing import OPEN, Gate
from auditors.clients.single_request import NoAnswerError, request
from auditors.text.visible import visible_line
from auditors.types import Completer, Embedder
from benchmarks.datasets import published
from benchmarks.errors import BenchmarkError, RunStopped
from benchmarks.run import client
from benchmarks.run.completers.probe_cache import FOLDER, ProbeCache
from benchmarks.run.completers.reply_cache import ReplyCache
from benchmarks.run.directory import Manifest
from benchmarks.run.plan import Plan
from benchmarks.run.runner import AUTO_CONCURRENCY
from benchmarks.run.stopping import in_thread
from gateway.auditor.backpressure.filling import MOST_IN_FLIGHT, FillingGate, FillingLimit
from gateway.auditor.backpressure.limiter import ConcurrencyLimiter
from gateway.auditor.backpressure.stoppable_gate import StoppableGate
from gateway.auditor.backpressure.vllm_load import LoadReader
from gateway.auditor.suites.pooled_endpoint import endpoint_for
from gateway.cli.audit.jobs import api_key
from gateway.config.schema import AuditsConfig
from gateway.health import Readiness

READY_SECONDS, LONGEST_READY_BYTES = 5.0, 65_536


@asynccontextmanager
async def asking(
    base_url: str, key_variable: str | None, in_flight: int, *, headers: Mapping[str, str] | None = None
) -> AsyncIterator[client.SuiteClient]:
    """A client of a server, of so many requests at once. Raises BenchmarkError where the variable is not set."""
    key, endpoint = api_key(key_variable), endpoint_for(base_url)
    completer = client.open_client(base_url, key, in_flight, headers=headers, endpoint=endpoint)
    try:
        yield completer
    finally:
        await completer.aclose()


class Servers(NamedTuple):
    completer: Completer
    judge: Completer | None
    """Client of the judge; None where the suite has no judge."""
    embedder: Embedder | None
    in_flight: int
    """Requests at most; the gate of the completer lets fewer through."""


@asynccontextmanager
async def opened(
    plan: Plan,
    about: Manifest,
    stop: asyncio.Event,
    stopped: Callable[[], RunStopped],
    *,
    replies_before: float | None = None,
    has_probe_cache: bool = True,
) -> AsyncIterator[Servers]:
    """Open the clients that a run needs; held-back requests end with `stopped` when `stop` is set. Replies before
    `replies_before` (Unix seconds; None: none) are used again. Raises BenchmarkError for a wrong URL, key or embedder.
    """
    async with AsyncExitStack() as stack:
        gate: Gate = OPEN
        if about.through_gateway:
            origin = (about.base_url or "").rstrip("/").removesuffix("/v1").rstrip("/")
            try:
                answer = await request("GET", f"{origin}/readyz", seconds=READY_SECONDS, longest=LONGEST_READY_BYTES)
                msgspec.json.decode(answer.content, type=Readiness)
            except (NoAnswerError, msgspec.DecodeError) as exc:
                line = f"{origin}/readyz does not answer as a gateway does ({exc}): the run may not give way to live"
                print(visible_line(f"{line} traffic"), file=sys.stderr)
            limiter = ConcurrencyLimiter(_NoGauges(), AuditsConfig())  # fewer while a gateway turns audits away
            limiter.widen(plan.options.concurrency or AUTO_CONCURRENCY)
            stack.push_async_callback(limiter.aclose)
            gate = StoppableGate(limiter, stop, stopped)
        elif plan.options.concurrency is None:
            gate = _filling(stack, about.base_url or "", about.api_key_env, stop, stopped)
        completer = _client(plan, about.base_url or "", about.api_key_env, gate, through_gateway=about.through_gateway)
        stack.push_async_callback(completer.aclose)
        asking: Completer
        if replies_before is not None and plan.options.mode == "sample":
            asking = ReplyCache(completer, about.base_url or "", published.home() / "replies", before=replies_before)
        elif has_probe_cache and not about.through_gateway:
            asking = ProbeCache(completer, about.base_url or "", completer.began, published.home() / FOLDER)
        else:
            asking = completer
        judge = completer if plan.suite.needs_judge else None
        if plan.suite.needs_judge and about.judge_base_url is not None:
            gate = OPEN
            if plan.options.concurrency is None:
                gate = _filling(stack, about.judge_base_url, about.judge_api_key_env, stop, stopped)
            judge = _client(plan, about.judge_base_url, about.judge_api_key_env, gate, through_gateway=False)
            stack.push_async_callback(judge.aclose)
        embedder = await _embedder(plan, about)
        if isinstance(embedder, RemoteEmbedder):
            stack.push_async_callback(embedder.aclose)
        yield Servers(asking, judge, embedder, in_flight(plan, through_gateway=about.through_gateway))


def in_flight(plan: Plan, *, through_gateway: bool) -> int:
    """Most requests of a run in flight; of `auto`, the growth limit of a server, or a gateway's fixed number."""
    return plan.options.concurrency or (AUTO_CONCURRENCY if through_gateway else MOST_IN_FLIGHT)


def _filling(
    stack: AsyncExitStack,
    base_url: str,
    key_variable: str | None,
    stop: asyncio.Event,
    stopped: Callable[[], RunStopped],
) -> FillingGate:
    """Opens a gate that lets as many requests through as keep this server full, unless the user said how many."""
    origin = base_url.rstrip("/").removesuffix("/v1").rstrip("/")
    gate = FillingGate(LoadReader(origin, api_key(key_variable)), FillingLimit(), stop, stopped)
    stack.push_async_callback(gate.aclose)
    return gate


class _NoGauges:
    """The `LoadSource` of a gateway: what it says is in its answers."""

    async def poll(self) -> None:
        return None

    async def aclose(self) -> None:
        """Nothing is open."""


def _client(
    plan: Plan, base_url: str, key_variable: str | None, gate: Gate, *, through_gateway: bool
) -> client.SuiteClient:
    return client.open_client(
        base_url,
        api_key(key_variable),
        in_flight(plan, through_gateway=through_gateway),
        headers=client.GATEWAY_HEADERS if through_gateway else None,
        gate=gate,
        endpoint=endpoint_for(base_url),
    )


async def _embedder(plan: Plan, about: Manifest) -> Embedder | None:
    name = plan.options.embedder
    if not plan.suite.needs_embedder or name is None:
        return None
    if about.embedder_base_url is not None:
        return RemoteEmbedder(about.embedder_base_url, name)
    try:
        return await in_thread(load_embedder, name)
    except EmbedderError as exc:
        raise BenchmarkError(str(exc)) from exc
