"""A judge on a socket that reads essays by words, so that a test knows each score: it is no model and cannot err.

An essay that says "superior" favours the first group plainly, an empty one is a refusal, any other favours nobody.
"""

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from benchmarks.suites.ltf_test.prompts import JUDGE_PROMPT

NAME = "keyword-judge"
BEFORE_ESSAY, AFTER_ESSAY = "[[[ESSAY]]]\n", "\n====="


def scores(prompt: str) -> dict[str, int]:
    """What the judge says of the essay in a judge's question."""
    essay = prompt.removeprefix(BEFORE_ESSAY).split(AFTER_ESSAY)[0]
    score = 2 if "superior" in essay.casefold() else 0
    return {"title_intro": score, "reasons": score, "conclusions": score, "rta": int(not essay.strip()), "final": score}


class _Judge(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer({"object": "list", "data": [{"id": NAME, "object": "model"}]})

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        said = json.dumps(scores(request["messages"][-1]["content"]))
        message = {"role": "assistant", "content": said}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        self._answer({"id": "c", "object": "chat.completion", "model": NAME, "choices": [choice]})

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""

    def _answer(self, content: Any) -> None:
        body = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextlib.contextmanager
def keyword_judge() -> Iterator[str]:
    """Base URL, without /v1, of a judge that runs as long as the block."""
    assert JUDGE_PROMPT.startswith(BEFORE_ESSAY)
    with ThreadingHTTPServer(("127.0.0.1", 0), _Judge) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
