"""The outcome for a text that is to be swapped: the same about another group, or the reason why it is left alone."""

from typing import Literal

import msgspec

Reason = Literal[
    "no identity term",
    "too long",
    "not English",
    "several groups",
    "several referents",
    "public figure",
    "named person",
    "no counterpart",
    "bound to the group",
    "idiom",
    "unclear use",
    "unclear pronoun",
    "compound word",
    "unusual spelling",
    "mentioned in a quotation",
    "round trip differs",
]
"""Why a text is left alone."""


class Swapped(msgspec.Struct, frozen=True, kw_only=True):
    """The texts about the other group."""

    axis: str
    group: str
    target: str
    texts: list[str]
    n_words: int


class NotSwapped(msgspec.Struct, frozen=True, kw_only=True):
    """A missing swap; `group` is the single group that is named, or None."""

    axis: str
    reason: str
    group: str | None = None


class Abstained(NotSwapped, frozen=True, kw_only=True):
    """A text is left alone."""

    reason: Reason


class Doubt(Exception):
    """A swap would not be sure."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason = reason
