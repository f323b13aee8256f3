"""Finds the words of the lexicon in texts, each with the form that its surroundings make it."""

import re
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

from auditors.text.swaps import grammar
from auditors.text.swaps.lexicon import FORMS, PATTERNS, UNPAIRED, Form
from auditors.text.swaps.outcome import Doubt
from auditors.text.swaps.people import is_sentence_start
from auditors.text.swaps.protected import ProtectedSpans
from auditors.text.swaps.words import WORDS

_ENGLISH = WORDS["english"]
_OTHERS = WORDS["other_languages"]
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
MOST_WORDS = 400
"""Words examined, from the beginning."""


def is_english(text: str) -> bool:
    """Return whether a fifth of the words are English function words, more than other languages' three to one."""
    words = [
        match[0].lower().split("'")[0].split("’")[0]
        for match, _ in zip(_WORD.finditer(text), range(MOST_WORDS), strict=False)
    ]
    n_english = sum(word in _ENGLISH for word in words)
    n_other = sum(word in _OTHERS for word in words)
    return n_english >= max(1.0, 0.2 * len(words)) and n_english >= 3 * n_other


LONGEST_NAME = 100
"""Characters, with the white space behind it."""
MOST_MENTIONS = 100

WORD = re.compile(r"\w+(?:['’/.]\w+)*", re.UNICODE)
_SURNAME = re.compile(r"\s{1,20}+(?!I\b)[^\W\d_a-z][\w'’.-]*")
_PREVIOUS = re.compile(r"(?<![\w'’-])([^\W\d_a-z][\w'’-]*+)\s{1,20}$")


class Mention(NamedTuple):
    """One word or phrase of the lexicon in one of the texts."""

    text: int
    start: int
    end: int
    form: Form


def mentions_in(texts: Sequence[str], spans: Sequence[ProtectedSpans], axis: str) -> list[Mention]:
    """Every mention, each with the form that its surroundings make it. Raises Doubt."""
    matches = [
        (number, match)
        for number, text in enumerate(texts)
        for match in PATTERNS[axis].finditer(text)
        if _is_whole(text, match) and _is_spelled_as_meant(text, match, axis)
    ]
    kinds = [spans[number].kinds(*match.span()) for number, match in matches]
    open_ones = [place for place, kind in zip(matches, kinds, strict=True) if not kind]
    if not open_ones:
        raise Doubt("no counterpart" if has_unpaired(texts, spans, axis) else "no identity term")
    if len(open_ones) > MOST_MENTIONS:
        raise Doubt("too long")
    if not is_english(" ".join(texts)):
        raise Doubt("not English")
    if any(kind & {"quote", "json"} for kind in kinds):
        raise Doubt("mentioned in a quotation")
    if len({form.group for number, match in open_ones for form in FORMS[axis][match[0].lower()]}) > 1:
        raise Doubt("several groups")
    return [Mention(number, *match.span(), _form(texts[number], match, axis)) for number, match in open_ones]


def has_unpaired(texts: Sequence[str], spans: Sequence[ProtectedSpans], axis: str) -> bool:
    """Return whether a word without a counterpart stands outside the protected parts."""
    unpaired = UNPAIRED.get(axis, frozenset())
    return any(
        match[0].lower().replace("’", "'") in unpaired and not around.overlap(*match.span())
        for text, around in zip(texts, spans, strict=True)
        for match in WORD.finditer(text)
    )


def _form(text: str, match: re.Match[str], axis: str) -> Form:
    """Return the form that a word has at this place. Raises Doubt."""
    _check_neighbours(text, match)
    near = grammar.around(text, *match.span())
    word, forms = match[0].lower(), FORMS[axis][match[0].lower()]
    if word in ("her", "his"):
        role = grammar.role_of_her(near) if word == "her" else grammar.role_of_his(near)
        slot = {"determiner": "his", "object": "him", "alone": "his"}.get(role or "")
        other = {"determiner": "her", "object": "her", "alone": "hers"}.get(role or "")
        for form in forms:
            if (form.slot.forms["man"], form.slot.forms["woman"]) == (slot, other):
                return form
        raise Doubt("unclear pronoun")
    for form in forms:
        if _fits(form, near, axis):
            return form
    raise Doubt("unclear use")


def _fits(form: Form, near: grammar.Around, axis: str) -> bool:
    match form.slot.kind:
        case "adjective":
            return bool(grammar.speaks_of_a_person(near))
        case "noun":
            if axis == "gender":  # "Man, what a day" calls on nobody in particular
                return bool(near.before) or not form.slot.is_generic
            return bool(grammar.stands_for_a_person(near))
        case "phrase":
            return near.before in grammar.PEOPLE or near.before in ("am", "i'm", "person", "someone", "anyone")
        case _:
            return True


def _check_neighbours(text: str, match: re.Match[str]) -> None:
    """Raises Doubt for a part of a longer word, unless that is a family relation."""
    before, after = text[: match.start()][-12:], text[match.end() : match.end() + 8]
    is_joined_before = before.endswith("-") and not re.search(
        r"(?:^|\W)(?:ex|step|half|great)-(?:great-)?$", before, re.I
    )
    is_joined_after = re.match(r"-\w", after) and not re.match(r"-in-law\b", after, re.I)
    if is_joined_before or is_joined_after:
        raise Doubt("compound word")


def _is_whole(text: str, match: re.Match[str]) -> bool:
    """Return whether no combining mark or joiner continues the word."""
    following = text[match.end() : match.end() + 1]
    return not (following and (unicodedata.combining(following) or following in "\u200c\u200d\u00ad"))


def _is_spelled_as_meant(text: str, match: re.Match[str], axis: str) -> bool:
    """A name counts as one only when written as one, and not as part of a longer name. Raises Doubt."""
    forms = FORMS[axis].get(match[0].lower())
    if forms is None:  # "ſhe" is "she" only where case is ignored
        raise Doubt("unusual spelling")
    if forms[0].slot.kind != "name":
        return True
    if match[0] != forms[0].text:
        return False
    previous = _PREVIOUS.search(text, max(0, match.start() - LONGEST_NAME), match.start())
    is_longer = _SURNAME.match(text, match.end()) or (
        previous and not is_sentence_start(text, previous.start()) and not _is_relation(previous[1])
    )
    return not is_longer


def _is_relation(word: str) -> bool:
    return any(form.slot.kind in ("noun", "title") for form in FORMS["gender"].get(word.lower(), ()))
