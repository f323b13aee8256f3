"""The soak's upstream: relays to a real backend, and breaks what a request asks it to break.

A request names its fault in `x-soak-fault`, which crosses the gateway unchanged. What was sent for whole answers is
remembered as a digest, so that the client can be asked whether it got the same bytes.
"""

import asyncio
import contextlib
import hashlib
from collections import Counter
from dataclasses import dataclass
from typing import Literal, get_args

import httptools

from tests.support.integration.scripted_upstream import ReceivedRequest, read_request

Fault = Literal[
    "reset_first",  # the connection is reset before any answer
    "close_first",  # closed in order before any answer
    "garbage",  # what comes is no HTTP
    "error_500",  # a whole answer that says 500
    "stall_first",  # nothing comes
    "reset_midway",  # reset inside the first piece of the body
    "truncate",  # closed in order there: the framing says that more should have come
    "stall_midway",  # nothing comes after that
]
FAULTS: tuple[Fault, ...] = get_args(Fault)
HEADER = "x-soak-fault"
SHORT_BY = 3
"""Bytes kept back of the piece in which an answer breaks: inside the data of a chunk, or short of the length."""

_ERROR = b'{"error": {"message": "planned", "type": "server_error", "param": null, "code": 500}}'
_ERROR_500 = b"HTTP/1.1 500 Internal Server Error\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (
    len(_ERROR),
    _ERROR,
)


@dataclass
class _Asked:
    """What is known about one request id."""

    arrived: asyncio.Event
    left: asyncio.Event
    digest: bytes | None = None
    times: int = 0
    was_dropped: bool = False
    """The upstream was stopped while it owed the answer, and has not been asked since."""


class Front:
    """One upstream on one port; `start` again after `stop` is its restart."""

    def __init__(self, backend: str) -> None:
        host, _, port = backend.removeprefix("http://").partition(":")
        self._backend = (host, int(port))
        self.port = 0
        self.aborts_seen: Counter[str] = Counter()
        """Gateway connections that closed while an answer was owed, by the request's fault ("none")."""
        self._asked: dict[str, _Asked] = {}
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Listens, on the port it had before when it had one."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Refuses connections and resets those there are."""
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def expect(self, request_id: str) -> None:
        """Remembers what becomes of this id until it is forgotten."""
        self._asked[request_id] = _Asked(asyncio.Event(), asyncio.Event())

    def forget(self, request_id: str) -> "_Asked":
        """What became of it."""
        return self._asked.pop(request_id)

    def was_asked(self, request_id: str) -> bool:
        """Whether that request has come here."""
        return self._asked[request_id].times > 0

    def has_dropped(self, request_id: str) -> bool:
        """Whether this upstream was stopped while it owed that answer."""
        return self._asked[request_id].was_dropped

    async def arrival(self, request_id: str) -> None:
        """Waits until that request is here."""
        await self._asked[request_id].arrived.wait()

    async def departure(self, request_id: str) -> None:
        """Waits until the gateway has dropped that request before its answer was whole."""
        await self._asked[request_id].left.wait()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while request := await read_request(reader, 0):
                if not await self._answer(request, reader, writer):
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        except asyncio.CancelledError:
            writer.transport.abort()
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _answer(
        self, request: ReceivedRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Whether the connection can take another request."""
        asked = self._asked.get(request.header("x-request-id") or "")
        fault = request.header(HEADER)
        if asked is not None:
            asked.times += 1
            asked.was_dropped = False
            asked.arrived.set()
        leaving = asyncio.create_task(reader.read(1))
        answering = asyncio.create_task(self._act(fault, request, writer, asked))
        try:
            await asyncio.wait({leaving, answering}, return_when=asyncio.FIRST_COMPLETED)
            if answering.done():
                return await answering
            self.aborts_seen[fault or "none"] += 1
            if asked is not None:
                asked.left.set()
            return False
        except asyncio.CancelledError:
            if asked is not None:
                asked.was_dropped = True
                asked.arrived.clear()
            raise
        finally:
            for task in (leaving, answering):
                task.cancel()
            await asyncio.gather(leaving, answering, return_exceptions=True)

    async def _act(
        self, fault: str | None, request: ReceivedRequest, writer: asyncio.StreamWriter, asked: _Asked | None
    ) -> bool:
        match fault:
            case "reset_first":
                writer.transport.abort()
                return False
            case "close_first":
                return False
            case "garbage":
                writer.write(b"WHAT 200 EVER\r\n\r\n")
                await writer.drain()
                return False
            case "error_500":
                writer.write(_ERROR_500)
                await writer.drain()
                return True
            case "stall_first":
                await asyncio.Event().wait()
        return await self._relay(fault, request, writer, asked)

    async def _relay(
        self, fault: str | None, request: ReceivedRequest, writer: asyncio.StreamWriter, asked: _Asked | None
    ) -> bool:
        backend_reader, backend_writer = await asyncio.open_connection(*self._backend)
        answer = _Answer()
        try:
            backend_writer.write(_raw(request))
            while not answer.is_whole and (piece := await backend_reader.read(65536)):
                answer.feed(piece)
                if fault is not None and answer.has_body:
                    writer.write(piece[:-SHORT_BY])
                    await writer.drain()
                    if fault == "reset_midway":
                        await asyncio.sleep(0.01)  # a reset may overtake what was sent before it
                        writer.transport.abort()
                    elif fault == "stall_midway":
                        await asyncio.Event().wait()
                    return False
                writer.write(piece)
                await writer.drain()
        finally:
            with contextlib.suppress(OSError):
                backend_writer.transport.abort()
        if not answer.is_whole:
            writer.transport.abort()
        elif asked is not None:
            asked.digest = answer.digest.digest()
        return answer.is_whole


def was_dropped(fronts: list[Front], request_id: str) -> bool:
    """Whether each upstream that got the request went away owing the answer: none was left to end it otherwise.

    One that goes away before its first byte may be replaced: then the other's doings end the exchange.
    """
    asked = [front for front in fronts if front.was_asked(request_id)]
    return bool(asked) and all(front.has_dropped(request_id) for front in asked)


class _Answer:
    """Follows a backend's response to its end."""

    def __init__(self) -> None:
        self.digest = hashlib.blake2b(digest_size=16)
        self.has_body = False
        self.is_whole = False
        self._parser = httptools.HttpResponseParser(self)

    def feed(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_body(self, data: bytes) -> None:
        self.has_body = True
        self.digest.update(data)

    def on_message_complete(self) -> None:
        self.is_whole = True


def _raw(request: ReceivedRequest) -> bytes:
    lines = [f"{request.method} {request.target} HTTP/1.1", *(f"{name}: {value}" for name, value in request.headers)]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + request.body
