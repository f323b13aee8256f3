"""The response filter at work on an answer: holds text back, looks at it, and lets clean text go out byte for byte.
An answer that comes at once is held whole. A stream is looked at whenever a choice has said `window` characters more,
and at its end. Events without text (thoughts, calls of tools, usage) wait only behind text. Text is what users read:
content, its text parts, a refusal, a transcript. Thoughts and calls of tools are none: models think about stereotypes
in order to avoid them, and arguments are written for programs.
"""

import re
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any, Literal

import msgspec

from auditors.text.events import server_events
from auditors.text.lenient_json import read_json, read_piece
from gateway.features.mitigation.config import FILTERED_ENDPOINTS
from gateway.features.mitigation.filters.filter import Excerpt, Filter, HeldBytes
from gateway.features.mitigation.treatment import filter_impossible, filter_unavailable, response_refused
from gateway.proxy.headers import ResponseHead
from gateway.proxy.refusals import Refusal
from gateway.proxy.types import Looked

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
        return [*map(_piece, _answer(body).choices)]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _leniently(read_json, body)


def pieces_of_events(events: bytes) -> list[Piece] | None:
    """Return the pieces of complete events; those that are not JSON, or too slow to read (None), say nothing."""
    pieces: list[Piece] = []
    for event in server_events(events):
        try:
            event_pieces: list[Piece] | None = [*map(_piece, _answer(event.data).choices)]
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
        converted = [msgspec.convert(choice, _Choice) for choice in read(said_as)["choices"]]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return [*map(_piece, converted)]


def _piece(choice: _Choice) -> Piece:
    message = choice.message if choice.delta is None else choice.delta
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


_BLANK_LINE = re.compile(rb"(?:\r\n|\n|\r(?!\n))(?:\r\n|\n|\r(?=[^\n]))")
"""A line ending and another: a CR at the very end may be half of a CRLF, and is left for the next piece."""
_LONGEST_BLANK = 4


def events_end(received: bytes | bytearray, searched: int) -> tuple[int, int]:
    """Return the end of the last complete event, 0 for none, and where to search next (then given as `searched`)."""
    start, end = max(searched - _LONGEST_BLANK, 0), 0
    for blank_line in _BLANK_LINE.finditer(received, start):
        end = blank_line.end()
    return end, len(received)


MOST_HELD_BYTES = 8 * 1024 * 1024
"""Most bytes of an answer that are held."""
MOST_CHOICES = 16

ResponseOutcome = Literal[
    "clean", "no_text", "refused", "instructed", "timed_out", "failed", "unsupported", "held_back"
]
"""no_text: there was nothing to look at: an error, or calls of tools alone. held_back: of the control arm."""


