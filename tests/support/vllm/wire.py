"""What really went over the wire: a raw client, and a recorder between the gateway and its upstream."""

import contextlib
import json
import socket
import socketserver
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

import httptools


class Reply(NamedTuple):
    """One response as received: header names lower-case, in order; body without its transfer framing."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


class Request(NamedTuple):
    path: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class _Messages:
    """httptools callbacks that collect the messages of one direction of one connection."""

    def __init__(self) -> None:
        self.done: list[tuple[bytes, list[tuple[bytes, bytes]], bytes]] = []
        self._path, self._body = b"", b""
        self._headers: list[tuple[bytes, bytes]] = []

    def on_message_begin(self) -> None:
        self._path, self._headers, self._body = b"", [], b""

    def on_url(self, url: bytes) -> None:
        self._path += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name.lower(), value))

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        self.done.append((self._path, self._headers, self._body))


def read_reply(raw: bytes) -> Reply:
    """The first complete response in a connection's bytes."""
    messages = _Messages()
    parser = httptools.HttpResponseParser(messages)
    parser.feed_data(raw)
    _, headers, body = messages.done[0]
    return Reply(parser.get_status_code(), headers, body)


def post(base_url: str, path: str, body: bytes, headers: dict[str, str] | None = None) -> Reply:
    """Sends one request over a socket of its own and reads until the server closes it."""
    host, _, port = base_url.removeprefix("http://").partition(":")
    fields = {"host": f"{host}:{port}", "content-type": "application/json", "content-length": str(len(body))}
    head = f"POST {path} HTTP/1.1\r\n" + "".join(
        f"{name}: {value}\r\n" for name, value in {**fields, "connection": "close", **(headers or {})}.items()
    )
    with socket.create_connection((host, int(port)), timeout=120) as connection:
        connection.sendall(head.encode() + b"\r\n" + body)
        return read_reply(b"".join(iter(lambda: connection.recv(65536), b"")))


class Tape:
    """Both directions of one upstream connection."""

    def __init__(self) -> None:
        self.sent = bytearray()
        self.received = bytearray()

    def exchanges(self) -> list[tuple[Request, Reply]]:
        """The complete exchanges so far, in order; pipelining is not used upstream."""
        replies = _Replies()
        replies.feed(bytes(self.received))
        return list(zip(self.requests(), replies.done, strict=False))

    def requests(self) -> list[Request]:
        """Every whole request so far, answered or not."""
        messages = _Messages()
        httptools.HttpRequestParser(messages).feed_data(bytes(self.sent))
        return [Request(*request) for request in messages.done]


class _Replies(_Messages):
    """Responses need their status taken at the end of each one."""

    def __init__(self) -> None:
        super().__init__()
        self._parser = httptools.HttpResponseParser(self)
        self.done: list[Reply] = []  # type: ignore[assignment]  # replies instead of triples

    def feed(self, raw: bytes) -> None:
        self._parser.feed_data(raw)

    def on_message_complete(self) -> None:
        self.done.append(Reply(self._parser.get_status_code(), self._headers, self._body))


class Recorder:
    """A TCP relay that keeps what passes; `origin` is where the gateway should send."""

    def __init__(self, origin: str) -> None:
        self.origin = origin
        self.tapes: list[Tape] = []

    def find(self, marker: str) -> tuple[Request, Reply]:
        """The exchange whose request body holds the marker. Raises LookupError when none does."""
        for tape in list(self.tapes):
            for request, reply in tape.exchanges():
                if marker.encode() in request.body:
                    return request, reply
        raise LookupError(f"no recorded request holds {marker}")


class _Listener(socketserver.ThreadingTCPServer):
    request_queue_size = 128
    """The default of 5 refuses connections when a crowd comes at once."""


@contextlib.contextmanager
def recording(target: str) -> Iterator[Recorder]:
    """Listens on a free port and relays every connection to `target` (http://HOST:PORT)."""
    host, _, port = target.removeprefix("http://").partition(":")

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            tape = Tape()
            recorder.tapes.append(tape)
            with socket.create_connection((host, int(port))) as upstream:
                back = threading.Thread(target=_pump, args=(upstream, self.request, tape.received), daemon=True)
                back.start()
                _pump(self.request, upstream, tape.sent)
                back.join()

    with _Listener(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        recorder = Recorder(f"http://127.0.0.1:{server.server_address[1]}")
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield recorder
        server.shutdown()


def _pump(source: socket.socket, sink: socket.socket, tape: bytearray) -> None:
    """Copies one direction until it ends, then ends the other side's reading too: a vanished client must be noticed."""
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            tape += data
            sink.sendall(data)
    for end in (source, sink):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
