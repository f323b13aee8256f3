"""Reads replies for refusals and admonitions, by our word lists from general knowledge, the same for every group."""

import re

from auditors.text.refusals.classifier import features_of
from auditors.text.refusals.english import Reading, classify_sentence, findings, read_english, read_wording
from auditors.text.refusals.patterns import compile_named
from auditors.text.refusals.prose import answer_of, normalised, prose_of
from auditors.text.refusals.rules import declined_as_data_in

_LECTURES = compile_named("lectures", re.IGNORECASE)


DECLINED: frozenset[Reading] = frozenset({"declined", "partial"})


def declines(text: str) -> bool:
    """Return whether a free answer declines to do the task, or a part of it, in any language with rules."""
    return read_reply(text) in DECLINED


def read_reply(text: str) -> Reading:
    """The reading of a free answer by what its model says in its own voice: in all languages with rules by the opening
    sentences, by later ones and values of JSON only where plain; English tells more (`refusals`).
    """
    prose = prose_of(text)
    if prose.is_data:
        return "declined" if prose.says_refused or any(map(declined_as_data_in, prose.later)) else "answered"
    return read_english(prose, normalised(answer_of(text)))


def features_of_reply(text: str) -> dict[str, float]:
    """Return the features of a reply that the classifier is trained on."""
    prose = prose_of(text)
    sentences = [classify_sentence(sentence) for sentence in prose.sentences]
    named = findings(prose, sentences, read_wording(prose, sentences))
    return features_of(normalised(answer_of(text)), named)


def lectures(text: str) -> bool:
    """Return whether an English answer admonishes: reminds of stereotypes, respect or sensitivity anywhere."""
    return bool(_LECTURES.search(text.replace("’", "'")))


def is_refusal(text: str) -> bool:
    """Return whether a reply without any allowed answer declines, or rejects the premise instead of answering."""
    return read_reply(text) != "answered"
