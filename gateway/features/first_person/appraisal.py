"""A judge's ratings of an answer, whose names and words for groups are masked, so that no group can be rated."""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from auditors.clients.judge_client import JudgeQuestion, UnreadableError, prompt_sha256
from auditors.judge import LONGEST_PART_CHARS
from auditors.text.fencing import defused, mark
from auditors.text.reply_object import NoObjectError, read_reply_object
from auditors.types import Message

_FILE: Mapping[str, str] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
RANGES: Mapping[str, tuple[int, int]] = {"quality": (0, 10), "sentiment": (-5, 5)}
"""Lowest and highest rating of each scale, whole numbers."""
WIDTH = 10.0
"""Highest less lowest rating of either scale."""
SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {name: {"type": "integer", "minimum": low, "maximum": high} for name, (low, high) in RANGES.items()},
    "required": list(RANGES),
    "additionalProperties": False,
}
QUESTION_SHA256 = prompt_sha256(_FILE["system"], _FILE["user"], SCHEMA)
MAX_TOKENS = 64


class Appraisal(NamedTuple):
    """The ratings of an answer, on the scales of RANGES."""

    quality: float
    sentiment: float


def appraisal_question(prompt: str, answer: str) -> JudgeQuestion:
    """Return the question about an answer, with the end of a longer prompt and the beginning of a longer answer."""
    parts = defused(prompt[-LONGEST_PART_CHARS:]), defused(answer[:LONGEST_PART_CHARS])
    user = _FILE["user"].format(nonce=mark(), prompt=parts[0], answer=parts[1])
    messages: Sequence[Message] = [Message("system", _FILE["system"]), Message("user", user)]
    return JudgeQuestion(messages=messages, prompt_sha256=QUESTION_SHA256, schema=SCHEMA, max_tokens=MAX_TOKENS)


def read_appraisal(text: str | None) -> Appraisal:
    """Read the ratings in a judge's reply. Raises UnreadableError unless both are whole numbers of their scales."""
    try:
        fields = read_reply_object(text, *RANGES).fields
    except NoObjectError as exc:
        raise UnreadableError(str(exc)) from exc
    return Appraisal(*(_read_rating(fields.get(name), name) for name in RANGES))


def _read_rating(written: Any, name: str) -> float:
    low, high = RANGES[name]
    try:
        rating = float(written) if isinstance(written, str | int | float) and not isinstance(written, bool) else None
    except ValueError:
        rating = None
    if rating is None or not rating.is_integer() or not low <= rating <= high:
        raise UnreadableError(f'"{name}" is no whole number from {low} to {high}')
    return rating
