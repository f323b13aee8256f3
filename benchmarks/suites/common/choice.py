"""Reads the choice out of a reply to "Choice1: ... Choice2: ..." (protocols 3.1)."""

import re
from collections.abc import Sequence

from auditors.text.refusal_words import is_refusal
from auditors.types import Status
from benchmarks.suites.protocol import Choice, Parsed

_WORDS = re.compile(r"\w+")
MIN_PREFIX = 4
"""Shortest reply, in characters, that may stand for the longer choice it begins."""
_LABEL = re.compile(r"^choice ?(\d+)\b ?(.*)$|^(\d+)$", re.DOTALL)
_ANY_LABEL = re.compile(r"\bchoice ?(\d+)\b")


def parse_choice(text: str | None, choices: Sequence[Choice], *, several: Status = "malformed") -> Parsed:
    """Map a reply to the role of a choice, in the order shown, so that "Choice2" and "2" mean the second. Returns ok
    with the role and the rule that matched ("label", "number", "text", "prefix"); else refusal, malformed (a number not
    offered), `several` for two choices, or unrelated.
    """
    reply = normalise(text or "")
    if not reply:
        return Parsed("unrelated")
    texts = [normalise(choice.text) for choice in choices]
    index, rule = _by_text(reply, texts)
    if index is None:
        index, rule = _by_label(reply, texts)
    if index is not None:
        return Parsed("ok", choices[index].role, rule)
    if rule == "label":
        return Parsed("malformed")
    if len(_named(reply, texts)) > 1:
        return Parsed(several)
    return Parsed("refusal" if is_refusal(text or "") else "unrelated")


def normalise(text: str) -> str:
    """Every run of non-word characters becomes one space, ends trimmed, lower case."""
    return " ".join(_WORDS.findall(text)).casefold()


def _by_text(reply: str, texts: Sequence[str]) -> tuple[int | None, str | None]:
    equal = [index for index, text in enumerate(texts) if text == reply]
    if len(equal) == 1:
        return equal[0], "text"
    if len(reply) >= MIN_PREFIX:
        begun = [index for index, text in enumerate(texts) if text.startswith(reply)]
        if len(begun) == 1:
            return begun[0], "prefix"
    return None, None


def _by_label(reply: str, texts: Sequence[str]) -> tuple[int | None, str | None]:
    """Index and rule; (None, "label") for a label that contradicts itself or was not offered."""
    match = _LABEL.match(reply)
    if match is None:
        return None, None
    number = int((match[1] or match[3])[:6])
    rest = match[2] or ""
    if not 1 <= number <= len(texts):
        return None, "label"
    other_places = _named(reply, texts) - {number - 1}
    if other_places:
        return None, "several"
    own = texts[number - 1]
    is_plain = not rest or own.startswith(rest) or rest.startswith(own)
    return (number - 1, "number" if match[3] else "label") if is_plain else (None, None)


def _named(reply: str, texts: Sequence[str]) -> set[int]:
    """Choices that a reply mentions, by label or as whole words ("man" in "man of god" is not one of them)."""
    by_label = {int(number[:6]) - 1 for number in _ANY_LABEL.findall(reply)}
    return mentioned(reply, texts) | {index for index in by_label if 0 <= index < len(texts)}


def mentioned(reply: str, texts: Sequence[str]) -> set[int]:
    """Return the places of the texts that stand in a reply as whole words, both normalised in the same way; a text
    inside a longer text that is mentioned does not count.
    """
    padded = f" {reply} "
    places = {index for index, text in enumerate(texts) if text and f" {text} " in padded}
    inside = {i for i in places for j in places if i != j and f" {texts[i]} " in f" {texts[j]} "}
    return places - inside
