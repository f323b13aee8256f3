"""The ways in which a reply can name an offered choice."""

import re
from collections.abc import Sequence, Set

from benchmarks.suites.common.choices.plain import words_of


def spellings(choices: Sequence[str]) -> list[str]:
    """Return the ways to name each choice, by its text, its number or its letter, without doubles.

    Case and punctuation need no spelling of their own: replies are compared without them.
    """
    ways: list[str] = []
    for number, text in enumerate(choices, 1):
        for name in _names(number):
            ways += [name, f"{name}. {text}"]
        ways += [text, re.sub(r"^(?:the|an?) ", "", text, flags=re.IGNORECASE)]
    return list(dict.fromkeys(ways))


def contradictions(choices: Sequence[str], accepted: Set[str]) -> frozenset[str]:
    """Return the words of each accepted label with the text of another choice."""
    labels = [(place, words_of(name)) for place in range(len(choices)) for name in _names(place + 1)]
    return frozenset(
        f"{label} {words_of(text)}"
        for place, label in labels
        for other, text in enumerate(choices)
        if other != place and label in accepted
    )


def _names(number: int) -> tuple[str, ...]:
    """Return the labels of a choice, by its number and by its letter, and the ways to begin with one."""
    letter = chr(ord("A") + number - 1)
    return (f"Choice{number}", f"Choice {number}", str(number), letter, f"Answer: {letter}", f"The answer is {letter}")
