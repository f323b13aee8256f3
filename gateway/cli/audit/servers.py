"""Opens and closes the clients that a suite run needs: the model's, the judge's, the embedder's."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import NamedTuple

from auditors.clients.embedders import EmbedderError, RemoteEmbedder, load_embedder
from auditors.clients.pacing import OPEN, Gate
from auditors.types import Completer, Embedder
from benchmarks.errors import BenchmarkError, RunStopped
from benchmarks.run import client
from benchmarks.run.directory import Manifest
from benchmarks.run.plan import Plan
from benchmarks.run.runner import AUTO_CONCURRENCY
from benchmarks.run.stopping import in_thread
from gateway.auditor.backpressure.limiter import ConcurrencyLimiter
from gateway.auditor.backpressure.stoppable_gate import StoppableGate
from gateway.cli.audit.jobs import api_key
from gateway.config.schema import AuditsConfig


class Servers(NamedTuple):
    completer: Completer
    judge: Completer | None
    """None: the model's own server."""
    embedder: Embedder | None


@asynccontextmanager
async def opened(
    plan: Plan, about: Manifest, stop: asyncio.Event, stopped: Callable[[], RunStopped]
) -> AsyncIterator[Servers]:
    """What one run needs, and no more. What a gateway holds back when `stop` is set ends with what `stopped` makes.

    Raises: BenchmarkError for a wrong URL, key or embedder.
    """
    async with AsyncExitStack() as stack:
        gate: Gate = OPEN
        if about.through_gateway:
            gate = StoppableGate(await _paced_by_answers(stack, plan), stop, stopped)
        completer = _client(plan, about.base_url or "", about.api_key_env, gate, through_gateway=about.through_gateway)
        stack.push_async_callback(completer.aclose)
        judge = None
        if plan.suite.needs_judge and about.judge_base_url is not None:
            judge = _client(plan, about.judge_base_url, about.judge_api_key_env, OPEN, through_gateway=False)
            stack.push_async_callback(judge.aclose)
        embedder = await _embedder(plan, about)
        if isinstance(embedder, RemoteEmbedder):
            stack.push_async_callback(embedder.aclose)
        yield Servers(completer, judge, embedder)


class _NoGauges:
    """The `LoadSource` of a gateway: what it says is in its answers."""

    async def poll(self) -> None:
        return None

    async def aclose(self) -> None:
        """Nothing is open."""


async def _paced_by_answers(stack: AsyncExitStack, plan: Plan) -> ConcurrencyLimiter:
    """Fewer requests in flight while a gateway turns audits away, then slowly as many as ever."""
    limiter = ConcurrencyLimiter(_NoGauges(), AuditsConfig())
    limiter.widen(plan.options.concurrency or AUTO_CONCURRENCY)
    stack.push_async_callback(limiter.aclose)
    return limiter


def _client(plan: Plan, base_url: str, key_variable: str | None, gate: Gate, *, through_gateway: bool) -> Completer:
    return client.open_client(
        base_url,
        api_key(key_variable),
        plan.options.concurrency or AUTO_CONCURRENCY,
        headers=client.GATEWAY_HEADERS if through_gateway else None,
        gate=gate,
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
