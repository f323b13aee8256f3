"""The few lines of ASGI that the simulator needs: read a body, send JSON and events, give up when the client leaves."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, MutableMapping
from contextlib import suppress
from typing import Any

import msgspec

from benchmarks.simulator.engine import Engine
from benchmarks.simulator.text_request import Asked

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class ClientGone(Exception):
    """The client closed its connection before the reply was complete."""


class Call:
    """One HTTP request."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self._receive = receive
        self._send = send

    async def body(self) -> bytes:
        chunks = []
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            chunks.append(message.get("body", b""))
            if not message.get("more_body", False):
                return b"".join(chunks)

    async def unless_gone(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs `work` to its end, or cancels it when the client disconnects first. Raises ClientGone."""
        task = asyncio.ensure_future(work)
        watch = asyncio.ensure_future(self._disconnected())
        try:
            await asyncio.wait((task, watch), return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise ClientGone
            await task
        finally:
            for unfinished in (task, watch):
                unfinished.cancel()
                with suppress(asyncio.CancelledError, Exception):
                    await unfinished

    async def _disconnected(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def json(self, value: Any, status: int = 200) -> None:
        await self.reply(msgspec.json.encode(value), "application/json", status)

    async def reply(self, body: bytes, content_type: str, status: int = 200) -> None:
        headers = [(b"content-length", str(len(body)).encode()), (b"content-type", content_type.encode())]
        await self._send({"type": "http.response.start", "status": status, "headers": headers})
        await self._send({"type": "http.response.body", "body": body})

    async def events(self, events: AsyncIterator[bytes]) -> None:
        """Server-sent events, one body message each."""
        headers = [(b"content-type", b"text/event-stream; charset=utf-8")]
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        async for event in events:
            await self._send({"type": "http.response.body", "body": event, "more_body": True})
        await self._send({"type": "http.response.body", "body": b""})


async def attend(engine: Engine, call: Call, request: Asked, work: Callable[[], Awaitable[None]]) -> None:
    """Runs `work` in a slot. Raises ClientGone when the client left before the end."""

    async def in_slot() -> None:
        async with engine.slot(request):
            await work()

    await (in_slot() if engine.immediate else call.unless_gone(in_slot()))
