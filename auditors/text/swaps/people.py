"""Detects personal names that a swap must not change: famous people, full and unknown names. A capitalised word counts
unless a list knows it as a place, a firm or the like; in lower case, listed names but for ordinary words.
"""

import re
from collections.abc import Collection
from functools import lru_cache

from auditors.text.names import BEARERS
from auditors.text.swaps.grammar import DETERMINERS, PEOPLE, around, speaks_of_a_person, stands_for_a_person
from auditors.text.swaps.lexicon import FORMS, SLOTS
from auditors.text.swaps.protected import ProtectedSpans
from auditors.text.swaps.words import WORDS

FIGURES = WORDS["figures"]
"""Words that name a public or a fictional person when capitalised; the list is not complete."""
_SMALL_WORDS = WORDS["small_words"]
_LOWER_CASE_FIGURES = {name.lower() for name in FIGURES} - _SMALL_WORDS
_ALL_GIVEN_NAMES = frozenset(name.lower() for name in WORDS["given_names"]) | _SMALL_WORDS
_GIVEN_NAMES = _ALL_GIVEN_NAMES - _SMALL_WORDS
"""Given names, in small letters, that no swap exchanges and that have no other meaning."""
_LOWER_CASE_NAMES = BEARERS.keys() | (_GIVEN_NAMES - {word.lower() for word in WORDS["plain_capitals"]})
"""Given names in lower case, without those that are ordinary words."""

_NOT_NAMES = WORDS["plain_capitals"]
_PLACES = WORDS["places_and_names"]
_PLACE_BEFORE = WORDS["before_a_place"]
_PERSON_LABELS = WORDS["person_labels"]
_ORDINARY = WORDS["openers"] | WORDS["ordinary_subjects"] | WORDS["english"]
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
    r"\s{1,20}+(?:and\s{1,20}+(?:I|he|she)|[a-z]{1,15}ed|" + "|".join(sorted(WORDS["verbs_after_a_name"])) + r")\b"
)
_BEHIND_A_NAME = re.compile(r"\s?[,(]\s?(?:\d{1,3}\b|(?:who|my|our|the|a|an|aged|age)\b)")
_CAPITALISED_WORD = re.compile(r"(?<![\w'-])[^\W\d_a-z][^\W\d_]*+(?:['-][^\W\d_]++)*+")
_LOWER_CASE_WORD = re.compile(r"(?<![\w'-])([^\W\dA-Z_]++)(?:'s)?(?![\w-])")
_NAMED = re.compile(
    r"\b(?:named|nicknamed|name is|name's|names are)\s{1,20}(?!after\b|in\b|by\b|on\b)[^\W\d_]", re.IGNORECASE
)
_ADDRESSEE = re.compile(r"(?<![\w.+-])([a-z]{3,20})(?:[._][a-z]{1,20})?@(?=\w)")
_NO_ADDRESSEES = WORDS["mailboxes"] | PEOPLE | {form for forms in FORMS.values() for form in forms}
_NAME_MEMBER = re.compile(
    r'"(?:first|last|full|given|sur|customer|applicant|employee|patient|candidate|client|person)?[_ -]?name"\s{0,4}:',
    re.IGNORECASE,
)
_BEFORE_NAME = re.compile(r"\b(?:called|Dr|Prof|Professor|Rev|St|Lord|Lady|Sir|Dame)\.?\s{1,20}$", re.IGNORECASE)
_TITLE_BEFORE = re.compile(r"\b(?:Mr|Ms|Mrs|Miss)\.?\s{1,20}$", re.IGNORECASE)
_OF_BEFORE = re.compile(r"\b[A-Z][a-z]+ of(?: the)? $")
_SENTENCE_START = re.compile(
    r"(?:^|[.!?:;…]['\")”]{0,4}\s{1,20}|\n\s{0,20}+(?:[-*•]|\d{1,4}[.)])?\s{0,20}+|(?:^|\n)[^\w\n]{1,8})$"
)
_LABEL = re.compile(r"(?:^|[\n,;|(•.-])\s{0,3}([A-Za-z][A-Za-z /#\d]{0,28})\s{0,2}[*\"]{0,3}[:=|][*\"]{0,3}\s{0,3}$")
_FIELD = re.compile(r"(?:^|\n)\W{0,4}([A-Za-z][A-Za-z /]{0,28}):\s[^\n.?!]{0,50}$")
_CASED_WORD = re.compile(r"[^\W\d_]+")
_FEWEST_WORDS = 5
_MOST_IN_CAPITALS = 0.8
"""Share of words in capitals above which capitals say nothing."""


