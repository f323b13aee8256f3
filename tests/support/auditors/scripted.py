"""A real HTTP server on loopback whose replies a test writes as a plain function."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec
import uvicorn

from auditors.clients.completion import HttpCompleter


class Reply(NamedTuple):
    """What the server answers; `delay` seconds later."""

    body: bytes
    status: int = 200
    headers: Mapping[str, str] = MappingProxyType({})
    delay: float = 0.0


class Asked(NamedTuple):
    """What a client sent."""

    path: str
    headers: dict[str, str]
    json: dict[str, Any]
    body: bytes = b""
    """The same as it came."""


class ScriptedServer:
    """An ASGI app that answers by its script and remembers what it was asked."""

    def __init__(self, script: Callable[[Asked], Reply]) -> None:
        self.script = script
        self.asked: list[Asked] = []
        self.in_flight = 0
        self.most_in_flight = 0
        self.gone = 0
        """Clients that left before their answer."""
        self.base_url = ""

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        self.asked.append(Asked(scope["path"], headers, msgspec.json.decode(body or b"{}"), body))
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        reply = self.script(self.asked[-1])
        is_gone = await _left_within(reply.delay, receive)
        self.in_flight -= 1
        if is_gone:
            self.gone += 1
            return
        sent = [(name.encode(), value.encode()) for name, value in reply.headers.items()]
        await send({"type": "http.response.start", "status": reply.status, "headers": sent})
        await send({"type": "http.response.body", "body": reply.body})


async def _left_within(seconds: float, receive: Any) -> bool:
    """Whether the client leaves in that time, which ends then."""
    if not seconds:
        return False
    leaving = asyncio.ensure_future(receive())  # after the body nothing comes but the disconnect
    await asyncio.wait({leaving}, timeout=seconds)
    return not leaving.cancel()


@asynccontextmanager
async def scripted_server(script: Callable[[Asked], Reply], *, port: int = 0) -> AsyncIterator[ScriptedServer]:
    """Serves on this port, or a free one, until the block ends."""
    app = ScriptedServer(script)
    with socket.create_server(("127.0.0.1", port)) as listener:
        app.base_url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        server = uvicorn.Server(uvicorn.Config(app, interface="asgi3", log_level="error", lifespan="off"))
        serving = asyncio.create_task(server.serve(sockets=[listener]))  # the listener queues what comes too early
        try:
            yield app
        finally:
            server.should_exit = True
            await serving


@asynccontextmanager
async def scripted_completer(
    script: Callable[[Asked], Reply], **options: Any
) -> AsyncIterator[tuple[HttpCompleter, ScriptedServer]]:
    """A completer that asks such a server, by default once, until the block ends; and the server."""
    async with scripted_server(script) as server:
        completer = HttpCompleter(server.base_url, **{"retries": 0, **options})
        try:
            yield completer, server
        finally:
            await completer.aclose()


def chat(content: str | None, **message: Any) -> Reply:
    """A chat completion with one choice."""
    choice = {"index": 0, "message": {"role": "assistant", "content": content, **message}, "finish_reason": "stop"}
    return Reply(msgspec.json.encode({"id": "c", "object": "chat.completion", "choices": [choice]}))
