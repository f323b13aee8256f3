"""The parts of a text that no swap may touch: code, quotations, addresses, markup and data."""

import json
import re
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


def protected_spans(text: str) -> list[Span]:
    """Every span that must stay as it is, sorted by place; spans may overlap."""
    found = [Span(*one.span(), kind) for kind, finder in _BY_KIND for one in finder.finditer(text)]
    found += _data(text)
    return sorted(found)


def _data(text: str) -> list[Span]:
    """Objects and lists that are whole JSON and hold something."""
    found, at, starts = list[Span](), 0, 0
    while starts < MOST_JSON_STARTS and (match := _OPENING.search(text, at)):
        starts, at = starts + 1, match.end()
        try:
            value, end = _decoder.raw_decode(text, match.start())
        except (ValueError, RecursionError):
            continue
        if value:
            found.append(Span(match.start(), end, "json"))
            at = end
    return found


_OPENING = re.compile(r"[\[{]")
_decoder = json.JSONDecoder()
