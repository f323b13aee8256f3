"""Reads JSON into its fields, bounded and linear; unlike `lenient_json` without repeated members, NaN or Infinity."""

import json
import math
from collections import Counter
from collections.abc import Callable
from typing import Any, Never

from auditors.metrics.answers import Value

LONGEST_CHARS = 100_000
DEEPEST = 32
"""Objects and arrays in each other."""
MOST_FIELDS = 2_000
LONGEST_NUMBER = 300
"""Digits."""

Plain = Callable[[str], str]
Found = dict[tuple[str | int, ...], Value]


class FieldsError(ValueError):
    """A text that cannot be compared field by field; the message is one of a few phrases of ours."""


def read_fields(text: str, plain: Plain) -> Found:
    """Path to value of everything, empty objects and arrays too; `plain` maps strings and names. Raises FieldsError."""
    if len(text) > LONGEST_CHARS:
        raise FieldsError(f"more than {LONGEST_CHARS} characters")
    try:
        value = json.loads(
            text, object_pairs_hook=_object, parse_constant=_constant, parse_int=_whole, parse_float=_fraction
        )
    except RecursionError as exc:
        raise FieldsError(f"more than {DEEPEST} levels") from exc
    except FieldsError:
        raise
    except ValueError as exc:
        raise FieldsError("no JSON") from exc
    fields: Found = {}
    _flatten(value, (), fields, plain)
    return fields


class _Object(list[tuple[str, Any]]):
    """Members of an object, in order."""


def _object(pairs: list[tuple[str, Any]]) -> _Object:
    if len({name for name, _ in pairs}) < len(pairs):
        raise FieldsError("a member occurs twice")
    return _Object(pairs)


def _constant(_: str) -> Never:
    raise FieldsError("NaN or Infinity in place of a number")


def _whole(digits: str) -> int:
    if len(digits) > LONGEST_NUMBER:
        raise FieldsError("a number out of range")
    return int(digits)


def _fraction(digits: str) -> float:
    if len(digits) > LONGEST_CHARS or not math.isfinite(number := float(digits)):
        raise FieldsError("a number out of range")
    return number


def _flatten(value: Any, path: tuple[str | int, ...], fields: Found, plain: Plain) -> None:
    if len(path) > DEEPEST:
        raise FieldsError(f"more than {DEEPEST} levels")
    if isinstance(value, _Object):
        seen = Counter[str]()
        for name, item in value:
            plain_name = plain(name)
            seen[plain_name] += 1
            step = plain_name if seen[plain_name] == 1 else f"{plain_name}\0{seen[plain_name]}"
            _flatten(item, (*path, step), fields, plain)
    elif isinstance(value, list):
        for place, item in enumerate(value):
            _flatten(item, (*path, place), fields, plain)
    if isinstance(value, list) and value:
        return
    if len(fields) >= MOST_FIELDS:
        raise FieldsError(f"more than {MOST_FIELDS} fields")
    match value:
        case _Object():
            fields[path] = frozenset()
        case list():
            fields[path] = ()
        case str():
            fields[path] = plain(value)
        case _:
            fields[path] = value
