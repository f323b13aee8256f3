"""The strings of a JSON value, one after the other, and the same value with others in their places."""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

MOST_TEXTS = 1_000
"""Strings of a value that are swapped one by one; one with more is left alone."""

_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_JOINED = re.compile(r"[_\-.]+")


class Leaf(NamedTuple):
    """One string and the name of the member that it is the value of, in words; "" for one that stands by itself."""

    text: str
    name: str = ""


def leaves(value: Any, name: str = "") -> Iterator[Leaf]:
    """Every string of a value that is no member's name, in the order of the text."""
    match value:
        case str():
            yield Leaf(value, name)
        case dict():
            for key, one in value.items():
                yield from leaves(one, in_words(key))
        case list():
            for one in value:
                yield from leaves(one, name)


def with_leaves(value: Any, texts: Iterator[str]) -> Any:
    """The value with the next texts in place of its strings. `texts` has as many as `leaves` gives."""
    match value:
        case str():
            return next(texts)
        case dict():
            return {key: with_leaves(one, texts) for key, one in value.items()}
        case list():
            return [with_leaves(one, texts) for one in value]
    return value


def member_names(value: Any) -> Iterator[str]:
    """Names of all members, in words."""
    match value:
        case dict():
            for key, one in value.items():
                yield in_words(key)
                yield from member_names(one)
        case list():
            for one in value:
                yield from member_names(one)


def in_words(name: str) -> str:
    """A name's words in small letters: "home address" of "homeAddress", "home_address" and "home-address"."""
    return _JOINED.sub(" ", _CAMEL.sub(" ", name)).strip().lower()
