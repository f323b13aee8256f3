"""The regular expressions and word lists of refusals, read once from wordings.toml."""

import re
import tomllib
from pathlib import Path
from typing import Any

FILE: dict[str, Any] = tomllib.loads(Path(__file__).with_name("wordings.toml").read_text(encoding="utf-8"))


def compile_pattern(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """A pattern written over several lines: blanks in it are signs of the text, line ends are not."""
    whole = pattern.replace("<cannot>", FILE["cannot"]).replace("<done>", FILE["done"])
    return re.compile("".join(line.strip() for line in whole.splitlines()), flags)


def compile_named(name: str, flags: int = 0) -> re.Pattern[str]:
    return compile_pattern(FILE[name], flags)
