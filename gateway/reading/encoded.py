"""JSON of a known type that the API sends as it is, and the console reads."""

from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct

T = TypeVar("T")


class Encoded(Struct, Generic[T], frozen=True):
    """A value as JSON, written by another process or into the store: the API hands it on unread."""

    json: bytes
    kind: Any
    """The type of the value, as msgspec takes it."""

    def read(self) -> T:
        value: T = msgspec.json.decode(self.json, type=self.kind)
        return value


class EncodedPage(Encoded[list[T]], Generic[T], frozen=True):
    """Entries of a list as JSON."""

    total: int
    """Entries on all pages."""

    @classmethod
    def join(cls, kind: type[list[T]], total: int, parts: Sequence[bytes]) -> "EncodedPage[T]":
        """Return a page of entries of the type `list[T]`, each entry given as JSON."""
        return cls(b"[" + b",".join(parts) + b"]", kind, total)
