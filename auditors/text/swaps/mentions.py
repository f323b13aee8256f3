"""Finds the words of the lexicon in texts, each with the form that its surroundings make it."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from auditors.text.swaps import grammar
from auditors.text.swaps.leaves import MEMBERS
from auditors.text.swaps.lexicon import FORMS, LETTERS, PATTERNS, SIGNS_ALONE, UNPAIRED, Form
from auditors.text.swaps.outcome import Doubt
from auditors.text.swaps.people import is_sentence_start, is_written_in_capitals, label_before
from auditors.text.swaps.protected import ProtectedSpans
from auditors.text.swaps.words import WORDS

_ENGLISH = WORDS["english"]
_OTHERS = WORDS["other_languages"]
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
MOST_WORDS = 400
"""Words examined, from the beginning."""


def is_english(text: str) -> bool:
    """Return whether a seventh of the words are English function words, more than other languages' three to one."""
    words = [match[0].lower().split("'")[0] for match, _ in zip(_WORD.finditer(text), range(MOST_WORDS), strict=False)]
    n_english = sum(word in _ENGLISH for word in words)
    n_other = sum(word in _OTHERS for word in words)
    return n_english >= max(1.0, len(words) / 7) and n_english >= 3 * n_other


LONGEST_NAME = 100
"""Characters, with the white space behind it."""
MOST_MENTIONS = 100

_TOKEN = re.compile(r"\w+(?:['/.]\w+)*")
_SURNAME = re.compile(r"\s{1,20}+(?!I\b)[^\W\d_a-z][\w'.-]*")
_PREVIOUS = re.compile(r"(?<![\w'-])([^\W\d_a-z][\w'-]*+)\s{1,20}$")
_TITLED = re.compile(r"\.?\s{1,3}[^\W\d_]")

_AGE = r"\d{1,2}\s?(?:y/?o|yrs?)?[\s,/]{0,2}"
_LETTER = re.compile(
    rf"[(\[]\s?(?:(?P<first>[MF])(?:[\s,/]{{0,2}}\d{{1,2}})?|{_AGE}(?P<last>[MF]))\s?[)\]]"
    r"|\b(?:sex|gender)\b[*\"]{0,2}\s{0,3}[:=|]\s{0,3}(?P<field>[MF])\b"
    rf"|\b(?:a|an|am|i'm|me|here)\s(?:{_AGE}(?P<told>[MF])|(?P<told_first>[MF])\d{{1,2}})\b",
    re.IGNORECASE,
)
"""M or F that states somebody's gender."""
_ANY_LETTER = re.compile(
    r"(?<![\w$€£'.°-])(?<!\ban )(?<!\bAn )"
    r"(?:[MF]\s?\d{1,2}|(?:\d{1,2}\s?)?[MF]|[1-9]\d[mf]|[1-9]\d\s?/?\s?f|[mf]\s?/\s?[1-9]\d|[1-9]\d/m)(?![\w'+-])"
)
_JOINED_PEOPLE = re.compile("[👨👩👦👧]\ufe0f?[🏻-🏿]?\u200d[👨👩👦👧❤💋🤝]")
_PART_BEFORE = re.compile(r"(?:\(\w{1,3}\)|\b(?:s|wo|fe|fe-|wo-)[/-])$", re.IGNORECASE)

_AGE_BEHIND = re.compile(r"\s?[,(]\s?(?:aged?\s)?\d{1,3}\b")
_VALUE_END = re.compile(r"[ \t*\"]{0,4}(?:[\n,;|/)]|\.?$|\.\s)")


class Mention(NamedTuple):
    """One word or phrase of the lexicon in one of the texts."""

    text: int
    start: int
    end: int
    form: Form


class Place(NamedTuple):
    """A place of a word of the lexicon in a text, with the forms that the word may be."""

    start: int
    end: int
    word: str
    forms: Sequence[Form]


def places_in(text: str, axis: str) -> Iterator[Place]:
    """Yield where words, signs and letters of an axis stand in a text in its plain form, not in order."""
    for match in PATTERNS[axis].finditer(text):
        yield Place(*match.span(), match[0], FORMS[axis].get(match[0].lower(), ()))
    if axis == "gender":
        for match in _LETTER.finditer(text):
            name = match.lastgroup or ""
            group = {letter: group for group, letter in LETTERS.forms.items()}[match[name].upper()]
            yield Place(*match.span(name), match[name], (Form(LETTERS.forms[group], group, LETTERS),))


