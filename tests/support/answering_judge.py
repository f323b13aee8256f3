"""A judge on a socket that answers by a function of the request, so that a test knows each verdict."""

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[[dict[str, Any]], str]
"""Body of a chat completion to the judge's reply."""


@contextlib.contextmanager
def answering_judge(name: str, answer: Answer) -> Iterator[str]:
    """Base URL, without /v1, of a judge that runs as long as the block."""

    class Judge(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._send({"object": "list", "data": [{"id": name, "object": "model"}]})

        def do_POST(self) -> None:
            text = answer(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
            self._send({"id": "c", "object": "chat.completion", "model": name, "choices": [choice]})

        def log_message(self, format: str, *args: Any) -> None:
            """Says nothing."""

        def _send(self, content: Any) -> None:
            body = json.dumps(content).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            with contextlib.suppress(OSError):  # of a client that left
                self.wfile.write(body)

    with ThreadingHTTPServer(("127.0.0.1", 0), Judge) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
