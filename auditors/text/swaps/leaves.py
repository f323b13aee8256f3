"""The strings of a JSON value, one after the other, and the same value with others in their places."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from auditors.text.swaps.lexicon import PATTERNS

MOST_TEXTS = 1_000
"""Most strings of a value that are swapped singly; a value with more is left alone."""

_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_JOINED = re.compile(r"[_\-.]+")


class Leaf(NamedTuple):
    """A string and the name of the member whose value it is, in words; "" for a string that stands by itself."""

    text: str
    name: str = ""


def leaves(value: Any, name: str = "") -> Iterator[Leaf]:
    """Yield every string of a value except the names of members, in the order of the text."""
    match value:
        case str():
            yield Leaf(value, name)
        case dict():
            for key, item in value.items():
                yield from leaves(item, in_words(key))
        case list():
            for item in value:
                yield from leaves(item, name)


def with_leaves(value: Any, texts: Iterator[str]) -> Any:
    """The value with the next texts in place of its strings. `texts` has as many as `leaves` gives."""
    match value:
        case str():
            return next(texts)
        case dict():
            return {key: with_leaves(item, texts) for key, item in value.items()}
        case list():
            return [with_leaves(item, texts) for item in value]
    return value


def member_names(value: Any) -> Iterator[str]:
    match value:
        case dict():
            for key, item in value.items():
                yield in_words(key)
                yield from member_names(item)
        case list():
            for item in value:
                yield from member_names(item)


def in_words(name: str) -> str:
    """A name's words in small letters: "home address" of "homeAddress", "home_address" and "home-address"."""
    return _JOINED.sub(" ", _CAMEL.sub(" ", name)).strip().lower()


NAMED_IN_MEMBERS = "a member's name names the group"
LONGEST_NAMED = 40
"""Characters of a value that is read by its member's name."""
MEMBERS: Mapping[str, frozenset[str]] = {
    "gender": frozenset({"gender", "sex"}),
    "race": frozenset({"race", "ethnicity", "ethnic group", "ethnic origin"}),
    "religion": frozenset({"religion", "faith", "religious affiliation"}),
    "nationality": frozenset({"nationality", "citizenship"}),
    "sexual_orientation": frozenset({"sexual orientation", "orientation"}),
    "ability": frozenset({"disability", "ability"}),
    "politics": frozenset({"politics", "political affiliation", "party"}),
    "age": frozenset({"age group"}),
    "socioeconomic": frozenset({"social class", "class"}),
    "body_type": frozenset({"body type", "build"}),
}
"""Names of members whose value is a group of the axis."""
_BEFORE, _BEHIND = "the ", " person"


def framed(leaf: Leaf, axis: str) -> str:
    """The string as it is meant, in words."""
    return f"{_BEFORE}{leaf.text}{_BEHIND}" if _is_named(leaf, axis) else leaf.text


def bare(text: str, leaf: Leaf, axis: str) -> str:
    """Undoes `framed`, of a text that may have been swapped since."""
    return text.removeprefix(_BEFORE).removesuffix(_BEHIND) if _is_named(leaf, axis) else text


def names_a_group(names: Iterable[str], axis: str) -> bool:
    """Return whether any of these names (of members, labels, tools) has a word for a group of the axis."""
    return any(PATTERNS[axis].search(in_words(name)) for name in names)


def _is_named(leaf: Leaf, axis: str) -> bool:
    return leaf.name in MEMBERS.get(axis, ()) and 0 < len(leaf.text) <= LONGEST_NAMED


DEEPEST = 40
"""Objects and arrays in each other; what is nested deeper is not read."""

_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+"?(?P<colon>[ \t\r\n]*+:)?|[\[{]|[\]}]', re.DOTALL)
"""A string, which may lack its end, with the colon behind the name of a member; or a bracket."""


class JsonText(NamedTuple):
    """A text that is JSON."""

    text: str
    leaves: Sequence[Leaf]
    """Its strings that are values, in order."""
    places: Sequence[tuple[int, int]]
    """Beginning and end of each in the text, with its quotation marks."""
    names: Sequence[str]
    """Names of its members, in words, each once."""

    def with_strings(self, texts: Iterator[str]) -> str:
        """The JSON text with the next texts in place of its strings. `texts` has as many as there are leaves."""
        parts, at = list[str](), 0
        for leaf, (start, end) in zip(self.leaves, self.places, strict=True):
            if (other := next(texts)) != leaf.text:
                written = self.text[start:end]
                is_ascii = written.isascii() or "\\u" in written
                parts += [self.text[at:start], json.dumps(other, ensure_ascii=is_ascii)]
                at = end
        return "".join([*parts, self.text[at:]])


def read_json_text(text: str) -> JsonText | None:
    """Read a text's strings as JSON, in linear time; None if not JSON, with repeated members, or too deep."""
    if is_deeper(text, DEEPEST):
        return None
    try:
        value = json.loads(
            text, object_pairs_hook=_object, parse_int=_number, parse_float=_number, parse_constant=_number
        )
    except ValueError:
        return None
    places = [match.span() for match in _TOKEN.finditer(text) if match[0][0] == '"' and not match["colon"]]
    return JsonText(text, list(leaves(value)), places, list(dict.fromkeys(member_names(value))))


def is_deeper(text: str, levels: int) -> bool:
    """Return whether brackets outside of strings are nested deeper than so many levels, in JSON or any other text."""
    depth = 0
    for token in _TOKEN.finditer(text):
        match token[0]:
            case "[" | "{":
                depth += 1
                if depth > levels:
                    return True
            case "]" | "}":
                depth -= 1
    return False


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a member occurs twice")
    return members


def _number(_: str) -> int:
    return 0