def mentions_in(texts: Sequence[str], spans: Sequence[ProtectedSpans], axis: str) -> list[Mention]:
    """Every mention, each with the form that its surroundings make it. Raises Doubt."""
    places = [
        (number, place)
        for number, text in enumerate(texts)
        for place in sorted(places_in(text, axis), key=lambda place: place.start)
        if _is_whole(text, place) and _is_spelled_as_meant(text, place)
    ]
    kinds = [spans[number].kinds(place.start, place.end) for number, place in places]
    open_ones = [place for place, kind in zip(places, kinds, strict=True) if not kind]
    if not open_ones:
        raise Doubt("no counterpart" if has_unpaired(texts, spans, axis) else "no identity term")
    if len(open_ones) > MOST_MENTIONS:
        raise Doubt("too long")
    if not is_english(" ".join(texts)):
        raise Doubt("not English")
    if any(kind & {"quote", "json"} and "code" not in kind for kind in kinds):
        raise Doubt("mentioned in a quotation")
    if len({form.group for _, place in open_ones for form in place.forms}) > 1:
        raise Doubt("several groups")
    if axis == "gender":
        _check_letters(texts, open_ones)
    return [Mention(number, place.start, place.end, _form(texts[number], place, axis)) for number, place in open_ones]


def has_unpaired(texts: Sequence[str], spans: Sequence[ProtectedSpans], axis: str) -> bool:
    """Return whether a word or sign without a counterpart stands outside the protected parts."""
    if axis == "gender" and any(
        not SIGNS_ALONE.isdisjoint(text) or "⚥" in text or _JOINED_PEOPLE.search(text) for text in texts
    ):
        return True
    return any(
        _is_unpaired(match[0].lower(), axis) and not around.overlap(*match.span())
        for text, around in zip(texts, spans, strict=True)
        for match in _TOKEN.finditer(text)
    )


def _is_unpaired(word: str, axis: str) -> bool:
    unpaired = UNPAIRED.get(axis, frozenset())
    bare = word.removesuffix("'s")
    if word in _ORDINARY_ENDINGS:
        return False
    if word in unpaired or bare in unpaired:
        return True
    is_compound = axis == "gender" and _COMPOUND.search(bare) and bare not in FORMS[axis]
    return bool(is_compound) and bare not in _ORDINARY_ENDINGS


_COMPOUND = re.compile(
    r"^[^\W\d_]{2,}(?:m[ae]n|lady|ladies|girls?|boys?|wife|wives|husbands?|mothers?|fathers?|sisters?|maids?)$"
)
_ORDINARY_ENDINGS = WORDS["ordinary_endings"]


def _check_letters(texts: Sequence[str], places: Sequence[tuple[int, Place]]) -> None:
    """Raises Doubt for a letter that may state a gender and is not swapped, or belongs to a thing."""
    for number, text in enumerate(texts):
        swapped = [place for other, place in places if other == number]
        for match in _ANY_LETTER.finditer(text):
            if not any(place.start < match.end() and match.start() < place.end for place in swapped):
                raise Doubt("unclear use")
    for number, place in places:
        owner = _BEFORE_A_BRACKET.search(_before(texts[number], place)) if place.forms[0].slot is LETTERS else None
        if owner and owner[1].lower() not in grammar.PEOPLE | FORMS["gender"].keys() | {"i", "me"}:
            raise Doubt("unclear use")


_BEFORE_A_BRACKET = re.compile(r"(?<![\w'-])([\w'-]{1,30})\s?[(\[]\s?\w{0,8}[\s,/]{0,3}$")


def _before(text: str, place: Place) -> str:
    return text[max(0, place.start - 40) : place.start]


def _form(text: str, place: Place, axis: str) -> Form:
    """Return the form that a word has at this place. Raises Doubt."""
    word, forms = text[place.start : place.end].lower(), place.forms
    if forms[0].slot.kind == "sign":
        return forms[0]
    _check_neighbours(text, place)
    near = grammar.around(text, place.start, place.end)
    if word in ("her", "his"):
        role = grammar.role_of_her(near) if word == "her" else grammar.role_of_his(near)
        slot = {"determiner": "his", "object": "him", "alone": "his"}.get(role or "")
        other = {"determiner": "her", "object": "her", "alone": "hers"}.get(role or "")
        for form in forms:
            if (form.slot.forms["man"], form.slot.forms["woman"]) == (slot, other):
                return form
        raise Doubt("unclear pronoun")
    is_value = bool(_AGE_BEHIND.match(text, place.end)) or (
        label_before(text, place.start) in MEMBERS.get(axis, ()) and bool(_VALUE_END.match(text, place.end))
    )
    for form in forms:
        if (is_value and form.slot.kind in ("adjective", "noun")) or _fits(form, near, axis):
            _check_capital(text, place, form, axis)
            return form
    raise Doubt("unclear use")


