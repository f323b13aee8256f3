"""Defines which headers cross the gateway, in both directions (RFC 9110 section 7.6, contract 3). One pass sorts them.
Lines are put together with join, which costs a third of what formatting costs.
"""

import re
from collections.abc import Iterable
from os import urandom
from typing import Any

Header = tuple[bytes, bytes]

HOP_BY_HOP = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer transfer-encoding "
    b"upgrade http2-settings".split()
)
"""Meant for one connection only. Trailers are dropped: their announcement would be a lie."""

PRIORITY = frozenset(
    {b"x-vllm-priority", b"x-data-parallel-rank", b"x-llm-d-inference-objective", b"x-gateway-inference-objective"}
)
"""Headers with which a client could jump vLLM's queue or an inference gateway's, or choose an engine."""

FORWARDED = frozenset(
    b"forwarded x-forwarded-for x-forwarded-host x-forwarded-port x-forwarded-prefix x-forwarded-proto "
    b"x-forwarded-server x-real-ip x-client-ip true-client-ip".split()
)
"""Headers that say which client asked, which anybody may write: a trusting upstream would believe them."""

SESSION_COOKIE = b"biasgate_session"
"""The console's, which a browser adds to every path: like a key of the gateway it never reaches an upstream."""

_READ_FROM_REQUEST = frozenset(
    b"host content-length content-encoding expect authorization x-api-key x-request-id cookie origin traceparent "
    b"x-biasgate-audit x-biasgate-priority x-biasgate-probe x-biasgate-tag x-biasgate-threshold".split()
).union(HOP_BY_HOP, PRIORITY, FORWARDED)
LOCATIONS = frozenset({b"content-location", b"location"})
"""Response headers whose value is an address."""
_READ_FROM_RESPONSE = frozenset(
    b"content-length content-type content-encoding x-request-id x-biasgate-upstream".split()
).union(HOP_BY_HOP, LOCATIONS)
_VALID_REQUEST_ID = re.compile(rb"[\x21-\x7e]{1,200}")
"""Pattern of ids that may go unchanged into headers, logs and the store; others are replaced."""
_PROBABILITY = re.compile(rb"0?\.[0-9]{1,20}|0|1(?:\.0{0,20})?")
_ORDINARY_CONNECTION = frozenset({b"keep-alive", b"close", b"upgrade", b"te"})


def _without_nominated(lines: list[bytes], connection: bytes) -> list[bytes]:
    """`Connection: x-foo` makes x-foo a hop-by-hop header."""
    return without(lines, frozenset(token.strip().lower() for token in connection.split(b",")))


def _without_session(cookies: bytes) -> bytes:
    if SESSION_COOKIE not in cookies:
        return cookies
    remaining = [cookie for cookie in cookies.split(b";") if cookie.partition(b"=")[0].strip() != SESSION_COOKIE]
    return b";".join(remaining).strip()


SentLines = tuple[object, bytes, bytes]
"""(the client, whose rights decide; what stands before content-length and x-request-id; what stands behind them)"""

_ID_BYTES = 16


_spare_ids: list[str] = []


def _draw_id() -> str:
    """Return 128 random bits in hex, drawn from the kernel many at a time."""
    if not _spare_ids:
        digits = urandom(_ID_BYTES * 256).hex()
        _spare_ids.extend(digits[start : start + 2 * _ID_BYTES] for start in range(0, len(digits), 2 * _ID_BYTES))
    return _spare_ids.pop()


def without(lines: list[bytes], names: frozenset[bytes]) -> list[bytes]:
    """The lines whose header is none of these, in small letters."""
    return [line for line in lines if line.partition(b":")[0].lower() not in names]


