"""Training examples: a prompt, and the answer that the model shall give."""

import hashlib
from collections.abc import Sequence

import msgspec

from auditors.types import Message


class Example(msgspec.Struct, frozen=True):
    """Only the answer is learned; the prompt is what it is an answer to."""

    prompt: tuple[Message, ...]
    answer: str


def sha256(examples: Sequence[Example]) -> str:
    """Return the sha256 of all examples in their order."""
    return hashlib.sha256(msgspec.json.Encoder().encode_lines(examples)).hexdigest()