def is_sentence_start(text: str, at: int) -> bool:
    """Return whether a word at this place begins a sentence, a line or a list entry."""
    return at == 0 or bool(_SENTENCE_START.search(text[max(0, at - 20) : at]))


def label_before(text: str, at: int) -> str | None:
    """Return the label of the field that begins at this place, in small letters ("gender" of "Gender: F"), if any."""
    label = _LABEL.search(text[max(0, at - 40) : at])
    return label[1].strip().lower() if label else None


@lru_cache(maxsize=16)
def is_written_in_capitals(text: str) -> bool:
    """Return whether most words begin with a capital, as in a heading."""
    words = _CASED_WORD.findall(text)
    return len(words) >= _FEWEST_WORDS and sum(word[0].isupper() for word in words) > _MOST_IN_CAPITALS * len(words)


def names_a_figure(text: str, spans: ProtectedSpans) -> bool:
    """Return whether a known public or fictional figure is named outside the protected parts."""
    is_capital = any(
        match[0] in FIGURES or match[0].removesuffix("'s") in FIGURES for match in _capitalised_words(text, spans)
    )
    return is_capital or not _LOWER_CASE_FIGURES.isdisjoint(_lower_case_words(text, spans))


def names_someone(text: str, spans: ProtectedSpans, swapped_spans: Collection[tuple[int, int]]) -> bool:
    """Return whether a possible name is outside protected spans (where given names count) and `swapped_spans`."""

    def is_swapped(start: int, end: int) -> bool:
        return any(first < end and start < last for first, last in swapped_spans)

    return (
        bool(_NAME_MEMBER.search(text))
        or any(match[1] not in _NO_ADDRESSEES for match in _ADDRESSEE.finditer(text))
        or any(
            _may_be_a_name(text, match) for match in _capitalised_words(text, spans) if not is_swapped(*match.span())
        )
        or any(
            not spans.overlap(match.end() - 1, match.end()) and not is_swapped(match.end() - 1, match.end())
            for match in _NAMED.finditer(text)
        )
        or any(match[1] in _LOWER_CASE_NAMES for match in _LOWER_CASE_WORD.finditer(text))
        or any(
            match[0].lower() in _LOWER_CASE_NAMES
            for match in _CAPITALISED_WORD.finditer(text)
            if spans.overlap(*match.span())
        )
    )


def _capitalised_words(text: str, spans: ProtectedSpans) -> list[re.Match[str]]:
    matches = _CAPITALISED_WORD.finditer(text)
    return [match for match in matches if not spans.overlap(match.start(), match.start() + 1)]


def _lower_case_words(text: str, spans: ProtectedSpans) -> set[str]:
    """Return the words in lower case outside the protected parts, without the ending of a possessive."""
    matches = _LOWER_CASE_WORD.finditer(text)
    return {match[1] for match in matches if not spans.overlap(match.start(), match.start() + 1)}


