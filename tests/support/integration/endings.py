"""The endpoints that matter, how an answer of each begins, and every place where it can break off."""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import msgspec

from gateway.proxy.types import EndReason
from tests.support.integration.failing import hang, hang_after, reset
from tests.support.integration.scripted_upstream import Channel, ReceivedRequest, Script, raw

ENDPOINTS: Mapping[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "?"}]},
    "/v1/completions": {"prompt": "?"},
    "/v1/responses": {"input": "?"},
    "/v1/messages": {"messages": [{"role": "user", "content": "?"}], "max_tokens": 8},
    "/v1/embeddings": {"input": "?"},
}

Moment = Literal["before", "during", "after"]
"""Of the first byte of the response: nothing came, the head and half of what comes first, something whole."""

_FIRST = {True: b'data: {"choices": []}\n\n', False: b'{"id": "1", "object": "x", "text": "'}
_HEAD = {
    True: b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n",
    False: b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 5000\r\n\r\n",
}


def body_of(path: str, *, stream: bool) -> bytes:
    """A request body for the endpoint."""
    return msgspec.json.encode({"model": "m", **ENDPOINTS[path], **({"stream": True} if stream else {})})


def begun(moment: Moment, *, stream: bool) -> tuple[bytes, bytes]:
    """What the upstream has sent at that moment, and what a client then has read last."""
    if moment == "before":
        return b"", b""
    first = _FIRST[stream]
    sent = first[:7] if moment == "during" else first
    return _HEAD[stream] + (b"%x\r\n%b\r\n" % (len(sent), sent) if stream else sent), sent


def waiting(moment: Moment, *, stream: bool) -> Script:
    """Goes so far and then says nothing until the other side hangs up."""
    start, _ = begun(moment, stream=stream)
    return hang_after(start) if start else hang


class Failure(NamedTuple):
    """A way in which the upstream ends an exchange, and what is to be told."""

    script: Mapping[bool, Script]
    """By whether a stream was asked for."""
    outcome: EndReason
    code: str
    param: str | None = None
    timeouts: Mapping[str, float] = {}
    is_begun: bool = True
    """The client has the head already."""


def _then_reset(data: bytes) -> Script:
    async def script(request: ReceivedRequest, channel: Channel) -> None:
        await channel.send(data)
        await reset(request, channel)

    return script


def _both(of: Any) -> dict[bool, Script]:
    return {stream: of(stream) for stream in (True, False)}


def _after(stream: bool) -> bytes:
    return begun("after", stream=stream)[0]


FAILURES: Mapping[str, Failure] = {
    "reset before an answer": Failure(_both(lambda _: reset), "upstream_error", "upstream_error", is_begun=False),
    "closed before an answer": Failure(
        _both(lambda _: raw(b"", then_close=True)), "upstream_error", "upstream_error", is_begun=False
    ),
    "garbage status line": Failure(
        _both(lambda _: raw(b"HTTP/1.1 fine\r\ncontent-length: 0\r\n\r\n")),
        "upstream_error",
        "upstream_error",
        is_begun=False,
    ),
    "half a status line": Failure(
        _both(lambda _: raw(b"HTTP/1.1 20", then_close=True)), "upstream_error", "upstream_error", is_begun=False
    ),
    "stall before the head": Failure(
        _both(lambda _: hang),
        "timed_out",
        "upstream_timeout",
        "timeouts.first_byte",
        {"first_byte": 0.3},
        is_begun=False,
    ),
    "stall after the head": Failure(
        _both(lambda stream: hang_after(_HEAD[stream])),
        "timed_out",
        "upstream_timeout",
        "timeouts.first_byte",
        {"first_byte": 1.5},
    ),
    "stall after the first token": Failure(
        _both(lambda stream: hang_after(_after(stream))),
        "timed_out",
        "upstream_timeout",
        "timeouts.idle",
        {"idle": 0.3},
    ),
    "reset after the first token": Failure(
        _both(lambda stream: _then_reset(_after(stream))), "upstream_error", "upstream_error"
    ),
    "truncated chunk": Failure(
        _both(lambda stream: raw(_after(stream) + (b"ff\r\ndata: {" if stream else b"x"), then_close=True)),
        "upstream_error",
        "upstream_error",
    ),
    "garbage for a chunk": Failure(
        {
            True: raw(_after(True) + b"no chunk\r\n"),
            False: raw(_HEAD[True].replace(b"text/event-stream", b"application/json") + b"3\r\nabc\r\nno chunk\r\n"),
        },
        "upstream_error",
        "upstream_error",
    ),
}
