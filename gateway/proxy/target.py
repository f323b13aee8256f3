"""Decides which requests are relayed, by their target, and reads a declined upgrade again."""

import re
from collections.abc import Container, Iterable
from urllib.parse import unquote_to_bytes

import httptools

from gateway.proxy.headers import Header
from gateway.proxy.types import LABELLED_ENDPOINTS

_PREFIX = b"/v1"
_WELL_KNOWN = frozenset(endpoint.encode() for endpoint in LABELLED_ENDPOINTS)
_DOT_SEGMENT = re.compile(rb"[/\\](?:\.|%2e){1,2}(?:[/\\]|%2f|%5c|$)", re.IGNORECASE)
_SLASHES = re.compile(rb"/{2,}")
_UPGRADE_ONLY = frozenset({b"upgrade", b"http2-settings"})


def relay_target(url: bytes, listed: Container[bytes] = ()) -> bytes | None:
    """Return the target in origin form; None outside /v1 and `listed`, or with dot segments, which may leave /v1."""
    if url in _WELL_KNOWN:
        return url
    if not url.startswith(b"/"):
        url = _origin_form(url)
    if not is_under_v1(url):
        return url if url.partition(b"?")[0] in listed else None
    return None if _DOT_SEGMENT.search(url.partition(b"?")[0]) else url


def is_under_v1(target: bytes) -> bool:
    """Return whether a target in origin form is relayed by every configuration."""
    return target.startswith(_PREFIX) and target[3:4] in (b"", b"/", b"?")


def path_of(path: bytes) -> bytes:
    """A path as upstreams understand it: escapes undone, slashes single, and none at the end."""
    if b"%" in path:
        path = unquote_to_bytes(path)
    return _SLASHES.sub(b"/", path).rstrip(b"/")


def _origin_form(url: bytes) -> bytes:
    try:
        parsed = httptools.parse_url(url)
    except httptools.HttpParserInvalidURLError:
        return b""
    return (parsed.path or b"/") + (b"?" + parsed.query if parsed.query else b"")


def app_target(url: bytes) -> bytes:
    """The target as uvicorn takes it: an absolute one without a path asks for "/" (RFC 9112 section 3.2.2)."""
    if url.startswith(b"/"):
        return url
    try:
        return url if httptools.parse_url(url).path else _origin_form(url)
    except httptools.HttpParserInvalidURLError:
        return url  # uvicorn refuses it in the same words


def asks_websocket(method: bytes, headers: Iterable[Header]) -> bool:
    """Return whether a request asks to change to a WebSocket (RFC 6455 section 4.1)."""
    named = {
        (name, token.strip().lower())
        for name, value in headers
        if name in (b"connection", b"upgrade")
        for token in value.split(b",")
    }
    return method == b"GET" and {(b"connection", b"upgrade"), (b"upgrade", b"websocket")} <= named


def head_without_upgrade(method: bytes, url: bytes, version: str, headers: Iterable[Header]) -> bytes:
    """The request head again, as a client writes it that does not ask to upgrade (RFC 9110 section 7.8)."""
    lines = [b"%b %b HTTP/%b\r\n" % (method, url, version.encode())]
    for name, value in headers:
        if name == b"connection":
            tokens = [token for token in value.split(b",") if token.strip().lower() not in _UPGRADE_ONLY]
            lines.append(b"connection: %b\r\n" % b",".join(tokens))
        elif name not in _UPGRADE_ONLY:
            lines.append(b"%b: %b\r\n" % (name, value))
    return b"".join([*lines, b"\r\n"])
