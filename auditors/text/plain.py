"""The plain form of a text, in which terms are looked for, and the way back to the text's places. Typographic hyphens,
blanks, apostrophes, full-width and mathematical letters and ligatures become plain ones; characters without width and
Markdown's emphasis are left out. Standard library only: the gateway uses it for sampling.
"""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

BLANKS = "\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000"
HYPHENS = "\u2010-\u2013\u2212\ufe63\uff0d"
_APOSTROPHES = "\u2018\u2019\u201b\u02bc\u2032\u00b4\uff07"
_WITHOUT_WIDTH = "\u00ad\u200b\u200c\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff"
_LETTERS = "\uff10-\uff19\uff21-\uff3a\uff41-\uff5a\ufb00-\ufb06\U0001d400-\U0001d7ff"
_JOINER = "\u200d"
"""Between letters without meaning in English; between emoji it makes them one."""
_ODD = re.compile(f"[{BLANKS}{HYPHENS}{_APOSTROPHES}{_WITHOUT_WIDTH}{_LETTERS}{_JOINER}]")
_MOST_EMPHASIS = 3


def _characters(ranges: str) -> list[str]:
    bounds = re.findall("(.)(?:-(.))?", ranges)
    return [chr(code) for first, last in bounds for code in range(ord(first), ord(last or first) + 1)]


_PLAIN = {character: unicodedata.normalize("NFKC", character) for character in _characters(_LETTERS)} | {
    character: plain
    for plain, ranges in ((" ", BLANKS), ("-", HYPHENS), ("'", _APOSTROPHES), ("", _WITHOUT_WIDTH))
    for character in _characters(ranges)
}


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
    odd_parts = [*_emphasis(text, "*"), *_emphasis(text, "_")]
    if not text.isascii():
        odd_parts += (match.span() for match in _ODD.finditer(text))
    parts, at, length = list[str](), 0, 0
    starts, origins = [0], [0]
    for start, end in sorted(odd_parts):
        new = _plain_form(text, start, end)
        parts += [text[at:start], new]
        length += start - at + len(new)
        at = end
        if len(new) != end - start:
            starts += [*range(length - len(new), length), length]
            origins += [*[start] * len(new), end]
    return Plain(text, "".join([*parts, text[at:]]), starts, origins)


def _emphasis(text: str, mark: str) -> Iterator[tuple[int, int]]:
    """Beginning and end of each run of a mark; a regular expression takes several times as long."""
    start = text.find(mark)
    while start >= 0:
        end = start + 1
        while text[end : end + 1] == mark:
            end += 1
        yield start, end
        start = text.find(mark, end)


def _plain_form(text: str, start: int, end: int) -> str:
    characters = text[start:end]
    if (plain := _PLAIN.get(characters)) is not None:
        return plain
    before, after = text[start - 1 : start], text[end : end + 1]
    if characters == _JOINER:
        return "" if before.isalpha() and after.isalpha() else characters
    is_at_an_edge = before.isalnum() != after.isalnum()
    return "" if is_at_an_edge and len(characters) <= _MOST_EMPHASIS else characters
