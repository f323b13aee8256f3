"""Reads the JSON object that a model was asked for, as a person does: fenced, in sentences, with odd commas, quotes,
constants and comments, wrapped, repeated or as YAML. A template with alternatives is none; two that differ are none.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from auditors.text.lenient_json import well_formed

DEEPEST = 20
"""Brackets in each other that are read; a reply that opens more is a loop."""
MOST_UNENDED = 5
"""Braces without an end that are tried; with `DEEPEST` it keeps reading in proportion to the length of the text."""

_DOUBLE = r'" (?: [^"\\] | \\. )*+ "?'
_CURLY = r"“ (?P<curly> [^“”]*+ ) ”"
_SINGLE = r"(?<= [\[{,:\s] ) ' (?P<single> (?: [^'\\{}\n] | \\. ){0,300}? ) ' (?= \s* (?: [\]},:] | $ ) )"
_COMMENT = r"(?: (?: // | (?<! \S ) \# ) [^\n]* | /\* .{0,300}? \*/ )"
_TOKEN = re.compile(rf"{_DOUBLE} | {_CURLY} | {_SINGLE} | {_COMMENT} | [\[\]{{}},]", re.VERBOSE | re.DOTALL)
_REPAIRED = re.compile(
    rf"""
    (?P<double> {_DOUBLE} ) | {_CURLY} | {_SINGLE}
  | (?P<dropped> {_COMMENT} | , (?= \s* (?: {_COMMENT} \s* )? [\]}}] ) | [^\S\ \t\r\n] )
  | (?P<sign> [+−–] ) (?= \d )
  | (?P<word> [A-Za-z_] \w* )
    """,
    re.VERBOSE | re.DOTALL,
)
_STRANGE_ESCAPE = re.compile(r'\\(?!["\\/bfnrtu])')
_CONSTANTS = {"true": "true", "false": "false", "null": "null", "none": "null"}
_LINE = re.compile(
    r"^[ \t]*(?P<dash>-[ \t]+)?[\"'*]{0,3}(?P<name>[A-Za-z_]\w{0,30})[\"'*]{0,3}:(?P<value>[^\n]*)$", re.MULTILINE
)
"""Line of YAML with a member of an object, or with the first one of an element of a list."""
_CLOSING = {"{": "}", "[": "]"}


class ReplyObject(NamedTuple):
    """The object of a reply."""

    fields: Mapping[str, Any]
    """Its members; names in lower case."""
    is_cut: bool
    """The reply ended within it, by more than its last brace: what follows is unknown."""


class NoObjectError(ValueError):
    """A reply without the object; the message says why."""


def read_reply_object(text: str | None, *names: str) -> ReplyObject:
    """The object with any of `names`, else the first; of a cut-off object its members so far. Raises NoObjectError."""
    objects = list(_objects(_unquote(text or "")))
    if names:
        objects = [candidate for candidate in objects if not candidate.fields.keys().isdisjoint(names)]
        objects = objects or list(_read_lines(text or "", names))
    if not objects:
        raise NoObjectError(f"no JSON object with {' or '.join(names)}" if names else "no JSON object")
    if not names:
        return objects[0]
    first, *further = [candidate for candidate in objects if not candidate.is_cut] or objects
    if any(other.fields != first.fields for other in further):
        raise NoObjectError("several JSON objects that differ")
    return first


def _unquote(text: str) -> str:
    """Return the text within a reply that is JSON's form of a text as a whole, else the reply."""
    if text.lstrip().startswith('"'):
        with suppress(ValueError):
            value = json.loads(text)
            return value if isinstance(value, str) else text
    return text


def _objects(text: str) -> Iterator[ReplyObject]:
    at, n_unended = text.find("{"), 0
    while at >= 0 and n_unended < MOST_UNENDED:
        end, spans = _span(text, at)
        n_unended += end is None
        for span, is_cut in spans:
            if (value := _decode(span)) is not None:
                yield from _with_members(value, is_cut=is_cut)
                at = len(text) - 1 if end is None else end - 1
                break
        at = text.find("{", at + 1)


def _read_lines(text: str, names: Sequence[str]) -> Iterator[ReplyObject]:
    """Yield the object that lines with all these names write; other names belong to the elements of the list before."""
    fields, elements = dict[str, Any](), list[Any]()
    for line in _LINE.finditer(text):
        name, written = line["name"].lower(), re.sub(r"(?:^|\s)#.*", "", line["value"]).strip(" \t\r*")
        decoded = _decode(f'{{"value": {written}}}')
        value = decoded["value"] if decoded else written.strip("\"'")
        if name in names:
            elements = []
            fields[name] = value if written else elements
        elif fields:
            if line["dash"] or not elements:
                elements.append({})
            elements[-1][name] = value
    if names and not set(names) - fields.keys():
        yield ReplyObject(fields, text.count("```") == 1)


def _span(text: str, start: int) -> tuple[int | None, Sequence[tuple[str, bool]]]:
    """End of the object at `start` (None if cut off) and texts to try: with missing brackets, without a broken tail."""
    open_brackets, last_whole = list[str](), (start, "")
    for token in _TOKEN.finditer(text, start):
        mark = token[0]
        if mark in _CLOSING:
            open_brackets.append(_CLOSING[mark])
            if len(open_brackets) > DEEPEST:
                return None, ()
        elif mark in "]}":
            if open_brackets.pop() != mark:
                return token.end(), ()
            if not open_brackets:
                return token.end(), [(text[start : token.end()], False)]
            last_whole = token.end(), "".join(reversed(open_brackets))
        elif mark == ",":
            last_whole = token.start(), "".join(reversed(open_brackets))
    end, closing = last_whole
    missing = "".join(reversed(open_brackets))
    return None, [(text[start:] + missing, len(missing) > 1), (text[start:end] + closing, True)]


def _decode(span: str) -> dict[str, Any] | None:
    for repaired in (str, _repair):
        try:
            value = json.loads(repaired(span), strict=False, object_hook=_in_lower_case)
        except (ValueError, RecursionError):
            continue
        return well_formed(value) if isinstance(value, dict) else None
    return None


def _in_lower_case(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name.strip().lower(): member for name, member in fields.items()}


def _repair(span: str) -> str:
    return _REPAIRED.sub(_as_json, span)


def _as_json(match: re.Match[str]) -> str:
    kind, written = match.lastgroup, match[0]
    if kind == "curly":
        return json.dumps(match["curly"])
    if kind == "single":
        return json.dumps(match["single"].replace("\\'", "'"))
    if kind == "word":
        return _CONSTANTS.get(written.lower()) or json.dumps(written)
    if kind == "double":
        return _STRANGE_ESCAPE.sub("", written)
    if kind == "sign":
        return "" if written == "+" else "-"
    return ""  # a comment, a comma at the end of a list, a blank that JSON does not know


def _with_members(value: Any, *, is_cut: bool) -> Iterator[ReplyObject]:
    """Yield an object and those within it, which a wrapper may have put there."""
    if isinstance(value, dict):
        yield ReplyObject(value, is_cut)
        for member in value.values():
            yield from _with_members(member, is_cut=is_cut)
    elif isinstance(value, list):
        for element in value:
            yield from _with_members(element, is_cut=is_cut)
    elif isinstance(value, str) and value.lstrip().startswith("{"):
        yield from _objects(value)


def read_flag(written: Any) -> bool | None:
    """Return a truth value that a model wrote, also as a word or a number; None for anything else."""
    word = written.strip().lower() if isinstance(written, str) else written
    for value, words in ((True, (True, "true", "yes", "1")), (False, (False, "false", "no", "0"))):
        if word in words:
            return value
    return None
