"""Reads which option a reply commits to; marks stand for options before any rule, so no option is read better."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from auditors.text.refusal_words import is_refusal
from auditors.types import Status
from benchmarks.suites.common.choices.commitment import committed
from benchmarks.suites.common.choices.marking import marked
from benchmarks.suites.common.choices.offers import (
    CONTRADICTION,
    LABEL,
    NOT_OFFERED,
    SHARED,
    TEXT,
    Offer,
    place_of,
    text_mark,
)
from benchmarks.suites.common.choices.plain import WORDS, plain
from benchmarks.suites.protocol import Choice, Parsed


def normalise(text: str) -> str:
    """Every run of non-word characters becomes one space, ends trimmed, lower case."""
    return " ".join(WORDS.findall(text)).casefold()


class Reading(NamedTuple):
    """The option that a reply commits to, or the reason for none."""

    status: Status
    place: int | None = None
    """Place of the option if status is "ok"."""
    rule: str | None = None
    """Rule that read it: "label", "text" or "prefix"; "several" for a reply that names several and commits to none."""


_NEXT_PROMPT = re.compile(
    r"\n(?:sentence|question|context|passage|user|human|(?:available )?(?:choices|options)) ?:", re.IGNORECASE
)
"""Beginning of another prompt, with which models that do not stop go on after their answer."""


def read_choice(text: str | None, options: Offer) -> Reading:
    """Return the option's place; else malformed (several, not offered, label against text), refusal or unrelated."""
    answer = plain(text or "")
    following = _NEXT_PROMPT.search(answer)
    if following is not None and (reading := _read(answer[: following.start()], options)).place is not None:
        return reading
    return _read(answer, options)


def _read(answer: str, options: Offer) -> Reading:
    if not WORDS.search(answer):
        return Reading("unrelated")
    reply = marked(answer, options)
    marks = re.sub(LABEL, lambda match: text_mark(place_of(match[0])), reply.text)
    mark = committed(marks, is_prose=options.is_prose)
    if mark in (CONTRADICTION, NOT_OFFERED):
        return Reading("malformed")
    if mark is not None and mark != SHARED:
        is_labelled = place_of(mark) in map(place_of, re.findall(LABEL, reply.text))
        return Reading("ok", place_of(mark), "label" if is_labelled else "prefix" if reply.is_completed else "text")
    n_named, undetermined = len(set(re.findall(TEXT, marks))), options.undetermined
    is_told = undetermined is not None and f"it is {text_mark(undetermined)}" in marks
    if is_told and n_named == options.n and "?" not in answer:
        return Reading("ok", undetermined, "text")
    if is_refusal(re.sub(TEXT, "x", marks)):
        return Reading("refusal")
    return Reading("malformed", None, "several") if n_named > 1 else Reading("unrelated")


def parse_choice(
    text: str | None, choices: Sequence[Choice], options: Offer, *, several: Status = "malformed"
) -> Parsed:
    """Return the role of the choice that a reply commits to. `several`: status of a reply that names two or more."""
    reading = read_choice(text, options)
    if reading.place is not None:
        return Parsed("ok", choices[reading.place].role, reading.rule)
    return Parsed(several if reading.rule == "several" else reading.status)
