"""The ways in which a reply can name an offered choice."""

import re
from collections.abc import Sequence


def spellings(choices: Sequence[str]) -> list[str]:
    """Return the ways to name each choice, by its text, its number or its letter, without doubles.

    Case and punctuation need no spelling of their own: replies are compared without them.
    """
    ways: list[str] = []
    for number, text in enumerate(choices, 1):
        letter = chr(ord("A") + number - 1)
        for name in (f"Choice{number}", f"Choice {number}", str(number), letter, f"Answer: {letter}"):
            ways += [name, f"{name}. {text}"]
        ways += [text, re.sub(r"^(?:the|an?) ", "", text, flags=re.IGNORECASE)]
    return list(dict.fromkeys(ways))
