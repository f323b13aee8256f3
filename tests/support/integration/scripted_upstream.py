"""An upstream on a real socket: it records each request and answers with the next script, byte by byte."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass
class ReceivedRequest:
    """One request as it came off the wire."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    """Lower-case names, in order."""
    body: bytes
    connection: int
    """Number of the connection it came on, from 0."""

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key == name), None)


@dataclass
class Channel:
    """What a script may do with its connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    is_open: bool = True

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def send_bytewise(self, data: bytes, size: int = 1) -> None:
        """In pieces of `size` bytes, each given the time to travel alone."""
        for start in range(0, len(data), size):
            await self.send(data[start : start + size])
            await asyncio.sleep(0)

    async def close(self) -> None:
        self.is_open = False
        self.writer.close()

    def reset(self) -> None:
        self.is_open = False
        self.writer.transport.abort()


Script = Callable[[ReceivedRequest, Channel], Awaitable[None]]


def reply(
    body: bytes = b'{"ok": true}', status: str = "200 OK", headers: bytes = b"content-type: application/json\r\n"
) -> Script:
    """A whole response with a content-length."""
    return raw(b"HTTP/1.1 %b\r\n%bcontent-length: %d\r\n\r\n%b" % (status.encode(), headers, len(body), body))


def raw(data: bytes, *, then_close: bool = False) -> Script:
    """These bytes, in one piece."""

    async def script(_: ReceivedRequest, channel: Channel) -> None:
        await channel.send(data)
        if then_close:
            await channel.close()

    return script


@dataclass
class ScriptedUpstream:
    """Records what it is asked; `scripts` are used up in order, then `default` answers."""

    default: Script = field(default_factory=reply)
    scripts: list[Script] = field(default_factory=list)
    models: bytes = b'{"object": "list", "data": [{"id": "m", "object": "model", "created": 1, "owned_by": "vllm"}]}'
    is_healthy: bool = True
    has_health: bool = True
    on_check: Script | None = None
    """Answers the gateway's health checks in place of what the fields above say."""
    requests: list[ReceivedRequest] = field(default_factory=list)
    connections: int = 0
    port: int = 0
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set each time a connection that carried a request ends."""
    open_writers: set[asyncio.StreamWriter] = field(default_factory=set)
    server: asyncio.Server | None = None

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number, is_check = self.connections, False
        self.connections += 1
        channel = Channel(reader, writer)
        self.open_writers.add(writer)
        try:
            while channel.is_open and (request := await read_request(reader, number)):
                is_check = await self._answer_check(request, channel)
                if not is_check:
                    self.requests.append(request)
                    script = self.scripts.pop(0) if self.scripts else self.default
                    await self._run(script, request, channel)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            if not is_check:
                self.closed.set()
            self.open_writers.discard(writer)
            writer.close()

    def die(self) -> None:
        """As a killed process: nothing listens any more, and every connection is reset."""
        if self.server is not None:
            self.server.close()
        for writer in list(self.open_writers):
            writer.transport.abort()

    async def _run(self, script: Script, request: ReceivedRequest, channel: Channel) -> None:
        await script(request, channel)

    async def _answer_check(self, request: ReceivedRequest, channel: Channel) -> bool:
        """The gateway's health checks are answered apart, so that they use up no script."""
        if request.header("user-agent") != "biasgate-health":
            return False
        if self.on_check is not None:
            await self._run(self.on_check, request, channel)
        elif request.target == "/health" and not self.has_health:
            await reply(b"", "404 Not Found")(request, channel)
        elif request.target == "/health":
            await reply(b"", "200 OK" if self.is_healthy else "503 Service Unavailable")(request, channel)
        else:
            await reply(self.models)(request, channel)
        return True


async def read_request(reader: asyncio.StreamReader, connection: int) -> ReceivedRequest | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")[:-2]
    method, target, _ = first.split(" ")
    headers = [(name.lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines)]
    request = ReceivedRequest(method, target, headers, b"", connection)
    request.body = await reader.readexactly(int(request.header("content-length") or 0))
    return request


@asynccontextmanager
async def scripted_upstream(
    *scripts: Script, default: Script | None = None, port: int = 0, tls: ssl.SSLContext | None = None
) -> AsyncIterator[ScriptedUpstream]:
    """A running upstream."""
    upstream = ScriptedUpstream(default=default or reply(), scripts=list(scripts))
    server = await asyncio.start_server(upstream.serve, "127.0.0.1", port, ssl=tls)
    upstream.server = server
    upstream.port = server.sockets[0].getsockname()[1]
    try:
        yield upstream
    finally:
        server.close()
