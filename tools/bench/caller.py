"""A client connection for measurements: keep-alive HTTP/1.1 without a library between it and the socket."""

import asyncio
import json
from typing import NamedTuple

from tools.bench.upstream import MODEL


class Answer(NamedTuple):
    """What came back, whole."""

    status: int
    headers: dict[str, str]
    body: bytes


def chat(*, stream: bool = False, model: str = MODEL) -> bytes:
    """A chat request's body."""
    return json.dumps({"model": model, "messages": [{"role": "user", "content": "?"}], "stream": stream}).encode()


class Caller:
    """One connection to one server. Use it for one request at a time."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def post(self, body: bytes, path: str = "/v1/chat/completions") -> Answer:
        """One request; connects when there is no connection. Raises OSError or EOFError."""
        if self._reader is None or self._writer is None or self._reader.at_eof():
            self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._writer.write(b"POST %b HTTP/1.1\r\nhost: g\r\ncontent-length: %d\r\n\r\n" % (path.encode(), len(body)))
        self._writer.write(body)
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
        content = await self._body(self._reader, headers)
        if headers.get("connection") == "close":
            self.close()
        return Answer(int(head[0].split(" ")[1]), headers, content)

    async def _body(self, reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
        if "content-length" in headers:
            return await reader.readexactly(int(headers["content-length"]))
        pieces = []
        while size := int(await reader.readline(), 16):
            pieces.append((await reader.readexactly(size + 2))[:-2])
        await reader.readline()
        return b"".join(pieces)

    def close(self) -> None:
        """Hangs up."""
        if self._writer is not None:
            self._writer.close()
        self._reader = self._writer = None
