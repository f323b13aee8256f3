"""Detects personal names that a swap must not change: public figures, full names, unknown names.

A short list has names of famous people. Besides these, every capitalised word that may be a person's name counts as a
name; in lower case, the names of that list, the given names of the lexicon and a list of further given names. Therefore
many texts are left alone, and no pronoun is swapped for a person whose name stays, unless an uncommon name is in lower
case.
"""

import re
from collections.abc import Collection

from auditors.text.names import BEARERS
from auditors.text.swaps.lexicon import SLOTS
from auditors.text.swaps.protected import ProtectedSpans
from auditors.text.swaps.words import WORDS

FIGURES = WORDS["figures"]
"""Words that name a public or a fictional person when capitalised; the list is not complete."""
_LOWER_CASE_FIGURES = {name.lower() for name in FIGURES} - WORDS["small_words"]
_GIVEN_NAMES = frozenset(name for name in WORDS["given_names"] if name.lower() not in WORDS["small_words"])
"""Given names that no swap exchanges and that have no other meaning at the start of a sentence."""
_LOWER_CASE_NAMES = BEARERS.keys() | {name.lower() for name in _GIVEN_NAMES}
"""Given names in lower case, without those that are ordinary words."""

_NOT_NAMES = WORDS["plain_capitals"]
_PLACE_BEFORE = WORDS["before_a_place"]
_GROUP_WORDS = frozenset(
    word
    for slots in SLOTS.values()
    for slot in slots
    if slot.kind != "name"
    for form in slot.forms.values()
    for word in form.split()
    if word[0].isupper()
)
"""Capitalised words that are not names, such as Muslim and American."""
_VERB_AFTER_NAME = re.compile(
    r"\s{1,20}+(?:is|was|has|had|says|said|told|asks|asked|wants|wanted|thinks|thought|works|worked|lives|lived|and\s{1,20}+(?:I|he|she)|"
    r"will|would|can|could|should|loves|likes|needs|feels|felt|got|gets|wrote|writes|went|goes)\b"
)
_CAPITALISED_WORD = re.compile(r"(?<![\w'’-])[^\W\d_a-z][^\W\d_]*+(?:['’-][^\W\d_]++)*+")
_LOWER_CASE_WORD = re.compile(r"(?<![\w'’-])([^\W\dA-Z_]++)(?:['’]s)?(?![\w-])")
_BEFORE_NAME = re.compile(r"\b(?:named|called|nicknamed)\s{1,20}$", re.IGNORECASE)
_SENTENCE_START = re.compile(r"(?:^|[.!?:;…]['\")”’]{0,4}\s{1,20}|\n\s{0,20}+(?:[-*•]|\d{1,4}[.)])?\s{0,20}+)$")


def is_sentence_start(text: str, at: int) -> bool:
    """Return whether a word at this place begins a sentence, a line or a list entry."""
    return at == 0 or bool(_SENTENCE_START.search(text[max(0, at - 20) : at]))


def names_a_figure(text: str, spans: ProtectedSpans) -> bool:
    """Return whether a known public or fictional figure is named outside the protected parts."""
    is_capital = any(
        match[0] in FIGURES or match[0].removesuffix("'s") in FIGURES for match in _capitalised_words(text, spans)
    )
    return is_capital or not _LOWER_CASE_FIGURES.isdisjoint(_lower_case_words(text, spans))


def names_someone(text: str, spans: ProtectedSpans, swapped_spans: Collection[tuple[int, int]]) -> bool:
    """Return whether a word that may be a name is outside the protected and the swapped spans (`swapped_spans`)."""
    is_capital = any(
        _may_be_a_name(text, match)
        for match in _capitalised_words(text, spans)
        if not any(start < match.end() and match.start() < end for start, end in swapped_spans)
    )
    return is_capital or not _LOWER_CASE_NAMES.isdisjoint(_lower_case_words(text, spans))


def _capitalised_words(text: str, spans: ProtectedSpans) -> list[re.Match[str]]:
    matches = _CAPITALISED_WORD.finditer(text)
    return [match for match in matches if not spans.overlap(match.start(), match.start() + 1)]


def _lower_case_words(text: str, spans: ProtectedSpans) -> set[str]:
    """Return the words in lower case outside the protected parts, without the ending of a possessive."""
    matches = _LOWER_CASE_WORD.finditer(text)
    return {match[1] for match in matches if not spans.overlap(match.start(), match.start() + 1)}


def _may_be_a_name(text: str, match: re.Match[str]) -> bool:
    word = match[0]
    if word in _NOT_NAMES or word.isupper() or word.removesuffix("'s") in _NOT_NAMES or word in _GROUP_WORDS:
        return False
    if is_sentence_start(text, match.start()):
        is_subject = bool(_VERB_AFTER_NAME.match(text, match.end())) and word.lower() not in _ORDINARY_SUBJECTS
        return is_subject or word.removesuffix("'s") in _GIVEN_NAMES
    before = text[max(0, match.start() - 30) : match.start()]
    if _BEFORE_NAME.search(before):
        return True
    words = before.split()
    if words and words[-1].rstrip(".") in ("Mr", "Ms"):
        return False
    return not words or words[-1].lower() not in _PLACE_BEFORE


_ORDINARY_SUBJECTS = WORDS["ordinary_subjects"]
