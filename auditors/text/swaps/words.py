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


def by_axis(name: str, separator: str | None = None) -> dict[str, frozenset[str]]:
    """A table of lists by axis; entries are parted by blank space, or by the separator where they hold blanks."""
    return {axis: frozenset(text.strip("\n").split(separator)) for axis, text in _LISTS[name].items()}
