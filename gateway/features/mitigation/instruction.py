"""Adds a sentence to a request: before the last user message's text, where suites (`audit run --mitigation`) do.
Every other byte stays. A name that occurs twice gets it in each member, as some readers take the first, some the last.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from gateway.config.schema import QUESTION_MEMBERS
from gateway.proxy.body import Member, TooManyMembersError, members_of, value_end

MOST_ELEMENTS = 10_000
"""Messages of a conversation, or parts of a message: 10 ms of a worker's time."""
MOST_READ = 1_000
"""Texts of a question that are read: 10 ms."""
MOST_TRIED = 100
"""Messages without text that are passed over, of the user's and again of anybody's: 10 ms."""

_SEPARATOR = re.compile(rb"[ \t\r\n,]*+")


class Turn(msgspec.Struct, gc=False):
    role: Any = None
    content: msgspec.Raw = msgspec.Raw(b"")


class _Part(msgspec.Struct, gc=False):
    text: msgspec.Raw = msgspec.Raw(b"")


_turns = msgspec.json.Decoder(list[Turn]).decode
decode_part = msgspec.json.Decoder(_Part).decode
_decoded = msgspec.json.Decoder(str).decode
decode_elements = msgspec.json.Decoder(list[msgspec.Raw]).decode


def with_instruction(content: bytes, endpoint: str, instruction: str) -> bytes | None:
    """Return the body with the sentence on a line of its own; None for a body without a text to carry it (token ids,
    embeddings, pictures alone, no JSON of the endpoint's form). Raises TooManyMembersError above the limits.
    """
    places = _find_places(content, endpoint, _of_first_part)
    if not places:
        return None
    added, parts, done = msgspec.json.encode(instruction + "\n")[1:-1], [], 0
    for place in places:
        parts += [content[done:place], added]
        done = place
    return b"".join([*parts, content[done:]])


def question_texts(content: bytes, endpoint: str) -> list[str]:
    """Return all texts of the message that would carry a sentence; empty without. Raises TooManyMembersError."""
    places = _find_places(content, endpoint, _of_every_part)
    if len(places) > MOST_READ:
        raise TooManyMembersError
    try:
        return [_decoded(content[place - 1 : value_end(content, place - 1)]) for place in places]
    except (msgspec.DecodeError, UnicodeDecodeError):
        return []


Parts = Callable[[bytes, Sequence[tuple[int, int]]], list[int]]
"""Function that finds the places of the wanted strings among the parts of a message."""


def _find_places(content: bytes, endpoint: str, parts: Parts) -> list[int]:
    try:
        name, members = QUESTION_MEMBERS[endpoint], list(members_of(content))
        if any(member.key == "prompt_embeds" for member in members):
            return []  # answered beside or instead of the prompt
        questions = [member for member in members if member.key == name]
        if name == "prompt":
            place_lists = [_of_prompt(content, member) for member in questions]
        else:
            place_lists = [_of_conversation(content, member, parts) for member in questions]
        return [place for places in place_lists for place in places] if all(place_lists) else []
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []


def _of_prompt(content: bytes, member: Member) -> list[int]:
    if content[member.value : member.value + 1] != b"[":
        return _string(content, member.value)
    place_lists = [_string(content, start) for start, _ in _elements(content, member.value, member.end)]
    return [place for places in place_lists for place in places] if all(place_lists) else []


def _of_conversation(content: bytes, member: Member, parts: Parts) -> list[int]:
    """Return the places in the user's last message with text; without any, in the last message with text."""
    if content[member.value : member.value + 1] != b"[":
        return _string(content, member.value)
    spans = _elements(content, member.value, member.end)
    turns = _turns(content[member.value : member.end])
    for of_whom in (_is_users, _is_anybodys):
        turn_spans = [span for span, turn in zip(spans, turns, strict=True) if of_whom(turn)]
        for start, end in turn_spans[: -MOST_TRIED - 1 : -1]:
            if places := _of_message(content, start, end, parts):
                return places
    return []


def _is_users(turn: Turn) -> bool:
    return isinstance(turn.role, str) and turn.role == "user"


def _is_anybodys(turn: Turn) -> bool:
    return bytes(turn.content)[:1] in (b'"', b"[")


def _of_message(content: bytes, start: int, end: int, parts: Parts) -> list[int]:
    place_lists = []
    for member in _members_between(content, start, end, "content"):
        if content[member.value : member.value + 1] == b"[":
            place_lists.append(parts(content, _elements(content, member.value, member.end)))
        else:
            place_lists.append(_string(content, member.value))
    return [place for places in place_lists for place in places] if all(place_lists) else []


def _of_first_part(content: bytes, spans: Sequence[tuple[int, int]]) -> list[int]:
    return next((_of_part(content, *span) for span in spans if _is_text(content, *span)), [])


def _of_every_part(content: bytes, spans: Sequence[tuple[int, int]]) -> list[int]:
    if len(spans) > MOST_READ:
        raise TooManyMembersError
    place_lists = [_of_part(content, *span) for span in spans if _is_text(content, *span)]
    return [place for places in place_lists for place in places] if all(place_lists) else []


def _is_text(content: bytes, start: int, end: int) -> bool:
    if content[start : start + 1] == b"{":
        return bytes(decode_part(content[start:end]).text)[:1] == b'"'
    return content[start : start + 1] == b'"'


def _of_part(content: bytes, start: int, end: int) -> list[int]:
    if content[start : start + 1] == b'"':
        return _string(content, start)
    place_lists = [_string(content, member.value) for member in _members_between(content, start, end, "text")]
    return [place for places in place_lists for place in places] if all(place_lists) else []


def _string(content: bytes, start: int) -> list[int]:
    return [start + 1] if content[start : start + 1] == b'"' else []


def _members_between(content: bytes, start: int, end: int, name: str) -> Iterator[Member]:
    for member in members_of(content[start:end]):
        if member.key == name:
            yield Member(name, start + member.start, start + member.value, start + member.end)


def _elements(content: bytes, start: int, end: int) -> list[tuple[int, int]]:
    """Return the start and end of each element of the array that lies there. Raises TooManyMembersError."""
    elements = decode_elements(content[start:end])
    if len(elements) > MOST_ELEMENTS:
        raise TooManyMembersError
    spans, position = [], start + 1
    for element in elements:
        separator = _SEPARATOR.match(content, position)
        begin = separator.end() if separator else position
        position = begin + memoryview(element).nbytes
        spans.append((begin, position))
    return spans
