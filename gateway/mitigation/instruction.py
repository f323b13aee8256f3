"""Adds a sentence to a request for text: before the last user message's text, where suites add it too.

So what `audit run --mitigation` finds is found for the same place. Only the sentence is put in; every other byte stays
as the client sent it. Nothing that a request says in two ways leaves the sentence out: it is added to each member of a
name that occurs twice, as some readers take the first and some the last.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from gateway.proxy.body import Member, TooManyMembersError, members_of

QUESTION_MEMBERS: Mapping[str, str] = {
    "/v1/chat/completions": "messages",
    "/v1/completions": "prompt",
    "/v1/messages": "messages",
    "/v1/responses": "input",
}
"""Endpoint to the member of its body that holds what is asked."""
MOST_ELEMENTS = 10_000
"""Messages of a conversation, or parts of a message: 10 ms of a worker's time."""
MOST_TRIED = 100
"""Messages without text that are passed over, of the user's and again of anybody's: 10 ms."""

_SEPARATOR = re.compile(rb"[ \t\r\n,]*+")


class _Turn(msgspec.Struct, gc=False):
    role: Any = None
    content: msgspec.Raw = msgspec.Raw(b"")


class _Part(msgspec.Struct, gc=False):
    text: msgspec.Raw = msgspec.Raw(b"")


_turns = msgspec.json.Decoder(list[_Turn]).decode
_part = msgspec.json.Decoder(_Part).decode
_elements_of = msgspec.json.Decoder(list[msgspec.Raw]).decode


def with_instruction(content: bytes, endpoint: str, instruction: str) -> bytes | None:
    """The body with the sentence, on a line of its own; None for a body that cannot carry one.

    That is what has no text where a sentence could stand (token ids, embeddings, pictures alone), and what is no JSON
    of the endpoint's form. Raises TooManyMembersError for more messages or parts than are looked through.
    """
    try:
        places = _places(content, endpoint)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if not places:
        return None
    added, parts, done = msgspec.json.encode(instruction + "\n")[1:-1], [], 0
    for place in places:
        parts += [content[done:place], added]
        done = place
    return b"".join([*parts, content[done:]])


def _places(content: bytes, endpoint: str) -> list[int]:
    """Behind the opening quotation mark of each string that is to begin with the sentence, in order; none if any of the
    members of that name has no such string.
    """
    name, members = QUESTION_MEMBERS[endpoint], list(members_of(content))
    if any(one.key == "prompt_embeds" for one in members):
        return []  # answered beside or instead of the prompt
    find = _of_prompt if name == "prompt" else _of_conversation
    found = [find(content, one) for one in members if one.key == name]
    return [place for places in found for place in places] if all(found) else []


def _of_prompt(content: bytes, member: Member) -> list[int]:
    if content[member.value : member.value + 1] != b"[":
        return _string(content, member.value)
    found = [_string(content, start) for start, _ in _elements(content, member.value, member.end)]
    return [place for places in found for place in places] if all(found) else []


def _of_conversation(content: bytes, member: Member) -> list[int]:
    """Of the last message with text among the user's; where the user has none, of the last that anybody has."""
    if content[member.value : member.value + 1] != b"[":
        return _string(content, member.value)
    spans = _elements(content, member.value, member.end)
    turns = _turns(content[member.value : member.end])
    for of_whom in (_is_users, _is_anybodys):
        wanted = [span for span, turn in zip(spans, turns, strict=True) if of_whom(turn)]
        for start, end in wanted[: -MOST_TRIED - 1 : -1]:
            if places := _of_message(content, start, end):
                return places
    return []


def _is_users(turn: _Turn) -> bool:
    return isinstance(turn.role, str) and turn.role == "user"


def _is_anybodys(turn: _Turn) -> bool:
    return bytes(turn.content)[:1] in (b'"', b"[")


def _of_message(content: bytes, start: int, end: int) -> list[int]:
    """Of the text of one message, or of its first part that is text."""
    found = []
    for member in _members_between(content, start, end, "content"):
        if content[member.value : member.value + 1] == b"[":
            found.append(_of_parts(content, _elements(content, member.value, member.end)))
        else:
            found.append(_string(content, member.value))
    return [place for places in found for place in places] if all(found) else []


def _of_parts(content: bytes, spans: Sequence[tuple[int, int]]) -> list[int]:
    for start, end in spans:
        if content[start : start + 1] == b'"':
            return _string(content, start)
        if content[start : start + 1] == b"{" and bytes(_part(content[start:end]).text)[:1] == b'"':
            found = [_string(content, member.value) for member in _members_between(content, start, end, "text")]
            return [place for places in found for place in places] if all(found) else []
    return []


def _string(content: bytes, start: int) -> list[int]:
    return [start + 1] if content[start : start + 1] == b'"' else []


def _members_between(content: bytes, start: int, end: int, name: str) -> Iterator[Member]:
    """The members of this name of the object that lies there, placed in the whole body."""
    for one in members_of(content[start:end]):
        if one.key == name:
            yield Member(name, start + one.start, start + one.value, start + one.end)


def _elements(content: bytes, start: int, end: int) -> list[tuple[int, int]]:
    """Where the elements of the array lie that lies there. Raises TooManyMembersError."""
    elements = _elements_of(content[start:end])
    if len(elements) > MOST_ELEMENTS:
        raise TooManyMembersError
    spans, position = [], start + 1
    for element in elements:
        found = _SEPARATOR.match(content, position)
        begin = found.end() if found else position
        position = begin + memoryview(element).nbytes
        spans.append((begin, position))
    return spans
