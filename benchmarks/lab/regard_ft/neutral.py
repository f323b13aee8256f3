"""Neutral sentences and questions of our own, about no group of people: what a model should do as well as before."""

import tomllib
from importlib import resources

CONTEXT = "Here is a note."
"""Stands before every sentence and is not scored, so that no tokenizer is judged by how it begins a text."""
_TEXTS = tomllib.loads(resources.files(__package__).joinpath("neutral.toml").read_text(encoding="utf-8"))
SENTENCES: tuple[str, ...] = tuple(_TEXTS["sentences"])
QUESTIONS: tuple[str, ...] = tuple(_TEXTS["questions"])
