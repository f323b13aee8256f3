"""The soak's client: raw HTTP/1.1 on its own sockets, so that it knows exactly how each answer ended."""

import asyncio
import hashlib
import json
import re
import time
from dataclasses import dataclass, field
from typing import Any

import httptools

from gateway.proxy.types import EndReason

_BY_CODE: dict[str, EndReason] = {
    "upstream_error": "upstream_error",
    "upstream_timeout": "timed_out",
    "no_upstream": "rejected",
    "unauthorized": "rejected",
    "request_too_large": "rejected",
    "invalid_body": "rejected",
}
_LIMIT_PASSED = re.compile(r"\b(?:within|for) [\d.e+]+ s\b")


@dataclass
class Sight:
    """What the client saw of one exchange."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    length: int = 0
    tail: bytes = b""
    """The last bytes of the body."""
    digest: bytes = b""
    is_whole: bool = False
    silence_seconds: float = 0.0
    """Between the last byte and the end."""
    is_cut_short: bool = False
    """The client has seen enough: it did not wait for the end."""
    code: str | None = None
    """Of an error of the gateway's own."""

    def outcome(self, idle_seconds: float, *, was_dropped: bool) -> EndReason | None:
        """How the exchange ended by all that a client can see; None when it cannot be explained.

        `idle_seconds`: after such a silence a broken connection was a time limit's doing, unless `was_dropped`: the
        upstream is known to have gone away before.
        """
        if self.code is not None:
            return _BY_CODE.get(self.code)
        if self.is_whole:
            return "complete"
        if not self.status:
            return None
        return "timed_out" if self.silence_seconds > 0.9 * idle_seconds and not was_dropped else "upstream_error"


class Connection:
    """One connection to the gateway. `is_usable` says whether another request may follow."""

    TAIL_BYTES = 4096

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self.is_usable = True

    @classmethod
    async def open(cls, port: int) -> "Connection":
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    def send(self, data: bytes) -> None:
        self._writer.write(data)

    async def read_until(self, marker: bytes) -> None:
        await self._reader.readuntil(marker)

    def leave(self, *, by_reset: bool) -> None:
        """Goes away without another word."""
        self.is_usable = False
        if by_reset:
            self._writer.transport.abort()
        else:
            self._writer.close()

    async def read_answer(self, *, at_most_body: int | None = None) -> Sight:
        """Reads one response to its end, whatever the end, or to `at_most_body` bytes of its body."""
        answer = _Answer()
        last_at = time.perf_counter()
        try:
            while not answer.is_whole and (data := await self._reader.read(65536)):
                last_at = time.perf_counter()
                answer.feed(data)
                if at_most_body is not None and answer.sight.length >= at_most_body and not answer.is_whole:
                    answer.sight.is_cut_short = True
                    return answer.sight
        except ConnectionError:
            pass
        sight = answer.sight
        sight.silence_seconds = time.perf_counter() - last_at
        sight.digest = answer.digest.digest()
        sight.is_whole = answer.is_whole
        sight.code = _own_error(sight)
        if not sight.is_whole or sight.headers.get("connection") == "close":
            self.leave(by_reset=False)
        return sight


class _Answer:
    """httptools callbacks that follow a response."""

    def __init__(self) -> None:
        self.sight = Sight()
        self.digest = hashlib.blake2b(digest_size=16)
        self.is_whole = False
        self._parser = httptools.HttpResponseParser(self)

    def feed(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_header(self, name: bytes, value: bytes) -> None:
        self.sight.headers[name.decode().lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self.sight.status = self._parser.get_status_code()

    def on_body(self, data: bytes) -> None:
        sight = self.sight
        sight.length += len(data)
        sight.tail = (sight.tail + data)[-Connection.TAIL_BYTES :]
        self.digest.update(data)

    def on_message_complete(self) -> None:
        self.is_whole = True


def _own_error(sight: Sight) -> str | None:
    """The code of the gateway's own error, as an answer or as the last event of a stream."""
    if not sight.is_whole:
        return None
    if sight.status in (400, 401, 413, 502, 503, 504):
        return _code(sight.tail)
    if sight.headers.get("content-type", "").startswith("text/event-stream"):
        *_, last = sight.tail.rstrip(b"\n").rpartition(b"data: ")
        return _code(last) if b'"error"' in last else None
    return None


def _code(raw: bytes) -> str | None:
    try:
        said: Any = json.loads(raw)
    except ValueError:
        return None
    error = said.get("error") if isinstance(said, dict) else None
    if not isinstance(error, dict):
        return None
    if "code" in error:
        return str(error["code"])
    # The dialect of /v1/messages has no codes.
    return "upstream_timeout" if _LIMIT_PASSED.search(str(error.get("message"))) else "upstream_error"
