"""The plain form of a text, in which terms are looked for, and the way back to the places of the text itself.

Typographic hyphens, blanks and apostrophes become those of ASCII; full-width and mathematical letters and ligatures
become letters; characters without width and the emphasis of Markdown (`_women_`, `**women**`) are left out. Quotation
marks, accents, case and everything else stay. Standard library only: the gateway uses it for sampling.
"""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field

_BLANKS = "\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000"
_HYPHENS = "\u2010-\u2013\u2212\ufe63\uff0d"
_APOSTROPHES = "\u2018\u2019\u201b\u02bc\u2032\u00b4\uff07"
_WITHOUT_WIDTH = "\u00ad\u200b\u200c\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff"
_LETTERS = "\uff10-\uff19\uff21-\uff3a\uff41-\uff5a\ufb00-\ufb06\U0001d400-\U0001d7ff"
_JOINER = "\u200d"
"""Between letters without meaning in English; between emoji it makes them one."""
_ODD = re.compile(rf"[*_]+|[{_BLANKS}{_HYPHENS}{_APOSTROPHES}{_WITHOUT_WIDTH}{_LETTERS}{_JOINER}]")
_CLASSES = [
    (re.compile(f"[{_BLANKS}]"), " "),
    (re.compile(f"[{_HYPHENS}]"), "-"),
    (re.compile(f"[{_APOSTROPHES}]"), "'"),
    (re.compile(f"[{_WITHOUT_WIDTH}]"), ""),
]
_MOST_EMPHASIS = 3


@dataclass(frozen=True, slots=True)
class Plain:
    """A text in its plain form."""

    original: str
    text: str
    _starts: list[int] = field(default_factory=lambda: [0])
    """Places in the plain form from which on both run side by side, and in `_origins` where they are in the text."""
    _origins: list[int] = field(default_factory=lambda: [0])

    def rewritten(self, changes: Iterable[tuple[int, int, str]]) -> str:
        """Return the original with other words at places of the plain form, which are given in order."""
        parts, at = list[str](), 0
        for start, end, new in changes:
            parts += [self.original[at : self._place(start)], new]
            at = self._place(end - 1) + 1
        return "".join([*parts, self.original[at:]])

    def written(self, start: int, end: int) -> str:
        """Return what stands in the original at places of the plain form."""
        return self.original[self._place(start) : self._place(end - 1) + 1]

    def _place(self, at: int) -> int:
        segment = bisect_right(self._starts, at) - 1
        return self._origins[segment] + at - self._starts[segment]


def plain_text(text: str) -> Plain:
    """Return the plain form of a text, in linear time."""
    if text.isascii() and "_" not in text and "*" not in text:
        return Plain(text, text)
    parts, at, length = list[str](), 0, 0
    starts, origins = [0], [0]
    for odd in _ODD.finditer(text):
        new = _plain_form(text, odd)
        parts += [text[at : odd.start()], new]
        length += odd.start() - at + len(new)
        at = odd.end()
        if len(new) != len(odd[0]):
            for place in range(length - len(new), length):
                starts.append(place)
                origins.append(odd.start())
            starts.append(length)
            origins.append(at)
    return Plain(text, "".join([*parts, text[at:]]), starts, origins)


def _plain_form(text: str, odd: re.Match[str]) -> str:
    characters = odd[0]
    before, after = text[odd.start() - 1 : odd.start()], text[odd.end() : odd.end() + 1]
    if characters[0] in "*_":
        is_at_an_edge = before.isalnum() != after.isalnum()
        return "" if is_at_an_edge and len(characters) <= _MOST_EMPHASIS else characters
    if characters == _JOINER:
        return "" if before.isalpha() and after.isalpha() else characters
    for pattern, plain in _CLASSES:
        if pattern.match(characters):
            return plain
    return unicodedata.normalize("NFKC", characters)
