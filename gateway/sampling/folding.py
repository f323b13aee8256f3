"""Reduces a copy to its text before it is stored: answers decompressed and joined, no media, no repeated envelopes. An
unreadable body stays: it is redacted to nothing. Some 15 ms a megabyte of events, never in the relay's worker.
"""

from collections.abc import Collection
from typing import Any, NamedTuple

import msgspec

from auditors.clients.inflating import InflateError, Inflater
from auditors.text.answers.joined import NOTES, joined, trimmed
from auditors.text.events import is_event_stream
from auditors.text.lenient_json import DEEPEST, read_json, well_formed_text
from auditors.types import Exchange
from gateway.config.schema import DECISION_PATHS
from gateway.privacy.media import PLACEHOLDER, is_numbers, is_token_data, numbers, numbers_kept, without_media

ENVELOPE_BYTES = 4096
"""Bytes that a body may have in addition to two bytes for each of `max_text_bytes`."""

MOST_INFLATED_BYTES = 16 * 1024 * 1024
"""Most bytes, decompressed, of a compressed answer: `sampling.max_copy_bytes` lets as many pass."""
_FED_AT_ONCE = 64 * 1024

FINGERPRINT = "system_fingerprint"
_ENVELOPE = frozenset(
    {"role", "type", "model", "id", "object", "call_id", "tool_call_id", "finish_reason", "stop_reason", "status"}
    | {FINGERPRINT, "detail", "format", "media_type", "reasoning_effort", "service_tier", NOTES}
)
"""Members whose strings are not text that a person or a model wrote."""
_LARGEST_WHOLE = 2**63 - 1


class TooMuchTextError(Exception):
    """A body has more than `max_text_bytes` of text, or besides so little text more than twice that of JSON."""


class _Body(NamedTuple):
    content: bytes
    text_bytes: int
    fingerprint: str | None = None


def folded(exchange: Exchange, max_text_bytes: int | None) -> Exchange:
    """The exchange with its bodies. Raises TooMuchTextError for one above `max_text_bytes`; None allows any."""
    exchange = inflated(exchange)
    bodies = (_request(exchange), _response(exchange))
    if max_text_bytes is not None:
        for body in bodies:
            if body.text_bytes > max_text_bytes or len(body.content) > 2 * max_text_bytes + ENVELOPE_BYTES:
                raise TooMuchTextError
    request, response = bodies
    return msgspec.structs.replace(
        exchange, request_body=request.content, response_body=response.content, system_fingerprint=response.fingerprint
    )


def inflated(exchange: Exchange) -> Exchange:
    """Return it with its answer decompressed (a missing end is common), empty if malformed. Raises TooMuchTextError."""
    if not exchange.content_encoding:
        return exchange
    inflater, compressed, body = Inflater(exchange.content_encoding), exchange.response_body, bytearray()
    try:
        for start in range(0, len(compressed), _FED_AT_ONCE):
            for piece in inflater.pieces(compressed[start : start + _FED_AT_ONCE]):
                body += piece
                if len(body) > MOST_INFLATED_BYTES:
                    raise TooMuchTextError
    except InflateError:
        body.clear()
    return msgspec.structs.replace(exchange, response_body=bytes(body), content_encoding="")


def _request(exchange: Exchange) -> _Body:
    body = exchange.request_body
    try:
        content = read_json(body)
    except ValueError:
        return _Body(body, len(body))
    return _written(content, numbers_kept(exchange.endpoint))


def _response(exchange: Exchange) -> _Body:
    body = exchange.response_body
    if is_event_stream(exchange) and exchange.endpoint not in DECISION_PATHS:
        return _write_answer(joined(exchange.endpoint, body))
    try:
        content = read_json(body)
    except ValueError:
        return _Body(body, len(body))
    if isinstance(content, dict) and exchange.endpoint not in DECISION_PATHS:
        content = trimmed(exchange.endpoint, content) or content
    return _write_answer(content)


def _write_answer(answer: Any) -> _Body:
    fingerprint = answer.get(FINGERPRINT) if isinstance(answer, dict) else None
    return _written(answer)._replace(fingerprint=fingerprint if isinstance(fingerprint, str) and fingerprint else None)


def _written(content: Any, with_numbers: Collection[str] = ()) -> _Body:
    text = _Text(with_numbers)
    return _Body(msgspec.json.encode(text.reduced(content)), text.n_bytes)


class _Text:
    """Keeps the parts of a value that are not media and not repetition, and counts its text."""

    def __init__(self, with_numbers: Collection[str]) -> None:
        self._numbers_kept = with_numbers
        self.n_bytes = 0
        """UTF-8 of all strings, but not of names of members, placeholders and what belongs to the envelope."""

    def reduced(self, value: Any, *, depth: int = 0, has_numbers: bool = False) -> Any:
        """Return the kept part of a value. `has_numbers`: numbers in it are not text."""
        match value:
            case str():
                return self._text(value)
            case dict() | list() if depth >= DEEPEST:
                return None
            case dict():
                return {
                    well_formed_text(key): well_formed_text(member)
                    if key in _ENVELOPE and isinstance(member, str)
                    else self.reduced(
                        member, depth=depth + 1, has_numbers=has_numbers or (depth == 0 and key in self._numbers_kept)
                    )
                    for key, member in without_media(value).items()
                    if has_numbers or not is_token_data(key, member)
                }
            case list() if is_numbers(value):
                return numbers(value, are_text=not has_numbers)
            case list():
                return [self.reduced(item, depth=depth + 1, has_numbers=has_numbers) for item in value]
            case int() if abs(value) > _LARGEST_WHOLE:
                try:
                    return float(value)
                except OverflowError:
                    return None
        return value

    def _text(self, text: str) -> str:
        text = well_formed_text(text)
        if text != PLACEHOLDER:
            self.n_bytes += len(text) if text.isascii() else len(text.encode())
        return text