def _fits(form: Form, near: grammar.Around, axis: str) -> bool:
    match form.slot.kind:
        case "adjective":
            if form.text in _ALSO_OF_SKILL and near.after and near.after not in _PLAIN_PEOPLE:
                return False
            if form.text == "old" and near.before in ("my", "your", "our", "his", "her", "their"):  # a former one
                return False
            return bool(grammar.speaks_of_a_person(near))
        case "noun":
            if axis != "gender":
                return bool(grammar.stands_for_a_person(near))
            if form.text in ("male", "female"):
                return near.before in ("old", "yo") or bool(grammar.stands_for_a_person(near))
            is_described = form.slot.is_generic and near.after in grammar.PEOPLE  # "woman president"
            return not is_described and grammar.is_a_single_person(near, form.slot.is_generic)
        case "nouns" if axis == "gender" and form.slot.is_generic and near.after in grammar.PEOPLE:  # "women drivers"
            return False
        case "nouns":
            return form.text not in _CALLED or not grammar.is_called(near)
        case "phrase":
            return near.before in grammar.PEOPLE or near.before in ("am", "i'm", "person", "someone", "anyone")
        case _:
            return True


_CALLED = frozenset({"guys", "gals", "boys", "girls", "ladies", "gentlemen"})
_ALSO_OF_SKILL = frozenset({"poor", "rich", "conservative", "liberal", "moderate", "progressive", "straight"})
_PLAIN_PEOPLE = WORDS["plain_people"] | WORDS["clause_ends"]


def _check_capital(text: str, place: Place, form: Form, axis: str) -> None:
    """Raises Doubt for a word for a man or a woman in capitals amid others: of a title, a name or an abbreviation."""
    word = text[place.start : place.end]
    if (
        axis != "gender"
        or form.slot.kind in ("name", "title", "sign")
        or not word[0].isupper()
        or form.text[0].isupper()
    ):
        return
    if is_sentence_start(text, place.start) or is_written_in_capitals(text):
        return
    if form.slot.kind == "pronoun" and word.isupper():
        return
    near = grammar.around(text, place.start, place.end)
    is_relative = near.before in ("my", "your", "our", "their", "his", "her") or form.text in _WRITTEN_LIKE_NAMES
    is_value = near.after == "person" or label_before(text, place.start) is not None
    if not is_value and (not is_relative or word.isupper()):
        raise Doubt("idiom")


_WRITTEN_LIKE_NAMES = WORDS["written_like_names"]


def _check_neighbours(text: str, place: Place) -> None:
    """Raises Doubt for a part of a longer word, unless that is a family relation."""
    before, after = text[max(0, place.start - 12) : place.start], text[place.end : place.end + 8]
    is_joined_before = before.endswith("-") and not re.search(
        r"(?:^|\W)(?:ex|step|half|great)-(?:great-)?$", before, re.I
    )
    is_joined_after = re.match(r"-\w", after) and not re.match(r"-in-law\b", after, re.I)
    if is_joined_before or is_joined_after or _PART_BEFORE.search(before) or re.match(r"\(\w", after):
        raise Doubt("compound word")


def _is_whole(text: str, place: Place) -> bool:
    """Return whether no combining mark or joiner continues the word."""
    following = text[place.end : place.end + 1]
    is_sign = bool(place.forms) and place.forms[0].slot.kind == "sign"
    return is_sign or not (following and (unicodedata.combining(following) or following == "\u200d"))


def _is_spelled_as_meant(text: str, place: Place) -> bool:
    """A name or a title counts only when written as such, and not as part of a longer name. Raises Doubt."""
    if not place.forms:  # "ſhe" is "she" only where case is ignored
        raise Doubt("unusual spelling")
    form, word = place.forms[0], text[place.start : place.end]
    if form.slot.kind == "title":
        if (form.text == "Miss" and not word[0].isupper()) or (word.isupper() and not text.isupper()):
            return False  # "I miss her", "an MS in physics"
        titled = _TITLED.match(text, place.end)
        is_before_a_name = titled is not None and (titled[0][-1].isupper() or word.islower())
        if not is_before_a_name and form.text != "Miss":
            raise Doubt("unclear use")
        return is_before_a_name
    if form.slot.kind != "name":
        return True
    if word != form.text:
        return False
    previous = _PREVIOUS.search(text, max(0, place.start - LONGEST_NAME), place.start)
    is_longer = _SURNAME.match(text, place.end) or (
        previous and not is_sentence_start(text, previous.start()) and not _is_relation(previous[1])
    )
    return not is_longer


def _is_relation(word: str) -> bool:
    return any(form.slot.kind in ("noun", "title") for form in FORMS["gender"].get(word.lower(), ()))