class AnswerRun:
    """See `gateway.proxy.types.AnswerFilter`."""

    def __init__(
        self,
        policy: str,
        filter: Filter,
        endpoint: str,
        held: HeldBytes,
        *,
        is_required: bool,
        again: Callable[[], bytes | None],
    ) -> None:
        """`held`: what all answers of the worker hold back. `is_required`: what cannot be looked at is refused. `again`
        makes the request with the instruction; None where it cannot carry one, or has it already.
        """
        self._policy = policy
        self._filter = filter
        self._endpoint = endpoint
        self._total = held
        self._is_required = is_required
        self._again = again
        self._was_asked_again = False
        self.outcome: ResponseOutcome | None = None
        self.seconds: float | None = None
        """How long the client waited for the filter; of a stream, for its first bytes."""
        self.has_begun_to_pass = False
        """Something of the answer went out before the end was looked at."""
        self._reset()

    def _reset(self) -> None:
        self._is_events = False
        self._streams = False
        self._held = bytearray()
        self._held_since = 0.0
        self._searched = 0
        self._parsed = 0
        """Bytes of complete events whose text is in `_texts`."""
        self._texts: dict[int, Excerpt] = {}
        self._unseen: dict[int, int] = {}
        """Characters of each choice that were not looked at."""
        self._may_pass = False
        """Something beside text has come, or bytes went out: what has no text need not wait."""

    def begin(self, status: int, head: ResponseHead) -> bool | Refusal:
        if status != 200:
            self.outcome = "no_text"
            return False
        kind = head.content_type.partition(b";")[0].strip().lower()
        self._is_events = head.is_event_stream
        is_readable = head.is_identity and (self._is_events or kind == b"application/json")
        if not is_readable or self._endpoint not in FILTERED_ENDPOINTS:
            what = "in a form that it does not read" if head.is_identity else "compressed"
            return self._unsupported(what) or False
        # With a content-length nothing can be added to it, and it comes at once anyway.
        self._streams = self._is_events and head.content_length is None and self._filter.plan.then != "instruct"
        return True

    def take(self, data: bytes) -> Looked | None:
        if not self._held:
            self._held_since = self._held_since or perf_counter()
        self._held += data
        self._total.held += len(data)
        if len(self._held) > MOST_HELD_BYTES or self._total.held > self._total.most:
            return self._given_up(self._unsupported("longer than it holds back"))
        if self._is_events:
            end, self._searched = events_end(self._held, self._searched)
            if end > self._parsed:
                events, self._parsed = bytes(self._held[self._parsed : end]), end
                return self._note(pieces_of_events(events))
        return None

    def _note(self, pieces: list[Piece] | None) -> Looked | None:
        """Note the pieces to look at. Returns None where the answer can be looked at."""
        if pieces is None:
            return self._given_up(self._unsupported("not of its endpoint's form"))
        for piece in pieces:
            self._may_pass = self._may_pass or piece.has_more
            if not piece.text:
                continue
            if piece.choice not in self._texts and len(self._texts) >= MOST_CHOICES:
                return self._given_up(self._unsupported(f"one of more than {MOST_CHOICES} choices"))
            self._texts.setdefault(piece.choice, Excerpt()).add(piece.text)
            self._unseen[piece.choice] = self._unseen.get(piece.choice, 0) + len(piece.text)
        return None

    def is_due(self, *, is_complete: bool) -> bool:
        if is_complete:
            return True
        if not self._streams or not self._parsed:
            return False
        if not self._unseen:
            return self._may_pass
        return max(self._unseen.values()) >= (self._filter.plan.window or 1)

    async def look(self, *, is_complete: bool) -> Looked:
        began = perf_counter()
        if is_complete and (stopped := self._read_rest()):
            return stopped
        upto = len(self._held) if is_complete else self._parsed
        unseen, self._unseen = self._unseen, {}
        texts = [self._texts[choice] for choice in unseen]
        demands_all = self._is_required and not self._streams
        finding = await self._filter.look(texts, demands_all=demands_all) if texts else "clean"
        if self.seconds is None:
            self.seconds = perf_counter() - (self._held_since if self._streams else began)
        if finding == "biased":
            if self._filter.plan.then == "instruct" and not self._was_asked_again:
                self._was_asked_again = True
                content = self._again()
                if content is not None:
                    self.close()
                    self._reset()
                    return Looked(asks_again=content)
            self.outcome = "refused"
            return Looked(refusal=response_refused(self._policy))
        if finding != "clean":
            self.outcome = finding
            refusal = self._unsupported("too long") if finding == "unsupported" else self._unavailable(finding)
            return self._given_up(refusal)
        if is_complete:
            self.outcome = "instructed" if self._was_asked_again else "clean" if self._texts else "no_text"
        return Looked(released=self._release(upto))

    def _read_rest(self) -> Looked | None:
        if self._is_events:
            rest = bytes(self._held[self._parsed :])
            self._parsed = len(self._held)
            return self._note(pieces_of_events(rest + b"\n\n")) if rest else None
        return self._note(pieces_of_answer(bytes(self._held)))

    def _unavailable(self, finding: str) -> Refusal | None:
        what = "gave no verdict in time" if finding == "timed_out" else "cannot be asked"
        return filter_unavailable(self._policy, "response filter", what) if self._is_required else None

    def _unsupported(self, what: str) -> Refusal | None:
        self.outcome = "unsupported"
        if not self._is_required:
            return None
        return filter_impossible(self._policy, f"looks at each answer, and this one is {what}")

    def _given_up(self, refusal: Refusal | None) -> Looked:
        if refusal is not None:
            return Looked(refusal=refusal)
        note = b""
        if self.has_begun_to_pass and self._is_events:
            note = b": x-biasgate-mitigation response=%b\n\n" % str(self.outcome).encode()
        return Looked(released=note + self._release(len(self._held)), is_over=True)

    def _release(self, upto: int) -> bytes:
        released = bytes(self._held[:upto])
        del self._held[:upto]
        self._total.held -= upto
        self._parsed = max(self._parsed - upto, 0)
        self._searched = max(self._searched - upto, 0)
        if released:
            self.has_begun_to_pass = self._may_pass = True
        return released

    def close(self) -> None:
        self._total.held -= len(self._held)
        self._held.clear()
