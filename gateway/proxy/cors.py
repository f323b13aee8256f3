"""Pages of other origins on the data plane, by the Fetch standard (https://fetch.spec.whatwg.org/#http-cors-protocol).
Its credentials, cookies and client certificates, are never allowed: a page sends a key in a header.
"""

import re
from collections.abc import Iterable

from gateway.proxy.headers import RequestHead
from gateway.proxy.refusals import Refusal, origin_not_allowed

_ANY = b"*"
METHODS = b"DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT"
MAX_AGE_SECONDS = 600
"""Seconds that a browser may remember a preflight's answer: a removed origin keeps its rights that long."""

_REQUESTED_METHOD = b"access-control-request-method"
_REQUESTED_HEADERS = b"access-control-request-headers"
_PRIVATE_NETWORK = b"access-control-request-private-network"
_HEADER_NAMES = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z, \t-]{1,8192}")
_CORS_PREFIX = b"access-control-"


def is_preflight(method: bytes, head: RequestHead) -> bool:
    """Return whether a browser asks beforehand if a page may send a request. It sends no key and no body with that."""
    return method == b"OPTIONS" and head.origin is not None and _value(head, _REQUESTED_METHOD) is not None


def without_cors(lines: Iterable[bytes]) -> list[bytes]:
    """Return an upstream's header lines without its own CORS headers: two values would make a browser refuse both."""
    return [line for line in lines if line[: len(_CORS_PREFIX)].lower() != _CORS_PREFIX]


class CorsPolicy:
    """The answers that a configuration gives to pages of other origins, which are checked; "*" alone for any."""

    def __init__(self, origins: Iterable[str]) -> None:
        listed = frozenset(origin.lower().encode() for origin in origins)
        self._allows_any = _ANY in listed
        self._origins = listed
        self._vary = b"" if self._allows_any else b"vary: Origin\r\n"

    def answer_lines(self, origin: bytes | None) -> bytes:
        """Return the header lines that an answer to a request with this Origin gets."""
        allowed = None if origin is None else self._allowed(origin)
        if allowed is None:
            return self._vary
        return b"access-control-allow-origin: %b\r\naccess-control-expose-headers: *\r\n%b" % (allowed, self._vary)

    def preflight_lines(self, head: RequestHead) -> bytes | Refusal:
        """Return the header lines that a preflight is answered with, besides `answer_lines`, or why it is refused."""
        origin = head.origin or b""
        if self._allowed(origin) is None:
            return origin_not_allowed(origin.decode("latin-1"))
        lines = [b"access-control-allow-methods: %b\r\n" % METHODS, b"access-control-max-age: %d\r\n" % MAX_AGE_SECONDS]
        requested = _value(head, _REQUESTED_HEADERS)
        if requested is not None and _HEADER_NAMES.fullmatch(requested):
            # Named one by one: "*" would leave out Authorization.
            lines.append(b"access-control-allow-headers: %b\r\n" % requested)
        if _value(head, _PRIVATE_NETWORK) == b"true" and not self._allows_any:
            # With "*" every public site could otherwise call a gateway of somebody's own network.
            lines.append(b"access-control-allow-private-network: true\r\n")
        lines.append(
            b"vary: Access-Control-Request-Method, Access-Control-Request-Headers, "
            b"Access-Control-Request-Private-Network\r\n"
        )
        return b"".join(lines)

    def _allowed(self, origin: bytes) -> bytes | None:
        if self._allows_any:
            return _ANY
        return origin if origin in self._origins else None


def cors_policy(origins: Iterable[str]) -> CorsPolicy | None:
    """Return the policy of `server.cors_origins`; None where it is empty and upstreams answer browsers themselves."""
    return CorsPolicy(listed) if (listed := list(origins)) else None


def _value(head: RequestHead, name: bytes) -> bytes | None:
    prefix = name + b": "
    return next((line[len(prefix) :].strip() for line in head.lines if line.startswith(prefix)), None)
