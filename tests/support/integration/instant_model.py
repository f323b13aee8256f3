"""Serve a model that answers each question with its own letter: python -m ...integration.instant_model PORT SECONDS"""

import asyncio
import hashlib
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from benchmarks.run.thinking import QUESTION

PROBE = QUESTION.encode()
_HEAD = "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"


class InstantModel:
    """What it was asked, and when last."""

    def __init__(self, *, seconds: float = 0.0) -> None:
        """`seconds` pass before each answer."""
        self.seconds = seconds
        self.answers = asyncio.Event()
        """Cleared, it keeps its answers back until it is set again."""
        self.answers.set()
        self.asked = Counter[bytes]()
        """Digest of the body of each question; not of the one by which a run finds out about thinking."""
        self.last_at = 0.0

    @asynccontextmanager
    async def serving(self, port: int = 0) -> AsyncIterator[str]:
        """Its base URL, for as long as the block."""
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: _Connection(self), "127.0.0.1", port)
        try:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        finally:
            server.close()

    def answer(self, head: bytes, body: bytes) -> bytes:
        """The whole answer to one request."""
        if head.startswith(b"GET /v1/models"):
            content = {"object": "list", "data": [{"id": "m", "object": "model", "created": 0, "owned_by": "x"}]}
            return _whole("200 OK", json.dumps(content))
        if not head.startswith(b"POST /v1/chat/completions"):
            return _whole("404 Not Found", '{"error": {"message": "there is no such page"}}')
        if PROBE not in body:
            self.asked[hashlib.sha256(body).digest()] += 1
            self.last_at = asyncio.get_running_loop().time()
        letter = "ABC"[hashlib.sha256(body).digest()[0] % 3]
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": letter}}
        usage = {"prompt_tokens": 100, "completion_tokens": 1, "total_tokens": 101}
        return _whole("200 OK", json.dumps({"id": "1", "model": "m", "choices": [choice], "usage": usage}))


class _Connection(asyncio.Protocol):
    def __init__(self, model: InstantModel) -> None:
        self._model = model
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        while b"\r\n\r\n" in self._received:
            head, _, rest = self._received.partition(b"\r\n\r\n")
            lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
            length = int(lengths[0].split(b":")[1]) if lengths else 0
            if len(rest) < length:
                return
            body, self._received = rest[:length], rest[length:]
            answer, model = self._model.answer(head, body), self._model
            is_question = head.startswith(b"POST") and PROBE not in body
            if is_question and (model.seconds or not model.answers.is_set()):
                self._sending = asyncio.create_task(self._send_later(answer))
            else:
                self._transport.write(answer)

    async def _send_later(self, answer: bytes) -> None:
        await asyncio.sleep(self._model.seconds)
        await self._model.answers.wait()
        self._transport.write(answer)


def _whole(status: str, content: str) -> bytes:
    return (_HEAD.format(status=status, length=len(content)) + content).encode()


async def _serve(port: int, seconds: float) -> None:
    async with InstantModel(seconds=seconds).serving(port):
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1]), float(sys.argv[2])))
