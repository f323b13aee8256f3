"""What several time limits end at once, and the connections that are left."""

import asyncio
import contextlib
from collections.abc import Coroutine, Iterable
from typing import Any

import httpx
import pytest

from auditors.clients import cancellation
from auditors.clients.cancellation import all_of, cancelled_once
from auditors.clients.completion import HttpEndpoint
from auditors.types import CompletionError
from gateway.config.loading import validate
from gateway.proxy.health import UpstreamMonitor
from gateway.proxy.upstreams import Upstreams
from tests.support.auditors.scripted import ScriptedServer, chat, scripted_server

AT_ONCE = 3
HANGS = chat("too late")._replace(delay=60.0)


async def interrupted(server: ScriptedServer, *requests: asyncio.Task[object]) -> None:
    """The helper waits until the hanging server has all requests, then cancels each in several loop steps in a row."""
    while server.in_flight < len(requests):  # noqa: ASYNC110 - the server counts, no event tells
        await asyncio.sleep(0.001)
    for _ in range(5):
        for request in requests:
            request.cancel()
        await asyncio.sleep(0)
    await asyncio.gather(*requests, return_exceptions=True)


async def left(server: ScriptedServer) -> int:
    """Connections on which the server still waits."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(2.0):
            while server.in_flight:  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.01)
    return server.in_flight


async def test_a_server_that_hung_is_asked_again_when_it_is_well() -> None:
    """However many requests were cut short before, more of them than there may be connections."""
    async with scripted_server(lambda _: HANGS) as server:
        endpoint = HttpEndpoint(server.base_url, timeout=10.0, retries=0, max_concurrency=AT_ONCE)
        for _ in range(2):
            posts = (endpoint.post("/v1/chat/completions", b"{}") for _ in range(AT_ONCE))
            await interrupted(server, *map(asyncio.create_task, posts))
            assert await left(server) == 0
        server.script = lambda _: chat("well")
        assert b"well" in await endpoint.post("/v1/chat/completions", b"{}")
        await endpoint.aclose()


async def test_a_check_of_health_leaves_no_connection() -> None:
    """One that is cut short closes its connection: an upstream that hangs is checked for hours."""
    async with scripted_server(lambda _: HANGS) as server, httpx.AsyncClient() as http:
        [upstream] = Upstreams(validate({"upstreams": [{"name": "u", "base_url": server.base_url}]})).all
        await interrupted(server, asyncio.create_task(UpstreamMonitor(upstream, http).check()))
        assert await left(server) == 0


async def test_passes_one_cancellation_on() -> None:
    """The work closes what it has open undisturbed, and is waited for."""
    caught = 0
    closed = asyncio.Event()

    async def work() -> None:
        nonlocal caught
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            caught += 1
            await asyncio.sleep(0.05)  # closes something
            closed.set()
            raise

    running = asyncio.create_task(cancelled_once(work()))
    await asyncio.sleep(0)
    for _ in range(3):
        running.cancel()
        await asyncio.sleep(0.01)
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (caught, closed.is_set()) == (1, True)


@pytest.mark.parametrize("ends", ["cancelled", "failed"])
async def test_several_end_before_their_caller(ends: str) -> None:
    """When all are cancelled, or one fails, the slowest has closed what it holds before the caller goes on."""
    closed: list[int] = []

    async def work(steps: int) -> None:
        try:
            await asyncio.sleep(0.01 if ends == "failed" and not steps else 60)
            raise CompletionError("timeout", "too late")
        finally:
            for _ in range(steps):
                await asyncio.sleep(0)
            closed.append(steps)

    running = asyncio.create_task(_all(work(steps) for steps in (0, 3, 9)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    if ends == "cancelled":
        running.cancel()
    with pytest.raises(asyncio.CancelledError if ends == "cancelled" else CompletionError):
        await running
    assert closed == [0, 3, 9]


async def test_several_that_wait_for_connections_leave_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cancelled at any step of connecting and asking, nothing runs on once their client may be closed."""
    monkeypatch.setattr(cancellation, "AGAIN_SECONDS", 0.2)
    async with scripted_server(lambda _: HANGS) as server:
        before = asyncio.all_tasks()
        for step in range(20):
            endpoint = HttpEndpoint(server.base_url, timeout=50.0, retries=0)
            asked = asyncio.create_task(_all(_late(endpoint, late) for late in range(4)))
            for _ in range(step):
                await asyncio.sleep(0)
            asked.cancel()
            async with asyncio.timeout(30.0):  # not the server's 60 s: a lost cancellation comes again
                with pytest.raises(asyncio.CancelledError):
                    await asked
            assert not [one for one in asyncio.all_tasks() - before if "HttpEndpoint" in repr(one)]
            await endpoint.aclose()
        assert await left(server) == 0


async def _late(endpoint: HttpEndpoint, steps: int) -> bytes:
    for _ in range(steps):
        await asyncio.sleep(0)
    return await endpoint.post("/v1/chat/completions", b"{}")


async def _all(work: Iterable[Coroutine[Any, Any, object]]) -> None:
    await all_of(work)