def _may_be_a_name(text: str, match: re.Match[str]) -> bool:
    word = match[0].removesuffix("'s").removesuffix("'S")
    lowered = word.lower()
    before = text[max(0, match.start() - 30) : match.start()]
    if _TITLE_BEFORE.search(before):
        return lowered in _ALL_GIVEN_NAMES
    if _BEFORE_NAME.search(before) and lowered not in _ORDINARY:
        return True
    words = before.split()
    is_in_a_place = bool(words) and words[-1].lower() in _PLACE_BEFORE
    if is_sentence_start(text, match.start()):
        return lowered in _GIVEN_NAMES - _LOWER_CASE_PLAIN or _begins_with_a_name(text, match)
    if word in _PLACES and is_in_a_place:
        return False
    if word in _NOT_NAMES and lowered in _ALL_GIVEN_NAMES:  # "in April", "ask April"
        return not words or words[-1].lower() not in _BEFORE_A_TIME
    if word in _NOT_NAMES or (
        word in _GROUP_WORDS and (lowered not in _GROUPS_AND_NAMES or _names_a_group(text, match))
    ):
        return False
    if lowered in _ALL_GIVEN_NAMES or any(part in _GIVEN_NAMES for part in lowered.split("-")):
        return lowered in _GIVEN_NAMES or not is_written_in_capitals(text)
    if lowered in _ORDINARY or lowered in PEOPLE:
        return False
    if word.isupper() or is_in_a_place or is_written_in_capitals(text) or _OF_BEFORE.search(before):
        return False
    field = _FIELD.search(text[max(0, match.start() - 80) : match.start()])
    return field is None or not _PERSON_LABELS.isdisjoint(field[1].lower().split())


_LOWER_CASE_PLAIN = {word.lower() for word in _NOT_NAMES}
_BEFORE_A_TIME = WORDS["before_a_time"]
_GROUPS_AND_NAMES = frozenset({"christian"})
_SAYS_OF_SOMEBODY = re.compile(r"\s?[:-]\s{0,3}(?:he|she|his|her)\b", re.IGNORECASE)


def _names_a_group(text: str, match: re.Match[str]) -> bool:
    """Return whether "Christian" and the like describe somebody at this place."""
    near = around(text, *match.span())
    return near.before in DETERMINERS or bool(speaks_of_a_person(near) or stands_for_a_person(near))


def _begins_with_a_name(text: str, match: re.Match[str]) -> bool:
    """Return whether the first word of a sentence, a line or a field may be a name."""
    word, behind = match[0].removesuffix("'s").lower(), text[match.end() : match.end() + 1]
    is_given = (
        word in _ALL_GIVEN_NAMES or word in _GROUPS_AND_NAMES or any(part in _GIVEN_NAMES for part in word.split("-"))
    )
    is_ordinary = word in _ORDINARY or match[0].lower() in _ORDINARY or word in PEOPLE
    if not is_given and (match[0] in _NOT_NAMES or is_ordinary):
        return False
    is_last = text[match.end() : match.end() + 4].lstrip(".,!?)*")[:1] in ("", "\n")
    label = label_before(text, match.start())
    if label is not None and not _PERSON_LABELS.isdisjoint(label.split()):
        return is_last or behind in ",.;!?(-" or bool(_CAPITALISED_WORD.match(text, match.end() + 1))
    is_line = is_last and "\n" in text.strip() and is_line_start(text, match.start())
    if (_VERB_AFTER_NAME.match(text, match.end()) and not word.endswith("ly")) or _SAYS_OF_SOMEBODY.match(
        text, match.end()
    ):
        return True
    if (is_line or _BEHIND_A_NAME.match(text, match.end())) and label is None and not word.endswith("ly"):
        return is_given or not match[0].isupper()
    if match[0].endswith("'s") and (is_given or not is_ordinary):
        return True
    if is_ordinary or match[0] in _NOT_NAMES or match[0] in _GROUP_WORDS:
        return False
    return is_given and (behind in (",", ":") or word not in _ALL_GIVEN_NAMES - _GIVEN_NAMES)


def is_line_start(text: str, at: int) -> bool:
    """Return whether only blanks and marks of a list stand before this place in its line."""
    return not text[text.rfind("\n", 0, at) + 1 : at].strip(" -*•\t")
