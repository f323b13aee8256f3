"""The regular expressions and word lists of refusals, read once from wordings.toml."""

import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from auditors.late_patterns import compile_late

MOST_NESTED = 2
"""Fragments within fragments."""

FILE: dict[str, Any] = tomllib.loads(Path(__file__).with_name("wordings.toml").read_text(encoding="utf-8"))


def compile_pattern(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Compile a pattern over several lines: blanks count, line ends do not; <name> stands for this fragment."""
    return compile_late(unfold(pattern, FILE["fragments"]), flags)


def compile_named(name: str, flags: int = 0) -> re.Pattern[str]:
    return compile_pattern(FILE[name], flags)


def compile_any(patterns: Iterable[str]) -> re.Pattern[str]:
    """Compile a pattern that matches where one of several does."""
    return compile_pattern("|\n".join(f"(?:{pattern.strip()})" for pattern in patterns))


def unfold(pattern: str, fragments: Mapping[str, str]) -> str:
    """Return a pattern of several lines in one, with the fragments in place of their names."""
    whole = _joined(pattern)
    for _ in range(MOST_NESTED):
        for name, fragment in fragments.items():
            whole = whole.replace(f"<{name}>", _joined(fragment))
    return whole


def _joined(pattern: str) -> str:
    return "".join(line.strip() for line in pattern.splitlines())
