"""Many streams held open at once, and which worker process each of them is on."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.support.integration.load import CHAT, COMPLETIONS
from tests.support.integration.scripted_upstream import Channel, ReceivedRequest, Script

WHOLE = b"data: a\n\ndata: b\n\n"


def held(release: asyncio.Event) -> Script:
    """An upstream's stream of two events, of which the second waits to be released."""

    async def script(_: ReceivedRequest, channel: Channel) -> None:
        await channel.send(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        await channel.send(b"9\r\ndata: a\n\n\r\n")
        await release.wait()
        await channel.send(b"9\r\ndata: b\n\n\r\n0\r\n\r\n")

    return script


@dataclass
class Stream:
    """One stream, its first event read."""

    chunks: AsyncIterator[bytes]
    first: bytes
    port: int
    """Of the client's end."""

    async def rest(self) -> bytes | None:
        """Everything, once it is over; None when the connection broke."""
        try:
            return self.first + b"".join([chunk async for chunk in self.chunks])
        except httpx.HTTPError:
            return None


@asynccontextmanager
async def open_streams(root: str) -> AsyncIterator["Streams"]:
    async with AsyncExitStack() as stack:
        yield Streams(root, stack)


@dataclass
class Streams:
    root: str
    _stack: AsyncExitStack

    async def open(self) -> Stream:
        """One more, on a connection of its own."""
        http = await self._stack.enter_async_context(
            httpx.AsyncClient(base_url=self.root, verify=False, trust_env=False, timeout=60)
        )
        response = await self._stack.enter_async_context(http.stream("POST", COMPLETIONS, json=CHAT))
        chunks = response.aiter_raw()
        first = await anext(chunks)
        return Stream(chunks, first, response.extensions["network_stream"].get_extra_info("client_addr")[1])


def served_by(pid: int) -> set[int]:
    """Client ports of the TCP connections that a process has open (Linux)."""
    sockets = {link.readlink().name for link in Path(f"/proc/{pid}/fd").iterdir() if link.is_symlink()}
    ports = set()
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        words = line.split()
        if f"socket:[{words[9]}]" in sockets:
            ports.add(int(words[2].split(":")[1], 16))
    return ports
