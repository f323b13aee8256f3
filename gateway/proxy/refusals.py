"""Errors that the gateway itself answers on the data plane, in the OpenAI shape (contract 3)."""

from collections.abc import Sequence

import msgspec

LONGEST_SHOWN = 200
"""Characters of what a client sent, in an error that tells it back."""
LONGEST_LIST = 2000
"""Characters of a list of names in an error."""
CHALLENGE = 'Bearer realm="biasgate"'
"""Value of WWW-Authenticate on every 401 (RFC 9110, section 11.6.1). No browser asks for a password at "Bearer"."""
RELAYED_METHODS = b"GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"
_TYPES = {401: "authentication_error", 429: "rate_limit_error"}
_HEADER_LINES = {
    401: b"www-authenticate: %b\r\n" % CHALLENGE.encode(),
    405: b"allow: %b\r\n" % RELAYED_METHODS,
    426: b"connection: upgrade\r\nupgrade: HTTP/1.1\r\n",
}
"""Header lines that RFC 9110 demands of answers with these statuses."""


class Refusal(msgspec.Struct, frozen=True):
    """An answer that the gateway gives in place of an upstream."""

    status: int
    code: str
    message: str
    param: str | None = None
    retry_after_seconds: int | None = None

    @property
    def body(self) -> bytes:
        """`{"error": {"message", "type", "param", "code"}}` as JSON; the type follows the status."""
        kind = _TYPES.get(self.status) or ("api_error" if self.status >= 500 else "invalid_request_error")
        error = {"message": self.message, "type": kind, "param": self.param, "code": self.code}
        return msgspec.json.encode({"error": error})

    @property
    def header_lines(self) -> bytes:
        """Return the header lines that the status demands in addition to the headers of every answer."""
        lines = _HEADER_LINES.get(self.status, b"")
        if self.retry_after_seconds is not None:
            lines += b"retry-after: %d\r\n" % self.retry_after_seconds
        return lines


UNAUTHORIZED = Refusal(
    401, "unauthorized", "missing or unknown API key: send a key of this gateway as Authorization: Bearer or x-api-key"
)
AUDIT_DEFERRED = Refusal(
    429,
    "audit_deferred",
    "live requests wait at the upstream, and this one asked to be sent behind them: try again in 1 s",
    retry_after_seconds=1,
)
WEBSOCKET_REFUSED = Refusal(
    426,
    "websocket_not_supported",
    "this gateway relays no WebSockets, as it could not audit them: send the request over HTTP (POST), streamed by "
    "server-sent events",
)
"""The refusal after which clients that try a WebSocket first use HTTP at once (Codex: only on this status)."""
BUFFERS_FULL = Refusal(
    503,
    "overloaded",
    "this gateway holds as many bytes of request bodies as it may: try again in a moment",
    retry_after_seconds=1,
)


def _unsupported_encoding(message: str) -> Refusal:
    return Refusal(415, "unsupported_content_encoding", message)


def _fields_too_large(message: str) -> Refusal:
    return Refusal(431, "request_too_large", message)


def _too_slow(message: str) -> Refusal:
    return Refusal(408, "request_timeout", message)


def request_too_large(limit_bytes: int) -> Refusal:
    return Refusal(413, "request_too_large", f"request body is larger than this gateway's limit of {limit_bytes} bytes")


def encoded_body(coding: bytes) -> Refusal:
    coding_text = coding.decode("latin-1")[:LONGEST_SHOWN]
    return _unsupported_encoding(
        f'a request body with Content-Encoding "{coding_text}" is not relayed, as nothing in it can be checked here: '
        "send it as gzip, or without one"
    )


def encoded_body_to_change(what: str) -> Refusal:
    return _unsupported_encoding(
        f"this compressed request has {what}, and a compressed body is relayed only as it is: send it uncompressed"
    )


def rate_limited(retry_after_seconds: int) -> Refusal:
    return Refusal(
        429,
        "rate_limited",
        f"this key's requests per minute are used up: try again in {retry_after_seconds} s",
        retry_after_seconds=retry_after_seconds,
    )


def malformed_request(why: str) -> Refusal:
    return Refusal(400, "malformed_request", f"not a valid HTTP request: {why}")


