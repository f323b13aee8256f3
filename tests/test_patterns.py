"""No regular expression that meets outside text takes more than linear time over it."""

import importlib
import pkgutil
import re
from collections import Counter
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

import auditors
import benchmarks.run
import benchmarks.suites
import gateway
from auditors.late_patterns import LatePattern
from auditors.text.refusal_words import read_reply
from auditors.text.swaps.swap import LONGEST_CHARS, swap
from benchmarks.suites.common.choice import read_choice
from benchmarks.suites.common.choices.offers import offer
from gateway.privacy.bodies import redacted_request
from gateway.privacy.redaction import Redactor
from tests.support.processor_time import (
    MOST_TIMES,
    ROUNDS,
    TIMES_AS_LONG,
    TRIES,
    grows_in_proportion,
    processor_seconds,
)
from tools.fuzz.patterns import attacks

OURS = re.compile(r"gateway\.(config|cli|demo|store\.migrations)\b|benchmarks\.suites\.\w+\.data$|.*__main__$")
"""What is read there comes from whoever runs the gateway, or is a data set whose hash is known."""
CUT_BEFORE = re.compile(r"auditors\.text\.refusals\.(english|rules)$|benchmarks\.suites\.common\.choices\.")
"""Modules whose patterns meet sentences of 400 characters, or the ends of a reply: the readers are measured instead."""
FIRST_CHARS = 5_000
SLOW_SECONDS = 200e-9 * FIRST_CHARS
"""Above this for the first size an attack is measured at the greater two."""
CHARS = 10_000
MOST_SECONDS = 10e-6
"""A character may take this; what takes longer is not measured at the greater length."""


def _patterns(value: Any, depth: int = 0) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern | LatePattern):
        yield value.compiled() if isinstance(value, LatePattern) else value
    elif depth < 4 and isinstance(value, dict | list | tuple | set | frozenset) and len(value) < 2_000:
        for one in value.values() if isinstance(value, dict) else value:
            yield from _patterns(one, depth + 1)


PACKAGES = (gateway, auditors, benchmarks.suites, benchmarks.run)


def _patterns_of(package: ModuleType) -> dict[re.Pattern[Any], str]:
    """Every compiled pattern in a module's names, also within its tables, with its module, name and number."""
    named = dict[re.Pattern[Any], str]()
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if OURS.match(module.name) or CUT_BEFORE.match(module.name):
            continue
        for name, value in vars(importlib.import_module(module.name)).items():
            for number, pattern in enumerate(_patterns(value)):
                named.setdefault(pattern, f"{module.name}.{name}-{number}")
    return named


def seconds(pattern: re.Pattern[Any], text: str, *, rounds: int = 1) -> float:
    """Of processor time, to go through all matches in the text."""
    subject = text.encode() if isinstance(pattern.pattern, bytes) else text

    def go_through() -> None:
        for _ in pattern.finditer(subject):
            pass

    return processor_seconds(go_through, rounds=rounds)


def worst(pattern: re.Pattern[Any]) -> int | None:
    """Number of the attack that takes longest at first, if it takes long enough to tell."""
    taken = [seconds(pattern, text) for text in attacks(pattern, FIRST_CHARS)]
    return taken.index(max(taken)) if max(taken, default=0) > SLOW_SECONDS else None


def is_linear(pattern: re.Pattern[Any], number: int, *, chars: int = CHARS) -> bool:
    """Whether the time over the numbered attack grows with its length, not with the square of it."""
    short, long = (list(attacks(pattern, length))[number] for length in (chars, chars * TIMES_AS_LONG))
    taken = seconds(pattern, short, rounds=ROUNDS)
    return taken < chars * MOST_SECONDS and seconds(pattern, long) < MOST_TIMES * taken


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_time_grows_with_the_text(package: ModuleType) -> None:
    """Over whatever a pattern's own parse tree suggests to repeat; measured again where the machine was busy."""
    suspects = [(worst(pattern), pattern, name) for pattern, name in _patterns_of(package).items()]
    assert suspects
    slow = [(number, pattern, name) for number, pattern, name in suspects if number is not None]
    assert [name for number, pattern, name in slow if not any(is_linear(pattern, number) for _ in range(TRIES))] == []


@pytest.mark.parametrize(
    "unit",
    ["I can't ", "it is not fair, ", "the answer is A or ", "(A) ", "not A, ", "sorry, but I ", "```", "“", "न "],
)
def test_reading_a_reply_takes_time_with_the_text(unit: str) -> None:
    """Refusals and choices are looked for in the ends of a long reply."""
    options = offer((("a dog",), ("a cat",)), "letters")

    def read(text: str) -> None:
        read_reply(text)
        read_choice(text, options)

    assert grows_in_proportion(read, unit, 20_000)


@pytest.mark.parametrize("slow", [r"\beyJ[\w-]{8,}\.[\w-]{8,}", r"promot\w+ stereotypes", r"“[^”]*”"])
def test_a_quadratic_pattern_is_found(slow: str) -> None:
    """The attacks find what was wrong in earlier versions."""
    pattern = re.compile(slow)
    number = worst(pattern)
    assert number is not None
    assert not is_linear(pattern, number, chars=FIRST_CHARS // 2)


@pytest.mark.parametrize(
    "unit", ["eyJ-", "A-", "“", "'a ", "4111 ", "sk-", "a@", "1.", "::", "-----BEGIN ", "x" * 40 + "@", "Ann Bo "]
)
def test_redacting_takes_time_with_the_text(unit: str) -> None:
    """All kinds together, over what looks like the beginning of each."""
    redactor = Redactor(["key", "email", "iban", "card", "ip", "phone", "number", "name"])

    def redact(text: str) -> None:
        body = b'{"messages": [{"role": "user", "content": "%b"}]}' % text.encode()
        redacted_request(body, redactor, Counter())

    assert grows_in_proportion(redact, unit, 10_000)


@pytest.mark.parametrize("unit", ['["a",', "<a> "])
def test_swapping_takes_time_with_the_text(unit: str) -> None:
    """Many protected parts, and as many words among them."""

    def swap_groups(text: str) -> None:
        swap([f"My sister asks: {text}"], "gender")

    assert grows_in_proportion(swap_groups, unit, LONGEST_CHARS // TIMES_AS_LONG - 10)
