"""Texts that a regular expression may take more than linear time over, made from its own parse tree.

For every unbounded or long repetition in a pattern: what it repeats, many times over, with and without the way into it,
and with an end that does not match. Backtracking engines pay for such texts where two repetitions, or a repetition and
the search for a start, can share the same characters (J. Kirrage, A. Rathnayake, H. Thielecke, "Static analysis for
regular expression denial-of-service attacks", NSS 2013).
"""

import random
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

op: Any = import_module("re._constants")
parser: Any = import_module("re._parser")  # neither has type stubs

_SIGNS = "-a 5Z_.:/\\'\"`~<>{}[]()=!?,;@#$%&*+|\n\té’“”‘«»„「」Я中"
_ENDS = ("", "!", "\n", " x", "\x00")
LONG = 8
"""A repetition that may go on for longer than this is worth an attack."""


class _Drawn(random.Random):
    """Draws at random, but takes the n-th of what fits a set of characters in every other draw of an attack."""

    number = 0

    def sign(self, fitting: list[str]) -> str:
        return self.choice(fitting) if self.number % 2 else fitting[self.number // 2 % len(fitting)]


def attacks(pattern: re.Pattern[Any], size: int, *, seed: int = 0, draws: int = 8) -> Iterator[str]:
    """Texts of about `size` characters against one pattern."""
    rng = _Drawn(seed)
    tree = parser.parse(pattern.pattern, pattern.flags & ~re.TEMPLATE if hasattr(re, "TEMPLATE") else pattern.flags)
    seen = set[tuple[str, str, str]]()
    for rng.number in range(draws):
        for before, body in _repetitions(tree, "", rng):
            for start, pump in (("", body), (before, body), ("", before + body), (before, before + body)):
                if not pump:
                    continue
                end = rng.choice(_ENDS)
                if (start, pump, end) not in seen:
                    seen.add((start, pump, end))
                    yield start + pump * (size // len(pump)) + end


def _repetitions(tree: Any, before: str, rng: _Drawn) -> Iterator[tuple[str, str]]:
    """Each long repetition in the tree: a way into it, and one round of it."""
    for code, value in tree:
        if code in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT):
            _, most, body = value
            yield from _repetitions(body, before, rng)
            if most > LONG:
                yield before, _text(body, rng)
        elif code is op.BRANCH:
            for branch in value[1]:
                yield from _repetitions(branch, before, rng)
        elif code is op.SUBPATTERN:
            yield from _repetitions(value[3], before, rng)
        elif code is op.ATOMIC_GROUP:
            yield from _repetitions(value, before, rng)
        elif code in (op.ASSERT, op.ASSERT_NOT):
            yield from _repetitions(value[1], before, rng)
        before += _text([(code, value)], rng)


def _text(tree: Any, rng: _Drawn) -> str:
    """A text that matches the tree, or nearly."""
    return "".join(_part(code, value, rng) for code, value in tree)


def _part(code: Any, value: Any, rng: _Drawn) -> str:
    match code:
        case op.LITERAL:
            return chr(value)
        case op.NOT_LITERAL:
            return rng.choice([sign for sign in _SIGNS if ord(sign) != value])
        case op.ANY:
            return rng.choice(_SIGNS)
        case op.IN:
            fitting = [sign for sign in _SIGNS if _is_in(sign, value)] or [_first(value)]
            return rng.sign(fitting)
        case op.BRANCH:
            return _text(rng.choice(value[1]), rng)
        case op.SUBPATTERN:
            return _text(value[3], rng)
        case op.ATOMIC_GROUP:
            return _text(value, rng)
        case op.MAX_REPEAT | op.MIN_REPEAT | op.POSSESSIVE_REPEAT:
            least, most, body = value
            return "".join(_text(body, rng) for _ in range(min(max(least, rng.randint(0, 2)), most)))
        case op.ASSERT:
            return _text(value[1], rng) if value[0] < 0 else ""
        case _:  # a place or a reference takes no text of its own here
            return ""


def _is_in(sign: str, members: Any) -> bool:
    is_negated = bool(members[0][0] is op.NEGATE)
    return any(_is_member(sign, code, value) for code, value in members) is not is_negated


def _is_member(sign: str, code: Any, value: Any) -> bool:
    if code is op.LITERAL:
        return bool(ord(sign) == value)
    if code is op.RANGE:
        return bool(value[0] <= ord(sign) <= value[1])
    if code is op.CATEGORY:
        return _CATEGORIES[value](sign)
    return False


_CATEGORIES: dict[Any, Callable[[str], bool]] = {
    op.CATEGORY_DIGIT: str.isdigit,
    op.CATEGORY_NOT_DIGIT: lambda sign: not sign.isdigit(),
    op.CATEGORY_SPACE: str.isspace,
    op.CATEGORY_NOT_SPACE: lambda sign: not sign.isspace(),
    op.CATEGORY_WORD: lambda sign: sign.isalnum() or sign == "_",
    op.CATEGORY_NOT_WORD: lambda sign: not (sign.isalnum() or sign == "_"),
}


def _first(members: Any) -> str:
    code, value = next((code, value) for code, value in members if code is not op.NEGATE)
    return chr(value if code is op.LITERAL else value[0]) if code in (op.LITERAL, op.RANGE) else "a"
