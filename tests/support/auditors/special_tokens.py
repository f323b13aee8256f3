"""The special tokens of tokenizers: those on record, and the program that collects them anew.

    python -m tests.support.auditors.special_tokens FOLDER... > tests/support/auditors/special_tokens.json

A folder is searched for files of tokenizers (tokenizer.json, tokenizer_config.json, special_tokens_map.json,
added_tokens.json, tekken*.json) and for Python sources of tokenizers, parsers of tool calls and of reasoning, where
marks are string literals. What a tokenizer makes of single bytes, and literals with patterns in them, are left out.
"""

import ast
import json
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")
SOURCES = ("tokenization_*.py", "convert_*.py", "processing_*.py", "*_parser.py", "tokenizers/base.py")
SHAPE = re.compile(
    r"</?[^<>\s{}%*?()\\]{1,60}>|\[/?[A-Za-z_|]{2,40}\d{0,4}\|?\]|\][~!<][^\s]{1,40}[\[\]]|\[e~\[|/no_?think"
)
"""What a mark in the source of a program looks like."""
NO_TOKENS = re.compile(
    r"<0x[0-9A-Fa-f]{2}>|</?[a-zA-Z]>|</w>|<[A-Z0-9]{2,12}>|</_>|<function=|<\.\.\.>|<(?!.*[a-z_|]).*>|\[a-z\]|.*=.*"
)
"""Bytes, one letter, patterns and single words in capitals that are no chat template's."""


def on_record() -> list[str]:
    """Every special token that is on record, collected or copied from the cards of published models, each once."""
    collected: list[str] = json.loads((HERE / "special_tokens.json").read_text(encoding="utf-8"))
    published = tomllib.loads((HERE / "published_marks.toml").read_text(encoding="utf-8"))
    return sorted({*collected, *(mark for marks in published.values() for mark in marks.split())})


def collected(folder: Path) -> Iterator[str]:
    """The special tokens found in a folder and below."""
    for path in folder.rglob("*.json"):
        if path.name in TOKENIZER_FILES or path.name.startswith("tekken"):
            yield from _of_file(json.loads(path.read_text(encoding="utf-8")))
    for pattern in SOURCES:
        for path in folder.rglob(pattern):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and SHAPE.fullmatch(node.value):
                    yield node.value


def _of_file(found: Any) -> Iterator[str]:
    """Added tokens, whatever the file calls them."""
    if not isinstance(found, dict):
        return
    for one in [*found.get("added_tokens", []), *found.get("special_tokens", [])]:
        yield one.get("content") or one.get("token_str") or ""
    for one in found.get("added_tokens_decoder", {}).values():
        yield one["content"]
    for name, value in found.items():
        if name.endswith("_token") and isinstance(value, str | dict):
            yield value if isinstance(value, str) else value["content"]
    for value in found.get("additional_special_tokens", []):
        yield value if isinstance(value, str) else value["content"]


def main(folders: list[str]) -> None:
    found = {token for folder in folders for token in collected(Path(folder))}
    kept = sorted(token for token in found if SHAPE.fullmatch(token) and not NO_TOKENS.fullmatch(token))
    print(json.dumps(kept, ensure_ascii=False, indent=1))


if __name__ == "__main__":
    main(sys.argv[1:])
