"""The text of an answer, choice by choice, for a filter: of a whole one, and of the events of a stream.

Text is what users read as the answer: content, its text parts, a refusal, a transcript. Thoughts and calls of tools are
none: models think about stereotypes in order to avoid them, and arguments are written for programs.
"""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from auditors.text.events import server_events
from auditors.text.lenient_json import read_json, read_piece

LONGEST_LENIENT = 128 * 1024
"""Characters of what only a lenient reader understands, which is slow: 10 ms."""

_SAID = frozenset({"role", "content", "refusal"})
"""Members of a message, or of its part in an event, that have no content apart from its text."""


class _Choice(msgspec.Struct, gc=False):
    index: Any = 0
    text: Any = None
    message: Any = None
    delta: Any = None


class _Answer(msgspec.Struct, gc=False):
    choices: list[_Choice]


_answer = msgspec.json.Decoder(_Answer).decode


class Piece(msgspec.Struct, frozen=True):
    """Text of a choice in an event, or in a whole answer."""

    choice: int
    text: str
    has_more: bool
    """It has more than text: thoughts, or calls of tools."""


def pieces_of_answer(body: bytes) -> list[Piece] | None:
    """Return the pieces of an answer that came at once; None for a body that is not an answer."""
    try:
        return [_piece(choice, _read_message(choice)) for choice in _answer(body).choices]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _leniently(read_json, body)


def pieces_of_events(events: bytes) -> list[Piece] | None:
    """Return the pieces of complete events; those that are not JSON, or too slow to read (None), say nothing."""
    pieces: list[Piece] = []
    for event in server_events(events):
        try:
            event_pieces: list[Piece] | None = [
                _piece(choice, _read_message(choice)) for choice in _answer(event.data).choices
            ]
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            event_pieces = _leniently(read_piece, event.data.strip())
            if event_pieces is None and len(event.data) > LONGEST_LENIENT:
                return None
        pieces += event_pieces or ()
    return pieces


def _leniently(read: Callable[[Any], Any], said_as: str | bytes) -> list[Piece] | None:
    """Read an answer as a more lenient server or client does; None for anything else, or too long."""
    if len(said_as) > LONGEST_LENIENT:
        return None
    try:
        answer = read(said_as)
        choices = answer["choices"]
        converted = [msgspec.convert(choice, _Choice) for choice in choices]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return [_piece(choice, _read_message(choice)) for choice in converted]


def _read_message(choice: _Choice) -> Any:
    return choice.message if choice.delta is None else choice.delta


def _piece(choice: _Choice, message: Any) -> Piece:
    number = choice.index if isinstance(choice.index, int) else 0
    if not isinstance(message, dict):
        return Piece(number, choice.text if isinstance(choice.text, str) else "", False)
    audio = message.get("audio")
    transcript = audio.get("transcript") if isinstance(audio, dict) else None
    texts = [*_texts(message.get("content")), message.get("refusal"), transcript, choice.text]
    has_more = any(value for name, value in message.items() if name not in _SAID)
    return Piece(number, "".join(text for text in texts if isinstance(text, str)), has_more)


def _texts(content: Any) -> Iterator[Any]:
    if not isinstance(content, list):
        yield content
        return
    for part in content:
        if isinstance(part, dict):
            yield part.get("text")
            yield part.get("refusal")
        else:
            yield part
