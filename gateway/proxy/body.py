"""Reads the needed fields of a request body, and makes the only changes to it: the alias and a forbidden priority.
Compiled code passes over values, so that no body holds up its worker for long.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from gateway.proxy.refusals import Refusal, invalid_json, request_too_large, too_many_members, too_many_values

TAKING_PRIORITY = frozenset(
    {b"/v1/chat/completions", b"/v1/completions", b"/v1/embeddings", b"/v1/responses", b"/v1/systemone"}
)
"""Endpoints of vLLM whose body may have a priority."""
LARGE_BYTES = 1024 * 1024
"""A body above this is gone through once only, and its structural characters are counted as it comes."""
MOST_VALUES = 1_000_000
"""Structural characters after the first LARGE_BYTES: 10 ms of a worker's time. 20 MB of prose have as many."""
MOST_MEMBERS = 1_000
"""Outermost members of a body that is gone through: 10 ms."""

_STRUCTURAL = b'{}[],"\\\n\r\t'
_BLANKS = b"    "
"""Counted too: single blanks stand in every text, these at most before lines of code."""
_BLANK = rb"[ \t\r\n]*+"
_STRING = rb'"(?:[^"\\]|\\.){0,200}+"'
_START = re.compile(rb"\A" + _BLANK + rb"\{" + _BLANK)
_KEY = re.compile(_STRING + _BLANK, re.DOTALL)
_COLON = re.compile(rb":" + _BLANK)
_COMMA = re.compile(rb"," + _BLANK)
_END = re.compile(rb"\}" + _BLANK + rb"\Z")
_MODEL = re.compile(rb'"model"' + _BLANK + rb":" + _BLANK + rb"(" + _STRING + rb")", re.DOTALL)
_TRAILING = re.compile(r"trailing characters \(byte (\d+)\)")
_MAY_BE_AN_OBJECT = re.compile(
    rb"\A(?:\xef\xbb\xbf|\xff\xfe|\xfe\xff|\x00\x00\xfe\xff)?(?:\x00{0,3}+[ \t\r\n]){0,100}+\x00{0,3}+[{ \t\r\n]"
)
"""Also to a reader that takes byte order marks, UTF-16 and UTF-32. After a hundred blanks anything may be one."""


class RequestBody(msgspec.Struct, frozen=True, gc=False):
    """A request body after policy."""

    content: bytes
    model: str | None = None
    """The model as the client named it."""
    served_model: str | None = None
    """After aliases."""
    stream: bool = False


class _Peek(msgspec.Struct, gc=False):
    """The fields that are looked at. Any: a wrong type is the upstream's to refuse."""

    model: Any = None
    stream: Any = None
    priority: Any = msgspec.UNSET


_peek = msgspec.json.Decoder(_Peek).decode
_pass_over = msgspec.json.Decoder(msgspec.Raw).decode
_text = msgspec.json.Decoder(str).decode


class Member(NamedTuple):
    """Place of a member of an object: `start` of its key to `end` of its value."""

    key: str
    """"" for one of more than 200 characters."""
    start: int
    value: int
    """Place at which its value begins."""
    end: int


class TooManyMembersError(Exception):
    """A body has more than MOST_MEMBERS of them."""


def read_body(content: bytes, aliases: Mapping[str, str], *, may_set_priority: bool) -> RequestBody | Refusal:
    """Read model and stream, apply the alias, and take out `priority` unless the client may set it. A body that is not
    a JSON object comes back unchanged without a model. Refused is what is JSON only to a more lenient reader (NaN, byte
    order marks, UTF-16, lone surrogates, deeper nesting), which would carry a priority past the gateway, and more than
    MOST_MEMBERS members where some have to be found.
    """
    if not content:
        return RequestBody(content)
    try:
        peek, members = _read(content)
        model = peek.model if isinstance(peek.model, str) else None
        served = None if model is None else aliases.get(model, model)
        drops = peek.priority is not msgspec.UNSET and not may_set_priority
        if drops or served != model:
            content = _changed(content, members, served if served != model else None, drops=drops)
    except TooManyMembersError:
        return too_many_members(MOST_MEMBERS)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        why = "it is nested too deeply" if isinstance(exc, RecursionError) else str(exc)
        return invalid_json(why) if _MAY_BE_AN_OBJECT.match(content) else RequestBody(content)
    return RequestBody(content, model, served, peek.stream is True)


def with_priority(content: bytes, priority: int) -> bytes:
    """A body that `read_body` let pass without a priority, with this one as its first member; no object: unchanged."""
    opening = _START.match(content)
    if opening is None:
        return content
    start = opening.end()
    comma = b"" if content[start : start + 1] == b"}" else b","
    return b'%b"priority":%d%b%b' % (content[:start], priority, comma, content[start:])


