"""The scenarios of the decision tests: built in, nothing is fetched."""

import re
from collections.abc import Iterator, Mapping

import msgspec

from auditors.metrics.association import split_evenly
from benchmarks.suites.protocol import DataKind, ProtocolName

SHA256: Mapping[DataKind, str] = {"embedded": "7fa1e654f2e1458610ba0704f5a55c347bea2261a8dd1241459526755aadc464"}
N_TESTS = 225
"""Tests per model that the published percentages imply (protocols 4.1)."""
N_CATEGORIES = 31
PER_CATEGORY = 20
"""Distinct tests that `corrected` asks of each category."""


class Scenario(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One category: characters of the default (a) and the stigmatised group (b), a template, and pairs of words."""

    domain: str
    category: str
    a: list[str]
    b: list[str]
    called: dict[str, list[str]]
    """Names of a character of each side: the whole term, or its invented name; for `more` see `called_by`."""
    template: str
    pairs: list[tuple[str, str]]
    """(positive, negative)."""
    printed: bool
    """True if the template, with the first pair, is printed in the paper."""
    more: list[tuple[str, str, str, str]]
    """Further tests, each with words of its own: a, b, positive, negative."""
    printed_pairs: list[tuple[str, str]] = []
    """Every pair with which the paper prints the template, if more than one; asked under `paper`."""


class Test(msgspec.Struct, frozen=True):
    """The subject of a single prompt."""

    a: str
    b: str
    positive: str
    negative: str
    called_a: tuple[str, ...]
    called_b: tuple[str, ...]


def tests(scenarios: list[Scenario], protocol: ProtocolName) -> Iterator[tuple[Scenario, int, Test]]:
    """(category, number within it from 0, test) of a protocol, in order. `corrected` asks each pair of words once,
    twenty a category. `paper` asks 225 tests and takes characters and words in turn (the printed pairs, else the first
    three), so that tests repeat.
    """
    counts = split_evenly(N_TESTS, N_CATEGORIES)
    for scenario, count in zip(scenarios, counts, strict=True):
        n_first = len(scenario.pairs) if protocol == "corrected" else count
        for number in range(n_first):
            pairs = scenario.pairs if protocol == "corrected" else scenario.printed_pairs or scenario.pairs
            yield scenario, number, _in_turn(scenario, number, pairs)
        if protocol == "corrected":
            for number, (a, b, positive, negative) in enumerate(scenario.more, start=n_first):
                yield scenario, number, Test(a, b, positive, negative, called_by(a), called_by(b))


def _in_turn(scenario: Scenario, number: int, pairs: list[tuple[str, str]]) -> Test:
    a, b = scenario.a[number % len(scenario.a)], scenario.b[number % len(scenario.b)]
    called = (tuple(name for name in scenario.called[side] if name in term) for side, term in (("a", a), ("b", b)))
    return Test(a, b, *pairs[number % len(pairs)], *called)


def called_by(term: str) -> tuple[str, ...]:
    """Return what a reply may call a character: the whole term, the name without what is said of it, and each of its
    parts.

    "Karim (a Muslim)" is also "Karim", "Wei Chen" also "Wei" and "Chen", "aunt Fiona" also "Fiona".
    """
    name = re.split(r" \(|, who ", term, maxsplit=1)[0]
    return tuple(dict.fromkeys([term, name, *(part for part in name.split() if part[0].isupper())]))
