"""JSON in its written form: its strings, and the same text with others in their places and all else, such as a number
1.10 or a blank, as it was written.
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from auditors.text.swaps.leaves import Leaf, leaves, member_names

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
