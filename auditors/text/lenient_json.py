"""Reads JSON as leniently as any server (NaN, BOM, UTF-16, lone surrogates, repeated members), down to DEEPEST."""

import json
import re
from typing import Any

import msgspec

DEEPEST = 100
"""Arrays and objects in each other that are read; schemas of tools have some ten."""

MOST_CONTAINERS_AT_ONCE = 50_000
"""Objects and lists that are decoded in one call, which takes 10 ms; no other thread runs meanwhile."""

_LONGEST_NUMBER = 300
"""Digits; more would take Python's conversion time that is more than linear."""
_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)
"""A string, which may lack its end, or a bracket."""


def read_json(body: bytes) -> Any:
    """Return the value of a body; every string can be encoded. Raises ValueError when it is not JSON to any reader."""
    try:
        value = _strict(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return well_formed(_python(_text(body)))
    return well_formed(_python(_text(body))) if _is_too_deep(value) else value


def read_piece(text: str) -> Any:
    """The same of an event; lone surrogates are left in its strings, as the other half may be in the next one."""
    try:
        value = _strict(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return _python(text)
    return _python(text) if _is_too_deep(value) else value


def count_containers(body: bytes | str) -> int:
    """Return how many objects and lists may begin in a body; brackets in its texts count too."""
    if isinstance(body, str):
        return body.count("{") + body.count("[")
    return body.count(b"{") + body.count(b"[")


def _strict(body: bytes | str) -> Any:
    """Decode strict JSON, a value with many containers level by level. Raises the exceptions of msgspec."""
    if count_containers(body) <= MOST_CONTAINERS_AT_ONCE:
        return msgspec.json.decode(body)
    return _in_steps(body.encode() if isinstance(body, str) else body, 0)


def _in_steps(body: bytes, depth: int) -> Any:
    if depth < DEEPEST and count_containers(body) > MOST_CONTAINERS_AT_ONCE:
        match body.lstrip()[:1]:
            case b"[":
                return [_in_steps(bytes(raw), depth + 1) for raw in _list_of_raw(body)]
            case b"{":
                return {key: _in_steps(bytes(raw), depth + 1) for key, raw in _object_of_raw(body).items()}
    return msgspec.json.decode(body)


_list_of_raw = msgspec.json.Decoder(list[msgspec.Raw]).decode
_object_of_raw = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def well_formed(value: Any) -> Any:
    """The value with each pair of surrogates in its strings put together, and U+FFFD in place of a lone one."""
    match value:
        case str():
            return well_formed_text(value)
        case dict():
            return {well_formed_text(key): well_formed(item) for key, item in value.items()}
        case list():
            return [well_formed(item) for item in value]
    return value


def well_formed_text(text: str) -> str:
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _python(text: str) -> Any:
    try:
        return json.loads(_without_depths(text.removeprefix("\ufeff")), parse_int=_whole)
    except RecursionError as exc:  # whoever calls is deep itself
        raise ValueError("it is nested too deeply") from exc


def _text(body: bytes) -> str:
    encoding = json.detect_encoding(body)
    try:
        return body.decode(encoding, "surrogatepass")
    except UnicodeDecodeError:
        return body.decode(encoding, "replace")


def _whole(digits: str) -> int | float:
    return int(digits) if len(digits) <= _LONGEST_NUMBER else float(digits)


def _is_too_deep(value: Any) -> bool:
    """Return whether anything lies below the deepest level. Takes time in proportion to the arrays and objects."""
    level = [value]
    for _ in range(DEEPEST):
        within = (
            container.values() if isinstance(container, dict) else container
            for container in level
            if isinstance(container, dict | list)
        )
        level = [part for parts in within for part in parts if isinstance(part, dict | list)]
        if not level:
            return False
    return True


def _without_depths(text: str) -> str:
    """The text with null in place of what begins below the deepest level. Takes time in proportion to the text."""
    if text.count("[") + text.count("{") <= DEEPEST:
        return text
    parts, depth, done = list[str](), 0, 0
    for token in _TOKEN.finditer(text):
        match text[token.start()]:
            case "[" | "{":
                if depth == DEEPEST:
                    parts.append(text[done : token.start()])
                depth += 1
            case "]" | "}":
                depth -= 1
                if depth == DEEPEST:
                    parts.append("null")
                    done = token.end()
    if depth > DEEPEST:
        raise ValueError("it ends in the middle")
    return "".join([*parts, text[done:]])
