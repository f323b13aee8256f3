"""What a request body is read for, and the only two changes made to it: the alias and a forbidden priority.

Everything else in the body stays byte for byte as the client sent it.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from gateway.proxy.refusals import Refusal, nested_too_deeply, unreadable_priority

_STRING = rb'"[^"\\]*(?:\\.[^"\\]*)*"'
_TOP_TOKEN = re.compile(_STRING + rb"|[{}\[\]:,]", re.DOTALL)
_NESTED_TOKEN = re.compile(_STRING + rb"|[{}\[\]]", re.DOTALL)
_MODEL = re.compile(rb'"model"[ \t\r\n]*:[ \t\r\n]*(' + _STRING + rb")", re.DOTALL)
_OPENING = frozenset(b"{[")
_CLOSING = frozenset(b"}]")


class RequestBody(msgspec.Struct, frozen=True, gc=False):
    """A request body after policy."""

    content: bytes
    model: str | None = None
    """As the client named it."""
    served_model: str | None = None
    """After aliases."""
    stream: bool = False


class _Peek(msgspec.Struct, gc=False):
    """The fields that are looked at. Any: a wrong type is the upstream's to refuse."""

    model: Any = None
    stream: Any = None
    priority: Any = msgspec.UNSET


_decode = msgspec.json.Decoder(_Peek).decode


def read_body(content: bytes, aliases: Mapping[str, str], *, may_set_priority: bool) -> RequestBody | Refusal:
    """Reads model and stream, applies the alias, and takes out `priority` unless the client may set it.

    Bodies that are not JSON objects come back unchanged with no model; one that is nested too deeply to tell is refused
    to a client that may not set `priority`.
    """
    if not content:
        return RequestBody(content)
    try:
        peek = _decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _read_leniently(content, may_set_priority=may_set_priority)
    if peek.priority is not msgspec.UNSET and not may_set_priority:
        content = without_member(content, "priority")
    model = peek.model if isinstance(peek.model, str) else None
    served = model
    if model is not None and model in aliases:
        served = aliases[model]
        content = with_model(content, served)
    return RequestBody(content, model, served, peek.stream is True)


def _read_leniently(content: bytes, *, may_set_priority: bool) -> RequestBody | Refusal:
    """Python upstreams also take NaN, byte order marks and UTF-16: such a body must not carry a priority past us."""
    try:
        value = json.loads(content)
    except ValueError:
        return RequestBody(content)
    except RecursionError:
        # Another version of Python reads deeper (3.13 five times as deep as 3.11 and more), and finds a priority there.
        return RequestBody(content) if may_set_priority else nested_too_deeply()
    if not isinstance(value, dict):
        return RequestBody(content)
    if "priority" in value and not may_set_priority:
        return unreadable_priority()
    model = value.get("model")
    model = model if isinstance(model, str) else None
    return RequestBody(content, model, model, value.get("stream") is True)


class _Member(NamedTuple):
    """Where one member of the outermost object lies: `start` of its key to `end` of its value."""

    key: str
    start: int
    value: int
    end: int


def with_model(content: bytes, model: str) -> bytes:
    """The body with every outermost "model" set to `model`. `content` must be a JSON object."""
    replacement = msgspec.json.encode(model)
    if content.count(b'"model"') == 1 and (found := _MODEL.search(content)):
        # Most bodies say "model" once. If that was some inner one, the outermost has not changed.
        changed = content[: found.start(1)] + replacement + content[found.end(1) :]
        if _decode(changed).model == model:
            return changed
    parts, done = [], 0
    for member in _members(content):
        if member.key == "model":
            parts += [content[done : member.value], replacement]
            done = member.end
    return b"".join([*parts, content[done:]])


def without_member(content: bytes, key: str) -> bytes:
    """The body without any outermost member of that name. `content` must be a JSON object."""
    members = list(_members(content))
    kept = [index for index, member in enumerate(members) if member.key != key]
    parts = [content[: members[0].start]]
    parts += [content[members[index].start : members[index + 1].start] for index in kept[:-1]]
    if kept:
        # The last one kept goes without its comma: what followed it may be gone.
        parts.append(content[members[kept[-1]].start : members[kept[-1]].end])
    return b"".join([*parts, content[members[-1].end :]])


def _members(content: bytes) -> Iterator[_Member]:
    position = content.index(b"{") + 1
    key, start, value, depth = "", -1, -1, 1
    while token := (_TOP_TOKEN if depth == 1 else _NESTED_TOKEN).search(content, position):
        position = token.end()
        sign = content[token.start()]
        if sign in _OPENING:
            depth += 1
        elif depth > 1:
            depth -= sign in _CLOSING
        elif sign == ord('"'):
            if start < 0:
                key, start = _key(token.group()), token.start()
        elif sign == ord(":"):
            value = position
        elif start >= 0:
            yield _Member(key, start, *_trimmed(content, value, token.start()))
            start = -1


def _key(token: bytes) -> str:
    """The key in a JSON string; "" for one that is no UTF-8, which the decoder lets pass where it reads no further."""
    try:
        return str(msgspec.json.decode(token))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""


def _trimmed(content: bytes, start: int, end: int) -> tuple[int, int]:
    """The span without white space at either end."""
    span = content[start:end]
    return start + len(span) - len(span.lstrip()), end - len(span) + len(span.rstrip())
