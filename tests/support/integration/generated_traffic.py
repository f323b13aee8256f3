"""Requests and responses as hypothesis draws them: every endpoint, framing and kind of event, cut anywhere."""

import json
from typing import Any, NamedTuple

from hypothesis import strategies as st

from tests.support.integration.scripted_upstream import Channel, ReceivedRequest, Script

LISTED = ("/health", "/tokenize")
"""Outside /v1, relayed because the configuration says so."""
ENDPOINTS = (
    *LISTED,
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/responses",
    "/v1/messages",
    "/v1/embeddings",
    "/v1/tokenize",
    "/v1/models",
    "/v1/files/a%2Fb?x=%20y",
)
TEXTS = st.lists(
    st.sampled_from(["a", "ä", "日本", "🙂", "\u2028", "\u2029", "\x85", "\\", '"', "\n", "data: ", ""]), max_size=4
).map("".join)


class Response(NamedTuple):
    """What an upstream says, in pieces; `cut` bytes into it the connection closes, None when it does not break."""

    raw: bytes
    places: list[int]
    """Offsets at which one write ends and the next begins."""
    cut: int | None
    closes: bool
    """The end of the body is the end of the connection."""

    @property
    def script(self) -> Script:
        """As a script of the upstream."""
        end = len(self.raw) if self.cut is None else self.cut
        places = [place for place in self.places if place < end]

        async def script(_: ReceivedRequest, channel: Channel) -> None:
            for start, stop in zip([0, *places], [*places, end], strict=True):
                await channel.send_bytewise(self.raw[start:stop], max(1, stop - start))
            if self.closes or self.cut is not None:
                await channel.close()

        return script


class Request(NamedTuple):
    """What a client sends, in pieces."""

    raw: bytes
    places: list[int]
    is_head: bool


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


@st.composite
def _event(draw: st.DrawFn) -> str:
    """One element of an event stream, with any of the three line endings."""
    text, end = draw(TEXTS), draw(st.sampled_from(["\n", "\n", "\r\n", "\r"]))
    call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "f", "arguments": text}}
    kinds: list[list[str]] = [
        ["data: " + _dumped({"choices": [{"index": 0, "delta": {"content": text}}]})],
        ["data: " + _dumped({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]})],
        ["data: " + _dumped({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 1}})],
        [
            "event: response.output_text.delta",
            "data: " + _dumped({"type": "response.output_text.delta", "delta": text}),
        ],
        ["event: content_block_delta", "data: " + _dumped({"delta": {"type": "text_delta", "text": text}})],
        ["event: ping", 'data: {"type": "ping"}'],
        [": keep-alive"],
        ["id: 7", "retry: 100", "data: one", "data: two"],
        ["data: [DONE]"],
        [""],
    ]
    return end.join([*draw(st.sampled_from(kinds)), "", ""])


EVENT_STREAMS = st.lists(_event(), max_size=6).map(lambda events: "".join(events).encode())
JSON_BODIES = TEXTS.map(lambda text: _dumped({"choices": [{"message": {"content": text}}]}).encode())
BODIES = st.one_of(EVENT_STREAMS, JSON_BODIES, st.binary(max_size=200))


def _places(length: int) -> st.SearchStrategy[list[int]]:
    """Rising offsets inside so many bytes."""
    if length < 2:
        return st.just([])
    return st.lists(st.integers(1, length - 1), max_size=5, unique=True).map(sorted)


