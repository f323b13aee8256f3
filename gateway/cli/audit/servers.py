"""Opens and closes the clients that a suite run needs: the model's, the judge's, the embedder's."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import NamedTuple

from auditors.clients.embedders import EmbedderError, RemoteEmbedder, load_embedder
from auditors.types import Completer, Embedder
from benchmarks.errors import BenchmarkError
from benchmarks.run import client
from benchmarks.run.directory import Manifest
from benchmarks.run.plan import Plan
from benchmarks.run.runner import AUTO_CONCURRENCY
from gateway.cli.audit.jobs import api_key


class Servers(NamedTuple):
    completer: Completer
    judge: Completer | None
    """None: the model's own server."""
    embedder: Embedder | None


@asynccontextmanager
async def opened(plan: Plan, about: Manifest) -> AsyncIterator[Servers]:
    """What one run needs, and no more. Raises BenchmarkError for a wrong URL, key or embedder."""
    async with AsyncExitStack() as stack:
        completer = _client(plan, about.base_url or "", about.api_key_env, through_gateway=about.through_gateway)
        stack.push_async_callback(completer.aclose)
        judge = None
        if plan.suite.needs_judge and about.judge_base_url is not None:
            judge = _client(plan, about.judge_base_url, about.judge_api_key_env, through_gateway=False)
            stack.push_async_callback(judge.aclose)
        embedder = await _embedder(plan, about)
        if isinstance(embedder, RemoteEmbedder):
            stack.push_async_callback(embedder.aclose)
        yield Servers(completer, judge, embedder)


def _client(plan: Plan, base_url: str, key_variable: str | None, *, through_gateway: bool) -> Completer:
    return client.open_client(
        base_url,
        api_key(key_variable),
        plan.options.concurrency or AUTO_CONCURRENCY,
        headers=client.GATEWAY_HEADERS if through_gateway else None,
    )


async def _embedder(plan: Plan, about: Manifest) -> Embedder | None:
    name = plan.options.embedder
    if not plan.suite.needs_embedder or name is None:
        return None
    if about.embedder_base_url is not None:
        return RemoteEmbedder(about.embedder_base_url, name)
    try:
        return await asyncio.to_thread(load_embedder, name)
    except EmbedderError as exc:
        raise BenchmarkError(str(exc)) from exc