class BodyLimit:
    """The limits of a single body. Structural characters are counted as they come: later takes too long."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._counted = 0

    def refusal(self, received: bytes | bytearray, data: bytes) -> Refusal | None:
        """Return the refusal of a body not read on, else None. `received`: all of it so far; `data`: the last piece."""
        if len(received) > self._max_bytes:
            return request_too_large(self._max_bytes)
        if len(received) <= LARGE_BYTES or not _MAY_BE_AN_OBJECT.match(received):
            return None
        self._counted += len(data) - len(data.translate(None, _STRUCTURAL)) + data.count(_BLANKS)
        return too_many_values(LARGE_BYTES, MOST_VALUES) if self._counted > MOST_VALUES else None


def _read(content: bytes) -> tuple[_Peek, list[Member] | None]:
    if len(content) <= LARGE_BYTES or not _MAY_BE_AN_OBJECT.match(content):
        return _peek(content), None
    members = list(members_of(content))
    looked_at = (member for member in members if member.key in _Peek.__struct_fields__)
    selected = b",".join(b'"%b":%b' % (member.key.encode(), content[member.value : member.end]) for member in looked_at)
    return _peek(b"{%b}" % selected), members


def _changed(content: bytes, members: Sequence[Member] | None, model: str | None, *, drops: bool) -> bytes:
    """The body with every outermost "model" set to `model`, if given, and without any "priority", if it `drops`."""
    if model is not None:
        replacement = msgspec.json.encode(model)
        if members is None and not drops and content.count(b'"model"') == 1 and (match := _MODEL.search(content)):
            # Most bodies say "model" once. If that was some inner one, the outermost has not changed.
            changed = content[: match.start(1)] + replacement + content[match.end(1) :]
            if _peek(changed).model == model:
                return changed
    if members is None:
        members = list(members_of(content))
    parts, done = [], 0
    for start, end, new in _edits(members, model, drops=drops):
        parts += [content[done:start], new]
        done = end
    return b"".join([*parts, content[done:]])


def _edits(members: Sequence[Member], model: str | None, *, drops: bool) -> Iterator[tuple[int, int, bytes]]:
    remaining = [member for member in members if not (drops and member.key == "priority")]
    last = remaining[-1] if remaining else None
    for member, following in zip(members, [*members[1:], None], strict=True):
        if drops and member.key == "priority":
            if last is None or member.start > last.start:
                # Nothing that is kept follows, so that the comma before goes too.
                yield (last.end if last else members[0].start), members[-1].end, b""
                return
            if following is not None:
                yield member.start, following.start, b""
        elif member.key == "model" and model is not None:
            yield member.value, member.end, msgspec.json.encode(model)


def members_of(content: bytes) -> Iterator[Member]:
    """The members of an object that is JSON. Raises TooManyMembersError, and DecodeError where it is none."""
    view, position = memoryview(content), _after(_START, content, 0)
    if content[position : position + 1] == b"}":
        _after(_END, content, position)
        return
    for _ in range(MOST_MEMBERS):
        key, colon = _key(content, view, position)
        value = _after(_COLON, content, colon)
        sign = _after_value(view, value)
        yield Member(key, position, value, _without_blank(content, value, sign))
        if content[sign] == ord("}"):
            _after(_END, content, sign)
            return
        position = _after(_COMMA, content, sign)
    raise TooManyMembersError


def value_end(content: bytes, start: int) -> int:
    """Return the place at which the value ends that begins there, within a larger value. Raises DecodeError."""
    return _without_blank(content, start, _after_value(memoryview(content), start))


def _after(pattern: re.Pattern[bytes], content: bytes, position: int) -> int:
    match = pattern.match(content, position)
    if match is None:
        raise msgspec.DecodeError(f"JSON is malformed: invalid character (byte {position})")
    return match.end()


def _key(content: bytes, view: memoryview, position: int) -> tuple[str, int]:
    """Return the key that begins here and the place of its colon; "" for a key that is longer than those looked for."""
    if content[position : position + 1] != b'"':
        raise msgspec.DecodeError(f"JSON is malformed: object keys must be strings (byte {position})")
    match = _KEY.match(content, position)
    if match is None:
        return "", _after_value(view, position)
    readable = match[0].decode("utf-8", "replace").encode()
    key = _text(readable)
    return key if readable == match[0] else "", match.end()  # a key that is not UTF-8 is none of those looked for


def _after_value(view: memoryview, start: int) -> int:
    """Place of the first character after a value and white space: the decoder names it when told that none follows."""
    try:
        _pass_over(view[start:])
    except msgspec.DecodeError as exc:
        match = _TRAILING.search(str(exc))
        if match is None:
            raise
        return start + int(match[1]) - 1
    raise msgspec.DecodeError("Input data was truncated")


def _without_blank(content: bytes, start: int, end: int) -> int:
    """Return the end of the span without the white space at its end; it holds something else."""
    width = 64
    while not (stripped := content[max(start, end - width) : end].rstrip()):
        end, width = end - width, 8 * width
    return max(start, end - width) + len(stripped)
