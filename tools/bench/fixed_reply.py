"""A server that answers every request with the same reply: stands in where nginx is not installed."""

import asyncio
import sys

import httptools
import uvloop

from tools.bench.upstream import MODELS, REPLY


class FixedReply(asyncio.Protocol):
    """Keep-alive HTTP/1.1; looks at nothing but the path."""

    def __init__(self) -> None:
        self._parser = httptools.HttpRequestParser(self)
        self._path = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]  # uvloop's are not asyncio's

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        self._path = url

    def on_message_complete(self) -> None:
        body = {b"/v1/models": MODELS, b"/health": ""}.get(self._path, REPLY).encode()
        head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        self._transport.write(head.encode() + body)


async def serve(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(FixedReply, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
