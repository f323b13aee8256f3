"""A web server with files, byte ranges, and a connection that breaks when told to."""

import http.server
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any


@contextmanager
def serving(
    files: Mapping[str, bytes], *, cut_first_at: int | None = None, has_ranges: bool = True
) -> Iterator[tuple[str, list[str | None]]]:
    """A web server with byte ranges; yields its URL and the Range header of each request. May cut its first answer."""
    ranges: list[str | None] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content, wanted = files.get(self.path), self.headers.get("Range")
            ranges.append(wanted)
            if content is None:
                self.send_error(404)
                return
            start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and has_ranges else 0
            if start >= len(content):
                self.send_error(416)
                return
            self.send_response(206 if wanted and has_ranges else 200)
            self.send_header("Content-Length", str(len(content) - start))
            self.end_headers()
            cut = cut_first_at if len(ranges) == 1 else None
            self.wfile.write(content[start:cut])

        def log_message(self, *_: Any) -> None:
            """Says nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", ranges
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def answering(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that reads the beginning of one request, and then does whatever it likes; yields its URL."""

    def serve() -> None:
        with suppress(OSError):  # of a client that leaves
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                answer(connection)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        thread.join(10)
