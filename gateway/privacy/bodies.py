"""Redacts what passed over the wire: JSON bodies and event streams, so that they can still be read as what they were.

A value split over many events is put together first: `ann@` in one piece and `example.org` in the next is an address.
Whatever could carry text past the patterns is dropped: token ids, log-probabilities, media, bodies that are no JSON.
"""

import re
from collections import Counter
from collections.abc import Generator, Iterable, Iterator
from typing import Any

import msgspec

from auditors.text.conversation import server_events
from gateway.privacy.redaction import Redactor

USER_PLACEHOLDER = "[user]"
MEDIA_PLACEHOLDER = "[media]"
EVENTS_AT_ONCE = 16
"""Events of a stream redacted before others get their turn; a quarter of a millisecond."""

_USER_FIELDS = ("user", "safety_identifier", "prompt_cache_key")
_TOKEN_FIELDS = frozenset({"logprobs", "prompt_logprobs", "token_ids", "prompt_token_ids", "kv_transfer_params"})
_REPEATED_FIELDS = frozenset(
    {
        "id",
        "object",
        "type",
        "role",
        "model",
        "item_id",
        "call_id",
        "finish_reason",
        "system_fingerprint",
        "service_tier",
    }
)
"""The same in every event of a stream: no text in pieces."""
_NUMBERS = ("index", "output_index", "content_index")
"""What tells the parts of an answer apart."""
_EVENT_NAMES = frozenset(
    {"error", "ping", "message_start", "message_delta", "message_stop"}
    | {f"content_block_{part}" for part in ("start", "delta", "stop")}
)
_MEDIA = re.compile(
    r"\A(?:data:[\w.+-]{1,100}+/[\w.+-]{1,100}+(?:;[\w.+-]{1,100}=[\w.+-]{1,100}){0,4};base64,[A-Za-z0-9+/_-]*+"
    r"|[A-Za-z0-9+/_-]{512,}+)={0,2}\s{0,2}\Z"
)
"""A whole string of media. What only begins like one is text."""

_Place = tuple[str | int, ...]


def user_of(request: bytes) -> str | None:
    """Who asked, as the client names them: `user`, `safety_identifier` or `metadata.user_id`; None when it does not."""
    body = _decoded(request)
    if not isinstance(body, dict):
        return None
    metadata = body.get("metadata")
    in_metadata = metadata.get("user_id") if isinstance(metadata, dict) else None
    given = [body.get("user"), body.get("safety_identifier"), in_metadata]
    return next((one for one in given if isinstance(one, str) and one), None)


def redacted_request(body: bytes, redactor: Redactor, found: Counter[str]) -> bytes:
    """The request without what identifies a person; empty when it is no JSON, which nobody could audit either."""
    content = _decoded(body)
    if content is None:
        return b""
    if isinstance(content, dict):
        _hide_user(content)
    return _encoded(content, redactor, found)


def redacted_response(body: bytes, redactor: Redactor, found: Counter[str]) -> bytes:
    """The same for a response of one JSON object; one of events is for `redacted_stream`."""
    content = _decoded(body)
    return b"" if content is None else _encoded(content, redactor, found)


def _hide_user(request: dict[str, Any]) -> None:
    holders: list[tuple[Any, str]] = [(request, field) for field in _USER_FIELDS]
    holders.append((request.get("metadata"), "user_id"))
    for holder, field in holders:
        if isinstance(holder, dict) and holder.get(field) is not None:
            holder[field] = USER_PLACEHOLDER


def _encoded(content: Any, redactor: Redactor, found: Counter[str]) -> bytes:
    try:
        return msgspec.json.encode(_walked(content, redactor, found))
    except RecursionError:
        return b""


def _walked(value: Any, redactor: Redactor, found: Counter[str]) -> Any:
    """The same value with every string in it redacted, keys too."""
    match value:
        case str():
            return _redacted_string(value, redactor, found)
        case dict():
            return {
                redactor.redacted_name(key, found): None if key in _TOKEN_FIELDS else _walked(one, redactor, found)
                for key, one in value.items()
            }
        case list():
            return [] if _is_tokens(value) else [_walked(one, redactor, found) for one in value]
    return value