def head_too_large(limit_bytes: int) -> Refusal:
    return _fields_too_large(f"request headers are larger than {limit_bytes} bytes")


def too_many_headers(limit: int) -> Refusal:
    return _fields_too_large(f"the request has more than {limit} headers")


def framing_too_large(limit_bytes: int) -> Refusal:
    return _fields_too_large(f"chunk extensions and trailers are larger than {limit_bytes} bytes")


def transfer_coding(coding: bytes) -> Refusal:
    return malformed_request(f'transfer-encoding "{coding.decode("latin-1")}": only chunked is read, in HTTP/1.1')


def version_not_supported(version: str) -> Refusal:
    return Refusal(505, "malformed_request", f"HTTP/{version} is not spoken here: use HTTP/1.1")


def method_not_relayed(method: str) -> Refusal:
    return Refusal(405, "method_not_allowed", f"this gateway relays every method but {method}")


def origin_not_allowed(origin: str) -> Refusal:
    return Refusal(
        403,
        "origin_not_allowed",
        f'pages of "{origin[:LONGEST_SHOWN]}" may not call this gateway: list the origin in server.cors_origins',
    )


def model_not_found(model: str, served: Sequence[str]) -> Refusal:
    """Return the answer to a request for a model that no upstream has: the names are those of all of them."""
    names = ", ".join(served)
    shortened = names if len(names) <= LONGEST_LIST else f"{names[:LONGEST_LIST].rpartition(', ')[0]}, ..."
    return Refusal(
        404,
        "model_not_found",
        f'no upstream of this gateway serves the model "{model[:LONGEST_SHOWN]}"; served here: {shortened or "none"}',
        param="model",
    )


def head_stalled(limit_seconds: float) -> Refusal:
    return _too_slow(f"the request's headers did not come within {limit_seconds:g} s")


def request_too_slow(bytes_per_second: int) -> Refusal:
    return _too_slow(f"the request body comes at less than {bytes_per_second} bytes a second")


def request_stalled(limit_seconds: float) -> Refusal:
    return _too_slow(f"nothing of the request body came for {limit_seconds:g} s")


def invalid_json(why: str) -> Refusal:
    return Refusal(400, "invalid_body", f"the body is not valid JSON: {why}")


def too_many_members(limit: int) -> Refusal:
    what = f"more than {limit} members, among which its model or priority would have to be found"
    return Refusal(400, "invalid_body", f"the body has {what}")


def too_many_values(after_bytes: int, limit: int) -> Refusal:
    return Refusal(
        413,
        "request_too_large",
        f"beyond its first {after_bytes} bytes the body has more than {limit} structural characters: send it in parts",
    )


def filter_failed(policy: str) -> Refusal:
    return Refusal(500, "mitigation_failed", f'a filter of policy "{policy}" of this gateway failed: see its log')


def upstream_error(upstream: str, what: str) -> Refusal:
    return Refusal(502, "upstream_error", f'upstream "{upstream}" {what}')


def upstream_timeout(upstream: str, what: str, limit: str | None) -> Refusal:
    """`limit`: the key of [upstreams.timeouts] that ran out, None when it was another limit. Tells them apart."""
    param = f"timeouts.{limit}" if limit else None
    return Refusal(504, "upstream_timeout", f'upstream "{upstream}" {what}', param=param)


def no_upstream(model: str | None) -> Refusal:
    for_model = f' for model "{model[:LONGEST_SHOWN]}"' if model else ""
    remedy = "try again in 2 s; to this gateway's operator its log and GET /readyz name the cause"
    return Refusal(503, "no_upstream", f"no upstream{for_model} is up: {remedy}", retry_after_seconds=2)


def stream_error_event(path: bytes, refusal: Refusal) -> bytes:
    """Return the event, in the endpoint's dialect, of a broken stream; its blank line ends an event cut in half."""
    if path == b"/v1/messages":
        error = {"type": "error", "error": {"type": "api_error", "message": refusal.message}}
        return b"\n\nevent: error\ndata: " + msgspec.json.encode(error) + b"\n\n"
    return b"\n\ndata: " + refusal.body + b"\n\n"
