"""The word lists of the swaps, read once from words.toml in this folder."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_LISTS: Mapping[str, Any] = tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8"))

WORDS: dict[str, frozenset[str]] = {
    name: frozenset(text.split()) for name, text in _LISTS.items() if isinstance(text, str)
}
"""Name of a list to its words."""


def by_axis(name: str) -> dict[str, frozenset[str]]:
    """Return a table of lists by axis; commas part their words and phrases."""
    return {axis: frozenset(" ".join(text.split()).split(", ")) for axis, text in _LISTS[name].items()}
