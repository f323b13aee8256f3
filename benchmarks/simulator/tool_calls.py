"""Calls of tools: what a request offers, how the model writes a call, and how a server's parser reads it.

The model writes in the form that vLLM's parser "hermes" reads, whatever the request demands; a reply that was cut off
before the end of its call stays a text where it is read whole, and is a begun call where it is streamed, as there.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from benchmarks.simulator.draws import digest
from benchmarks.simulator.tokens import EOS

_OPENING, _SEPARATOR, _CLOSING = '<tool_call>\n{"name": ', ', "arguments": ', "}\n</tool_call>"


class Tool(msgspec.Struct, frozen=True):
    name: str
    parameters: Mapping[str, Any] = {}
    """JSON schema of its arguments."""


class Offer(msgspec.Struct, frozen=True):
    """The tools that an answer may call."""

    tools: tuple[Tool, ...] = ()
    choice: Literal["auto", "required", "named"] = "auto"
    """auto: the model may answer in words. named: there is but the tool that the request names."""

    @property
    def is_demanded(self) -> bool:
        return bool(self.tools) and self.choice != "auto"


class Call(NamedTuple):
    name: str
    arguments: str
    """JSON."""


class Piece(NamedTuple):
    """What one token of a reply is: a part of its text or of the call's arguments, the last of its name, or a mark."""

    kind: Literal["text", "name", "arguments", "mark"]
    text: str = ""
    """Of a name all of it."""


class _Found(NamedTuple):
    begin: int
    name: str | None
    """None where the reply was cut off before its end."""
    name_end: int
    arguments: tuple[int, int]
    is_whole: bool


def write(call: Call) -> str:
    """The call as the model writes it."""
    return f"{_OPENING}{json.dumps(call.name)}{_SEPARATOR}{call.arguments}{_CLOSING}"


def read(text: str) -> tuple[str, Call | None]:
    """Text before the call, and the call; all of the text and None where there is none, or it was cut off."""
    found = _find(text)
    if found is None or found.name is None or not found.is_whole:
        return text, None
    begin, end = found.arguments
    return text[: found.begin], Call(found.name, text[begin:end])


def pieces(tokens: Sequence[str]) -> list[Piece] | None:
    """What each token is; None where the reply begins no call."""
    whole = "".join(token for token in tokens if token != EOS)
    found = _find(whole)
    if found is None:
        return None
    listed, at = list[Piece](), 0
    for token in tokens:
        end = at + (0 if token == EOS else len(token))
        begin, stop = max(at, found.arguments[0]), min(end, found.arguments[1])
        if found.name is not None and at < found.name_end <= end:
            listed.append(Piece("name", found.name))
        elif begin < stop:
            listed.append(Piece("arguments", whole[begin:stop]))
        elif at < end <= found.begin:
            listed.append(Piece("text", token))
        else:
            listed.append(Piece("mark"))
        at = end
    return listed


def call_id(answer: str, index: int) -> str:
    """Id of the call in one of an answer's replies."""
    return f"chatcmpl-tool-{digest(f'{answer}/{index}')[:16]}"


def _find(text: str) -> _Found | None:
    """The call in a reply; neither its name nor its arguments can hold a mark, for JSON escapes what is in them."""
    begin = text.rfind(_OPENING)
    if begin < 0:
        return None
    name_begin = begin + len(_OPENING)
    name_end = text.find(_SEPARATOR, name_begin)
    if name_end < 0:
        return _Found(begin, None, len(text), (len(text), len(text)), False)
    try:
        name = json.loads(text[name_begin:name_end])
    except ValueError:  # a mark that a thought quotes
        return None
    first, last = name_end + len(_SEPARATOR), text.rfind(_CLOSING)
    is_whole = last >= first
    end = last if is_whole else _end_of_object(text, first)
    return _Found(begin, name, name_end, (first, end), is_whole)


def _end_of_object(text: str, begin: int) -> int:
    try:
        return json.JSONDecoder().raw_decode(text, begin)[1]
    except ValueError:
        return len(text)
