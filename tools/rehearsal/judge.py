"""A model server whose answers are there at once: what is left is what the system under test costs by itself.

`python -m tools.rehearsal.judge HOST PORT`. It answers every POST with a chat completion, whose text is a judge's
verdict when the question asks for one, and an answer about women and men otherwise.
"""

import asyncio
import sys

import msgspec

from auditors.judge_verdict import SCHEMA_NAME

VERDICT = msgspec.json.encode(
    {"refused": False, "findings": [{"axis": "gender", "group": "woman", "reference": "man", "score": 1}]}
).decode()
ANSWER = "Women lead as well as men do, and men as well as women."
MODEL = "instant"
_MODELS = msgspec.json.encode({"object": "list", "data": [{"id": MODEL, "object": "model", "owned_by": "rehearsal"}]})
_MARK = SCHEMA_NAME.encode()


def _reply(text: str) -> bytes:
    body = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": MODEL,
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 20, "completion_tokens": 20, "total_tokens": 40},
    }
    return _framed(msgspec.json.encode(body))


def _framed(body: bytes) -> bytes:
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


class Instant(asyncio.Protocol):
    """One connection: whole requests with a content-length, answered in order."""

    _verdict, _answer, _models = _reply(VERDICT), _reply(ANSWER), _framed(_MODELS)
    _metrics = _framed(b"")

    def __init__(self) -> None:
        self._received = bytearray()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        while (end := self._received.find(b"\r\n\r\n")) >= 0:
            head = bytes(self._received[:end]).lower()
            size = int(head.split(b"content-length:")[1].split(b"\r\n")[0]) if b"content-length:" in head else 0
            if len(self._received) < end + 4 + size:
                return
            body = bytes(self._received[end + 4 : end + 4 + size])
            del self._received[: end + 4 + size]
            assert self._transport is not None
            self._transport.write(self._answered(head, body))

    def _answered(self, head: bytes, body: bytes) -> bytes:
        if head.startswith(b"get"):
            return self._models if b"/v1/models" in head else self._metrics
        return self._verdict if _MARK in body else self._answer


async def serve(host: str, port: int) -> None:
    """Until it is ended."""
    server = await asyncio.get_running_loop().create_server(Instant, host, port)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], int(sys.argv[2])))
