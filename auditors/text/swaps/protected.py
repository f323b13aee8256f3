"""The parts of a text that no swap may touch: code, quotations, addresses, markup and data."""

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

SpanKind = Literal["code", "quote", "address", "markup", "json"]

MOST_JSON_STARTS = 40
"""Places where data is searched for; a text with more braces than that keeps the rest open."""


class Span(NamedTuple):
    start: int
    end: int
    kind: SpanKind


_BY_KIND: tuple[tuple[SpanKind, re.Pattern[str]], ...] = (
    ("code", re.compile(r"^[ ]{0,3}(`{3,}+|~{3,}+)[^\n]*+\n.*?(?:^[ ]{0,3}\1[`~]*[ \t]*$|\Z)", re.M | re.S)),
    ("code", re.compile(r"(?<!`)(`{1,2})(?!`)[^`\n]+\1(?!`)")),
    ("code", re.compile(r"^(?: {4}|\t)[^\n]*[;{}()=<>\[\]][^\n]*$", re.M)),
    ("address", re.compile(r"\b[a-z][a-z0-9+.-]{1,15}://[^\s<>\"”»]+|\bwww\.[^\s<>\"”»]+", re.I)),
    ("address", re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,5}|(?<!\w)[@#]\w+")),
    ("address", re.compile(r"(?<!\w)(?:~|\.{1,2})?(?:/[\w.-]{1,100}){2,40}/?|\b[A-Za-z]:\\[^\s]+")),
    (
        "address",
        re.compile(
            r"(?<![\w.-])[\w-]{1,63}(?:\.[\w-]{1,63}){0,5}\.(?:com|org|net|edu|gov|io|co|uk|de|info|html?|pdf|py|js|json|txt|csv|md|sh)\b"
            r"(?:/[^\s<>\"]*)?",
            re.I,
        ),
    ),
    ("quote", re.compile(r"^[ ]{0,3}>[^\n]*$", re.M)),
    (
        "quote",
        re.compile(
            r"\"(?:[^\"\n]|\n(?![^\S\n]*+\n))*+\"|“(?:[^“”\n]|\n(?![^\S\n]*+\n)|“[^“”\n]{0,200}+”)*+”|«[^«»\n]*+»"
            r"|„[^„“”\n]*+[“”]|「[^「」\n]*+」|‘(?:[^‘’\n]|’(?=\w))*’|(?<![\w'])'(?=\S)(?:[^'\n]|'(?=\w)){0,300}'(?!\w)"
        ),
    ),
    ("markup", re.compile(r"<[^<>\n]{1,200}>|\{\{?[^{}\n]{0,200}\}\}?|\$\w+|%\w+%")),
)


class _Union:
    """The places that spans of a kind cover, as ordered disjoint intervals: a question takes logarithmic time."""

    def __init__(self, spans: Iterable[Span]) -> None:
        self._starts, self._ends = list[int](), list[int]()
        for span in sorted(spans):
            if self._ends and span.start <= self._ends[-1]:
                self._ends[-1] = max(self._ends[-1], span.end)
            else:
                self._starts.append(span.start)
                self._ends.append(span.end)

    def overlaps(self, start: int, end: int) -> bool:
        first = bisect_right(self._ends, start)
        return first < bisect_left(self._starts, end)


class ProtectedSpans:
    """The spans of a text that must stay as they are; spans may overlap."""

    def __init__(self, spans: Iterable[Span]) -> None:
        self._spans = sorted(spans)
        self._of_any_kind = _Union(self._spans)
        self._by_kind = {
            kind: _Union(span for span in self._spans if span.kind == kind)
            for kind in {span.kind for span in self._spans}
        }

    def __iter__(self) -> Iterator[Span]:
        return iter(self._spans)

    def overlap(self, start: int, end: int) -> bool:
        """Return whether a span of any kind has a character in common with the places from `start` to before `end`."""
        return self._of_any_kind.overlaps(start, end)

    def kinds(self, start: int, end: int) -> set[SpanKind]:
        """Return the kinds of the spans that have a character in common with these places."""
        return {kind for kind, union in self._by_kind.items() if union.overlaps(start, end)}


def protected_spans(text: str) -> ProtectedSpans:
    """Return every span of a text that must stay as it is."""
    spans = [Span(*match.span(), kind) for kind, finder in _BY_KIND for match in finder.finditer(text)]
    return ProtectedSpans([*spans, *_data(text)])


def _data(text: str) -> list[Span]:
    spans, at, starts = list[Span](), 0, 0
    while starts < MOST_JSON_STARTS and (match := _OPENING.search(text, at)):
        starts, at = starts + 1, match.end()
        try:
            value, end = _decoder.raw_decode(text, match.start())
        except (ValueError, RecursionError):
            continue
        if value:
            spans.append(Span(match.start(), end, "json"))
            at = end
    return spans


_OPENING = re.compile(r"[\[{]")
_decoder = json.JSONDecoder()
