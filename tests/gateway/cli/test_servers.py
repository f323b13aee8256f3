"""Whom a run on the command line asks, and how much at once."""

import asyncio
from collections.abc import Sequence

import pytest

from auditors.types import CompletionRequest, Message
from benchmarks.errors import RunStopped
from benchmarks.run import directory
from benchmarks.run.plan import prepare
from benchmarks.run.runner import RunOptions
from gateway.cli.audit.servers import opened
from tests.support.auditors.scripted import Asked, Reply, chat, scripted_server

REQUEST = CompletionRequest(model="judge", messages=[Message("user", "Hi")], max_tokens=5)


def slowly(asked: Asked) -> Reply:
    return Reply(b"", 404) if asked.path == "/metrics" else chat("Hello")._replace(delay=0.2)


@pytest.mark.parametrize(("concurrency", "most"), [(None, range(2, 33)), (48, [48])])
async def test_a_judge_of_its_own_is_not_flooded(concurrency: int | None, most: Sequence[int]) -> None:
    """A judge that shows no gauges, such as a public API, gets more requests at once as it answers them, from one on;
    or the number that the user gave.
    """
    plan = prepare(
        RunOptions(suite="ltf_test", model="m", data="embedded", judge_model="judge", concurrency=concurrency)
    )
    async with scripted_server(slowly) as server:
        about = directory.manifest(plan, base_url="http://127.0.0.1:1", judge_base_url=server.base_url)
        async with opened(plan, about, asyncio.Event(), lambda: RunStopped(0, 1)) as servers:
            assert servers.judge is not None
            await asyncio.gather(*(servers.judge.complete(REQUEST) for _ in range(64)))

    assert server.most_in_flight in most