@st.composite
def responses(draw: st.DrawFn, *, to_head: bool, may_break: bool) -> Response:
    """A response of any status and framing."""
    status = draw(
        st.sampled_from(["200 OK"] * 4 + ["201 Created", "204 No Content", "304 Not Modified", "400 No", "500 Oh"])
    )
    kind = draw(st.sampled_from(["text/event-stream; charset=utf-8", "application/json", "text/plain"]))
    framing = draw(st.sampled_from(["length", "chunked", "chunked", "close"]))
    body = draw(BODIES)
    lines = [f"HTTP/1.1 {status}", f"content-type: {kind}", *draw(_HEADERS)]
    if status[:3] in ("204", "304"):
        framing, body = "none", b""
    if framing == "length":
        lines.append(f"Content-Length: {len(body)}")
    elif framing == "chunked":
        lines.append("Transfer-Encoding: chunked")
        body = _chunked(draw, body, draw(st.sampled_from([b"", b"", b"x-late: 1\r\n"])))
    head = "\r\n".join([*lines, "", ""]).encode()
    hints = draw(st.sampled_from([b"", b"", b"", b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n"]))
    raw = hints + head + (b"" if to_head else body)
    cut = draw(st.integers(1, len(raw) - 1)) if may_break else None
    return Response(raw, draw(_places(len(raw))), cut, closes=framing == "close" or to_head)


_RESPONSE_HEADERS = (
    "x-a: 1",
    "X-Mixed: Case",
    "set-cookie: a=1",
    "set-cookie: b=2",
    "x-empty:",
    "server: uvicorn",
    "x-b: ü",
)
_HEADERS = st.lists(st.sampled_from(_RESPONSE_HEADERS), max_size=3)


def _chunked(draw: st.DrawFn, body: bytes, trailers: bytes) -> bytes:
    """The body in chunks cut anywhere, in the middle of characters too."""
    places = draw(_places(len(body)))
    extension = draw(st.sampled_from([b"", b"", b";a=b"]))
    pieces = [body[start:stop] for start, stop in zip([0, *places], [*places, len(body)], strict=True) if stop > start]
    return b"".join(b"%x%b\r\n%b\r\n" % (len(one), extension, one) for one in pieces) + b"0\r\n%b\r\n" % trailers


@st.composite
def requests(draw: st.DrawFn) -> Request:
    """A request of any method to any endpoint, its body framed by length or in chunks, its bytes cut anywhere."""
    method = draw(st.sampled_from(["POST"] * 5 + ["GET", "HEAD", "PUT", "DELETE"]))
    target = draw(st.sampled_from(ENDPOINTS))
    lines = [f"{method} {target} HTTP/1.1", "host: gateway", "connection: close", "x-request-id: r1"]
    lines += draw(st.lists(st.sampled_from(_REQUEST_HEADERS), max_size=3, unique=True))
    body = draw(_REQUEST_BODIES) if method in ("POST", "PUT") else b""
    if body and draw(st.booleans()):
        lines.append("transfer-encoding: chunked")
        body = _chunked(draw, body, b"")
    elif method in ("POST", "PUT"):
        lines.append(f"content-length: {len(body)}")
    raw = "\r\n".join([*lines, "", ""]).encode() + body
    return Request(raw, draw(_places(len(raw))), method == "HEAD")


_REQUEST_HEADERS = (
    "accept: text/event-stream",
    "x-vllm-priority: -5",
    "x-biasgate-audit: off",
    "x-biasgate-tag: t",
    "te: trailers",
    "authorization: Bearer theirs",
    "x-api-key: theirs",
    "content-type: application/json",
    "user-agent: hypothesis",
)


@st.composite
def _request_object(draw: st.DrawFn) -> bytes:
    members: dict[str, Any] = {"model": draw(st.sampled_from(["m", "gpt", "unknown", 7, None]))}
    members |= {"messages": [{"role": "user", "content": draw(TEXTS)}]}
    optional: dict[str, Any] = {
        "stream": draw(st.booleans()),
        "stream_options": {"include_usage": True},
        "priority": draw(st.integers(-9, 9)),
        "temperature": 1.0,
        "tools": [{"type": "function", "function": {"name": "priority", "parameters": {"model": "m"}}}],
    }
    members |= {name: optional[name] for name in draw(st.lists(st.sampled_from(sorted(optional)), unique=True))}
    items = draw(st.permutations(list(members.items())))
    return json.dumps(dict(items), ensure_ascii=draw(st.booleans()), indent=draw(st.sampled_from([None, 1]))).encode()


_REQUEST_BODIES = st.one_of(_request_object(), _request_object(), st.binary(max_size=40), st.just(b"[1, 2]"))
