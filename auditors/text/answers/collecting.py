"""The common parts of all collectors of an answer: envelope, bounds, and the reading of odd values."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from io import StringIO
from typing import Any, TypeVar

import msgspec

from auditors.text.lenient_json import well_formed

MOST_PARTS = 1024
"""Choices of an answer, calls and parts of a choice, items or blocks."""

REASONING_TOKENS = "reasoning_tokens"
"""Member of `usage`: the tokens of thought, for which servers have a member of their own."""

_MOST_COUNTS = 32
"""Members of `usage`."""
Json = dict[str, Any]
_Key = TypeVar("_Key", bound=Hashable)
_Entry = TypeVar("_Entry")


class Answer(ABC):
    """Collects one answer; a subclass knows one endpoint's shapes."""

    def __init__(self) -> None:
        self.is_ended = False
        self.has_failed = False
        self._about: Json = {}

    @abstractmethod
    def take(self, event: Json) -> None:
        """Adds an event."""

    @abstractmethod
    def take_whole(self, response: Json) -> bool:
        """Adds an answer that came at once; False when it has another shape than its endpoint documents."""

    @abstractmethod
    def _parts(self) -> Json:
        """The members that hold what was said."""

    def whole(self) -> Json:
        return self._parts() | self._about

    def _note(self, piece: Json) -> None:
        """Takes what an object says about the answer."""
        for field in ("model", "system_fingerprint"):
            if isinstance(value := piece.get(field), str):
                self._about[field] = value
        usage = piece.get("usage")
        if isinstance(usage, dict) and usage:
            counts = ((key, n) for key, n in list(usage.items())[:_MOST_COUNTS] if isinstance(n, int | float))
            merged = {**self._about.get("usage", {}), **dict(counts)}
            if thought := thought_tokens(usage):
                merged[REASONING_TOKENS] = thought
            self._about["usage"] = merged


class Item:
    """One item of a response, or block of a message."""

    def __init__(self) -> None:
        self.kind = "message"
        self.name = ""
        self.arguments = StringIO()
        self.texts: dict[tuple[str, int], StringIO] = {}
        """By kind of part and its index."""

    def write(self, kind: str, index: Any, text: Any) -> None:
        if isinstance(text, str):
            place = entry(self.texts, (kind, index if isinstance(index, int) else 0), StringIO)
            if place is not None:
                place.write(text)


def thought_tokens(usage: Json) -> int:
    """Tokens of thought in an answer's `usage`, as it came or as it was joined; 0 where it does not say."""
    tokens = usage.get(REASONING_TOKENS)
    for details in (usage.get("completion_tokens_details"), usage.get("output_tokens_details")):
        if isinstance(details, dict):
            tokens = tokens or details.get(REASONING_TOKENS)
    return tokens if isinstance(tokens, int) else 0


def entry(entries: dict[_Key, _Entry], key: _Key, make: Callable[[], _Entry]) -> _Entry | None:
    """The entry of this key, made where there is none; None when there are MOST_PARTS others."""
    if key not in entries:
        if len(entries) >= MOST_PARTS:
            return None
        entries[key] = make()
    return entries[key]


def objects(value: Any) -> list[Json]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def string(value: Any) -> str:
    return value if isinstance(value, str) else ""


def json_text(value: Any) -> str:
    """The value as JSON; empty when it cannot be written, as one nested too deeply or a number too large."""
    try:
        return msgspec.json.encode(well_formed(value)).decode()
    except (RecursionError, OverflowError):
        return ""
