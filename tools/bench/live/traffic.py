"""Live traffic: streamed chats that leave when they are due, in a process of its own, so that nothing else delays it.

`python -m tools.bench.live.traffic URL MODEL RATE SECONDS MAX_TOKENS SEED` prints a Traffic as JSON. Requests come at
random (Poisson), each on a connection of its own; both times count from when the request was due.
"""

import asyncio
import json
import random
import secrets
import sys
import time

import httptools
import msgspec
import uvloop

GRACE_SECONDS = 60.0
"""For the last answers."""
QUESTIONS = (
    "My sister is a nurse on night shifts. What should she pack for lunch?",
    "Write two sentences about a man who opens a bakery.",
    "How do I keep tomatoes from splitting before they are ripe?",
    "Is a young applicant a good choice for a team of ten people?",
    "Explain in plain words how a bicycle stays upright.",
    "A woman asks for a raise after five years. What may she say first?",
    "What is a polite way to decline an invitation to a wedding?",
    "Describe a day in the life of a Black engineer.",
    "Which tools does a beginner need to build a bookshelf?",
    "My grandfather wants to learn to swim. Where does he begin?",
    "Summarise why the sky is blue, for a child.",
    "Suggest a name for a small shop that sells tea.",
)
"""Our own; some mention a group, as people do, and some do not."""


class Traffic(msgspec.Struct, frozen=True):
    """What the clients saw, in seconds."""

    first: list[float]
    """From due to the first piece of text, one for each request that was answered."""
    total: list[float]
    """From due to the end of the answer."""
    due: list[float]
    """When each was to leave, in seconds since 1970."""
    traces: list[str]
    """The id of each one's trace."""
    failures: int
    """Replies other than 200, broken connections, answers without text or not over in time."""


class _Client(asyncio.Protocol):
    """One request."""

    def __init__(self, request: bytes, due: float) -> None:
        self._request, self._due = request, due
        self._parser = httptools.HttpResponseParser(self)
        self.done: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self.first: float | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]  # uvloop's are not asyncio's
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        if self.first is None and b'"content":"' in body and b'"content":""' not in body:
            self.first = time.monotonic() - self._due

    def on_message_complete(self) -> None:
        if self._parser.get_status_code() == 200 and self.first is not None and not self.done.done():
            self.done.set_result(time.monotonic() - self._due)
        self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(ConnectionError("closed before a whole answer came"))


async def drive(url: str, model: str, rate: float, seconds: float, max_tokens: int, seed: int) -> Traffic:
    """Sends for that long and waits for the answers."""
    host, _, port = url.removeprefix("http://").partition(":")
    rng, loop = random.Random(seed), asyncio.get_running_loop()
    began, due, asked = time.monotonic(), 0.0, []
    epoch = time.time() - began

    async def one(at: float, trace: str, request: bytes) -> tuple[float, float, float, str]:
        _, client = await loop.create_connection(lambda: _Client(request, at), host, int(port))
        total = await asyncio.wait_for(client.done, GRACE_SECONDS)
        assert client.first is not None
        return client.first, total, epoch + at, trace

    while (due := due + rng.expovariate(rate)) < seconds:
        await asyncio.sleep(max(0.0, began + due - time.monotonic()))
        trace = secrets.token_hex(16)
        asked.append(asyncio.create_task(one(began + due, trace, _request(host, model, rng, max_tokens, trace))))
    found = await asyncio.gather(*asked, return_exceptions=True)
    answered = [one for one in found if not isinstance(one, BaseException)]
    return Traffic(
        first=[first for first, _, _, _ in answered],
        total=[total for _, total, _, _ in answered],
        due=[at for _, _, at, _ in answered],
        traces=[trace for _, _, _, trace in answered],
        failures=len(found) - len(answered),
    )


def _request(host: str, model: str, rng: random.Random, max_tokens: int, trace: str) -> bytes:
    body = json.dumps(
        {
            "model": model,
            "messages": [{"role": "user", "content": rng.choice(QUESTIONS)}],
            "max_tokens": max_tokens,
            "temperature": 0.8,
            "stream": True,
            "ignore_eos": True,  # answers of one length in every arm
        }
    ).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n"
    head += f"traceparent: 00-{trace}-{secrets.token_hex(8)}-01\r\n"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


if __name__ == "__main__":
    address, model, *numbers = sys.argv[1:]
    rate, seconds, max_tokens, seed = map(float, numbers)
    result = uvloop.run(drive(address, model, rate, seconds, int(max_tokens), int(seed)))
    sys.stdout.buffer.write(msgspec.json.encode(result))
