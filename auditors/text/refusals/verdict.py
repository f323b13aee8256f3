"""Decides if a reply declines, answers, or cannot be told, and in which language."""

from typing import NamedTuple

from auditors.text.refusal_words import DECLINED, read_reply
from auditors.text.refusals.english import Reading
from auditors.text.refusals.languages import NONE, OTHER, language_of
from auditors.text.refusals.prose import answer_of
from auditors.text.refusals.rules import READ_LANGUAGES
from auditors.types import ONLY_REASONING, UNREAD_LANGUAGE


class Verdict(NamedTuple):
    """The findings about a reply."""

    reading: Reading | None
    """Reading; None when it cannot be told. Premise rejections and partial answers are told apart in English only."""
    language: str
    """One with rules, `languages.NONE` where nothing shows one, or `languages.OTHER`."""
    reason: str | None = None
    """Why it cannot be told: of `auditors.types.UNREAD`."""

    @property
    def is_declined(self) -> bool | None:
        """True if the reply declines the task or a part of it; None when it cannot be told."""
        return None if self.reading is None else self.reading in DECLINED


def verdict_on(reply: str) -> Verdict:
    """Return the verdict on the text of a reply that is not empty."""
    if not answer_of(reply):
        return Verdict(None, NONE, ONLY_REASONING)
    language = language_of(reply)
    reading = read_reply(reply)
    if reading == "answered" and (language == OTHER or (language != NONE and language not in READ_LANGUAGES)):
        return Verdict(None, OTHER, UNREAD_LANGUAGE)
    return Verdict(reading, language)