class RequestHead:
    """A client's request headers, sorted."""

    __slots__ = (
        *("_is_id_drawn", "audit", "authorization", "content_encoding", "content_length", "credentials"),
        *("exchange_id", "expects_continue", "has_body", "identified", "is_audit", "key", "lines", "origin"),
        *("priority", "probe", "request_id", "sent", "tag", "threshold", "traceparent", "transfer_coding"),
    )

    def __init__(self, headers: Iterable[Header]) -> None:
        """Reads headers as (lower-case name, value) pairs."""
        self.lines: list[bytes] = []
        """`name: value` lines that pass whatever the policy."""
        self.credentials: list[bytes] = []
        self.priority: list[bytes] = []
        self.request_id = ""
        """The client's where it gave a usable one, else `exchange_id`."""
        self.content_length: int | None = None
        self.content_encoding = b""
        """Of the body, in small letters, all that are named; empty for none and for identity, which is none."""
        self.has_body = False
        self.transfer_coding: bytes | None = None
        """All transfer-encoding headers, in order, as one value."""
        self.expects_continue = False
        self.authorization: bytes | None = None
        self.key: bytes | None = None
        """Value of x-api-key."""
        self.origin: bytes | None = None
        """Of the web page that sent it, as its browser says; all Origin headers as one value. It passes on."""
        self.audit: str | None = None
        self.is_audit = False
        """Asks to be sent behind live requests: anybody may lower a priority of their own."""
        self.probe: str | None = None
        self.tag: str | None = None
        self.threshold: float | None = None
        self.traceparent = b""
        self.identified: tuple[object, Any] | None = None
        """(who looked, whose key it is): the gate's note, for a head that comes again."""
        self.sent: dict[object, SentLines] | None = None
        """What was sent to each upstream: the relay's note, likewise."""
        nominated = b""
        lines = self.lines
        for name, value in headers:
            if name not in _READ_FROM_REQUEST:
                lines.append(b"".join((name, b": ", value, b"\r\n")))
            elif name == b"connection":
                if value not in _ORDINARY_CONNECTION:
                    nominated += b"," + value
            elif name not in HOP_BY_HOP:
                self._read(name, value)
            elif name == b"transfer-encoding":
                self.has_body = True
                self.transfer_coding = value if self.transfer_coding is None else self.transfer_coding + b", " + value
        if b"x-biasgate-" in b"".join(lines):
            self.lines = [line for line in lines if not line.startswith(b"x-biasgate-")]
        if nominated:
            self.lines = _without_nominated(self.lines, nominated)
            self.credentials = _without_nominated(self.credentials, nominated)
            self.priority = _without_nominated(self.priority, nominated)
        self.exchange_id = _draw_id()
        """The gateway's own: no client can choose what depends on it."""
        self._is_id_drawn = not self.request_id
        if self._is_id_drawn:
            self.request_id = self.exchange_id

    def renew(self, content_length: int) -> None:
        """Prepare for the next request with this head on the same connection; the request before it must have ended."""
        self.content_length = content_length
        self.exchange_id = drawn = _draw_id()
        if self._is_id_drawn:
            self.request_id = drawn

    def belong_to(self, unit: str) -> None:
        """End the exchange's id in the digits of its conversation, so that a counting program joins them."""
        self.exchange_id = self.exchange_id[: -len(unit)] + unit

    def _read(self, name: bytes, value: bytes) -> None:
        if name == b"content-length":
            self.content_length = int(value)
            self.has_body = True
        elif name == b"content-encoding":
            self.lines.append(b"content-encoding: " + value + b"\r\n")
            coding = value.strip().lower()
            if coding not in (b"", b"identity"):
                self.content_encoding += coding if not self.content_encoding else b", " + coding
        elif name == b"authorization":
            self.authorization = value
            self.credentials.append(b"authorization: " + value + b"\r\n")
        elif name == b"x-api-key":
            self.key = value
            self.credentials.append(b"x-api-key: " + value + b"\r\n")
        elif name == b"x-request-id":
            if not self.request_id and _VALID_REQUEST_ID.fullmatch(value):
                self.request_id = value.decode("ascii")
        elif name == b"traceparent":
            self.traceparent = value
        elif name == b"origin":
            self.origin = value if self.origin is None else self.origin + b", " + value
            self.lines.append(b"origin: " + value + b"\r\n")
        elif name == b"expect":
            self.expects_continue = value.lower() == b"100-continue"
        elif name == b"x-biasgate-audit":
            self.audit = value.decode("latin-1").lower()
        elif name == b"x-biasgate-priority":
            self.is_audit = self.is_audit or value.lower() == b"audit"
        elif name == b"x-biasgate-probe":
            self.probe = value.decode("latin-1")
        elif name == b"x-biasgate-tag":
            self.tag = value.decode("latin-1")
        elif name == b"x-biasgate-threshold":
            self.threshold = float(value) if _PROBABILITY.fullmatch(value) else None
        elif name == b"cookie":
            remaining = _without_session(value)
            if remaining or not value:
                self.lines.append(b"cookie: " + remaining + b"\r\n")
        elif name in PRIORITY:
            self.priority.append(b"%b: %b\r\n" % (name, value))

    @property
    def traceparent_line(self) -> bytes:
        """Return the line as the client sent it, for an upstream that the gateway adds no span in front of."""
        return b"traceparent: " + self.traceparent + b"\r\n" if self.traceparent else b""

    def lines_but_id(self, *, pass_credentials: bool, pass_priority: bool) -> list[bytes]:
        """Return a head's constant lines upstream. `pass_credentials`: only if the gateway checks and holds no keys."""
        return [*self.lines, *(self.credentials if pass_credentials else ()), *(self.priority if pass_priority else ())]


class ResponseHead:
    """An upstream's response headers, sorted."""

    __slots__ = (
        *("block", "content_encoding", "content_length", "content_type"),
        *("has_location", "lines", "transfer_encoding"),
    )

    def __init__(self, headers: Iterable[Header]) -> None:
        """Reads headers as (name in any case, value) pairs."""
        self.lines: list[bytes] = []
        """`name: value` lines for the client, names as the upstream wrote them; no content-length."""
        self.content_length: bytes | None = None
        self.content_type = b""
        self.content_encoding = b""
        self.transfer_encoding = b""
        self.has_location = False
        """It has a Location or Content-Location, which may be an address of the upstream's own."""
        nominated = b""
        lines = self.lines
        for name, value in headers:
            lower = name.lower()
            if lower not in _READ_FROM_RESPONSE:
                lines.append(b"".join((name, b": ", value, b"\r\n")))
            elif lower == b"content-length":
                self.content_length = value
            elif lower == b"content-type":
                self.content_type = value
                lines.append(b"".join((name, b": ", value, b"\r\n")))
            elif lower == b"content-encoding":
                self.content_encoding = value.lower()
                lines.append(b"".join((name, b": ", value, b"\r\n")))
            elif lower == b"transfer-encoding":
                self.transfer_encoding = value.lower()
            elif lower in LOCATIONS:
                self.has_location = True
                lines.append(b"".join((name, b": ", value, b"\r\n")))
            elif lower == b"connection" and value not in _ORDINARY_CONNECTION:
                nominated += b"," + value
        if nominated:
            self.lines = _without_nominated(lines, nominated)
        self.block: bytes | None = None
        """Status line and lines for the client, once they were put together: a note for a head that comes again."""

    @property
    def is_event_stream(self) -> bool:
        return self.content_type.lower().startswith(b"text/event-stream") and self.is_identity

    @property
    def is_identity(self) -> bool:
        """The body's bytes are the text itself, not compressed."""
        return self.content_encoding in (b"", b"identity")