def _redacted_string(text: str, redactor: Redactor, found: Counter[str]) -> str:
    if _MEDIA.match(text):
        found["media"] += 1
        return MEDIA_PLACEHOLDER
    return redactor.redacted(text, found)


def _is_tokens(values: list[Any]) -> bool:
    """Whether a list can be nothing but text as numbers: token ids, or the bytes of a token."""
    return bool(values) and all(isinstance(one, int) and not isinstance(one, bool) for one in values)


def redacted_stream(body: bytes, redactor: Redactor, found: Counter[str]) -> Generator[None, None, bytes]:
    """Every event again, each string with its own part of what its channel says in all.

    Yields after every few events, so that whoever has live traffic can look after it; returns the stream.
    """
    events: list[tuple[str, list[Any]]] = []
    strings = _Strings(redactor, found)
    try:
        for event in server_events(body):
            content = ["[DONE]" if event.data.strip() == "[DONE]" else _decoded(event.data.encode())]
            kind = content[0].get("type") if isinstance(content[0], dict) else None
            strings.take(content, (event.name, kind if isinstance(kind, str) else ""))
            events.append((event.name, content))
            if len(events) % EVENTS_AT_ONCE == 0:
                yield
    except RecursionError:
        return b""
    for _ in strings.redact_pieces():
        yield
    written = bytearray()
    for number, (name, content) in enumerate(events):
        written += _event(name, content[0])
        if number % (8 * EVENTS_AT_ONCE) == 0:
            yield
    return bytes(written)


class _Strings:
    """All strings of a stream: fields that are the same in each event are redacted as they come, the others by channel.

    Channels are the same over the events of a stream: list items are told apart by their own `index`, if they have one.
    """

    def __init__(self, redactor: Redactor, found: Counter[str]) -> None:
        self._redactor = redactor
        self._found = found
        self._channels: dict[_Place, list[tuple[Any, str | int]]] = {}
        """What holds each piece, and under which key, in the order of the events."""
        self._shown_as: dict[str, str] = {}

    def take(self, value: dict[str, Any] | list[Any], place: _Place) -> None:
        """Notes where each string stands, and drops what is text in numbers. `value` was decoded: no subclasses."""
        if type(value) is dict:
            for field in _TOKEN_FIELDS & value.keys():
                value[field] = None
            for name in _NUMBERS:
                if isinstance(number := value.get(name), int):
                    place = (*place, number)
            entries: Iterable[tuple[Any, Any]] = value.items()
        else:
            entries = enumerate(value)
        for key, one in entries:
            kind = type(one)
            if kind is str:
                if key in _REPEATED_FIELDS:
                    value[key] = self._shown(one)
                else:
                    self._channels.setdefault((*place, key), []).append((value, key))
            elif kind is dict:
                index = one.get("index") if type(value) is list else None
                self.take(one, (*place, index if isinstance(index, int) else key))
            elif kind is list:
                if _is_tokens(one):
                    value[key] = []
                else:
                    self.take(one, (*place, key))

    def _shown(self, said: str) -> str:
        shown = self._shown_as.get(said)
        if shown is None:
            shown = self._shown_as[said] = _redacted_string(said, self._redactor, self._found)
        return shown

    def redact_pieces(self) -> Iterator[None]:
        """Redacts the strings of each channel in place, as one text in pieces; yields after each channel."""
        for holders in self._channels.values():
            whole = "".join(holder[key] for holder, key in holders)
            shown = _redacted_string(whole, self._redactor, self._found)
            if shown != whole:
                for number, (holder, key) in enumerate(holders):
                    holder[key] = "" if number else shown
            yield


def _event(name: str, content: Any) -> bytes:
    """One event; what was no JSON is null, which no auditor can read either."""
    text = b"[DONE]" if content == "[DONE]" else msgspec.json.encode(content)
    head = f"event: {name}\n".encode() if name in _EVENT_NAMES or name.startswith("response.") else b""
    return head + b"data: " + text + b"\n\n"


def _decoded(body: bytes) -> Any:
    """The JSON value, or None when it is none."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
