"""An upstream that streams: `python -m tools.bench.gateway.events PORT COUNT INTERVAL_SECONDS`.

A request for a stream gets COUNT server-sent events, one each INTERVAL, as chunks, in the shape of vLLM's; each says
when it left. Any other request gets the fixed reply once its body is complete.
"""

import asyncio
import sys
import time

import httptools
import uvloop

from tools.bench.upstream import MODELS, REPLY

HEAD = (
    b"HTTP/1.1 200 OK\r\nserver: uvicorn\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    b"x-accel-buffering: no\r\ntransfer-encoding: chunked\r\n\r\n"
)
EVENT = (
    b'data: {"id":"chatcmpl-0123456789abcdef","object":"chat.completion.chunk","created":1700000000,"model":"bench",'
    b'"choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}],"left":%.6f}\n\n'
)
LAST = b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"
SLOTS = 10
"""Into which one interval is cut, so that streams do not all move at once."""


class Streams:
    """Writes the next event of every stream when its slot comes."""

    def __init__(self, count: int, interval: float) -> None:
        self._count = count
        self._interval = interval
        self._slots: list[dict[Connection, int]] = [{} for _ in range(SLOTS)]
        self._next = 0

    def add(self, connection: "Connection") -> None:
        self._next = (self._next + 1) % SLOTS
        self._slots[self._next][connection] = self._count

    def remove(self, connection: "Connection") -> None:
        for slot in self._slots:
            slot.pop(connection, None)

    async def run(self) -> None:
        due, turn = time.monotonic(), 0
        while True:
            self._advance(self._slots[turn % SLOTS])
            turn += 1
            due += self._interval / SLOTS
            now = time.monotonic()
            if now > due + self._interval:
                due = now  # behind: the pace is what this machine can do
            await asyncio.sleep(max(0.0, due - now))

    def _advance(self, slot: "dict[Connection, int]") -> None:
        event = EVENT % time.monotonic()
        chunk = b"%x\r\n%b\r\n" % (len(event), event)
        for connection, left in list(slot.items()):
            if left:
                slot[connection] = left - 1
                connection.transport.write(chunk)
            else:
                del slot[connection]
                connection.transport.write(LAST)


class Connection(asyncio.Protocol):
    """Reads requests with llhttp."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self._parser = httptools.HttpRequestParser(self)
        self._wants_stream = False
        self._path = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: asyncio.Transport = transport  # type: ignore[assignment]  # uvloop's are not asyncio's

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_begin(self) -> None:
        self._wants_stream = False
        self._path = b""

    def on_url(self, url: bytes) -> None:
        self._path += url

    def on_body(self, body: bytes) -> None:
        self._wants_stream = self._wants_stream or b'"stream":true' in body

    def on_message_complete(self) -> None:
        if self._wants_stream:
            self.transport.write(HEAD)
            self._streams.add(self)
            return
        body = {b"/v1/models": MODELS, b"/health": ""}.get(self._path, REPLY).encode()
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
        self.transport.write(head + body)

    def connection_lost(self, exc: Exception | None) -> None:
        self._streams.remove(self)


async def serve(port: int, count: int, interval: float) -> None:
    streams = Streams(count, interval)
    await asyncio.get_running_loop().create_server(lambda: Connection(streams), "127.0.0.1", port, backlog=4096)
    await streams.run()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))
