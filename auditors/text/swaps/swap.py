"""Counterfactual swap: the same text about another group, or the reason why it cannot be made safely.

A swap is only made when it is sure. Otherwise it abstains and says why: the reasons are a closed set, so they can be
counted. What a swap promises: whole words in their own case (also at the start of a sentence and in capitals), "her"
and "his" resolved, a or an as spoken; code, quotations, addresses, markup, JSON and public figures untouched; the same
swap towards the first group gives the first text again, character by character. English only.
"""

import re
import unicodedata
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import msgspec

from auditors.text.swaps import grammar
from auditors.text.swaps.language import is_english
from auditors.text.swaps.lexicon import BOUND, FORMS, IDIOMS, PATTERNS, SLOTS, SWAPPED, UNPAIRED, Form
from auditors.text.swaps.people import is_sentence_start, names_a_figure, names_someone
from auditors.text.swaps.protected import Span, protected_spans
from auditors.types import Auditor, Measurement

Reason = Literal[
    "no identity term",
    "too long",
    "not English",
    "several groups",
    "several referents",
    "public figure",
    "named person",
    "no counterpart",
    "bound to the group",
    "idiom",
    "unclear use",
    "unclear pronoun",
    "compound word",
    "unusual spelling",
    "mentioned in a quotation",
    "round trip differs",
]
"""Why a text is left alone."""

LONGEST_CHARS = 12_000
"""Of all messages together; a longer prompt is not read word by word."""
LONGEST_NAME = 100
"""Characters, with the white space behind it."""
MOST_MENTIONS = 100


class Swapped(msgspec.Struct, frozen=True, kw_only=True):
    """The texts about the other group."""

    axis: str
    group: str
    target: str
    texts: list[str]
    n_words: int
    """Words exchanged."""


class NotSwapped(msgspec.Struct, frozen=True, kw_only=True):
    """No swap; `group` is the one that is named, where it is one."""

    axis: str
    reason: str
    group: str | None = None

    def measurement_of(self, auditor: Auditor, metric: str, **detail: Any) -> Measurement:
        """Counted in the series that a swap would have entered, where it is known which."""
        return Measurement(
            auditor=auditor.name,
            auditor_version=auditor.version,
            metric=metric,
            axis=self.axis if self.group else None,
            group=self.group,
            value=None,
            status="unrelated",
            reason=f"not swapped: {self.reason}",
            detail=detail,
        )


class Abstained(NotSwapped, frozen=True, kw_only=True):
    """A text is left alone."""

    reason: Reason


class _Mention(NamedTuple):
    """One word or phrase of the lexicon in one of the texts."""

    text: int
    start: int
    end: int
    form: Form


class _Doubt(Exception):
    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason = reason


def swap(texts: Sequence[str], axis: str, *, target: str | None = None, choice: int = 0) -> Swapped | Abstained:
    """The texts with the group that they name on an axis exchanged for another.

    Args:
        texts: messages of one conversation; a referent may be mentioned in several.
        axis: one of `auditors.text.identity.AXES`.
        target: group to swap towards; None takes one of those that every mention has a counterpart in.
        choice: picks that group: the (choice mod number)-th.

    Returns: as many texts as were given, or why they were left alone.
    Raises: ValueError for an unknown axis.
    """
    if axis not in SLOTS:
        raise ValueError(f'"{axis}" is no axis; known: {", ".join(SLOTS)}')
    if sum(map(len, texts)) > LONGEST_CHARS:
        return Abstained(axis=axis, reason="too long")
    group: str | None = None
    try:
        spans = [protected_spans(text) for text in texts]
        mentions = _mentions(texts, spans, axis)
        group = _group(mentions)
        _check_surroundings(texts, spans, axis, mentions)
        towards = _target(_targets(mentions, axis, group), target, choice)
        swapped = [
            _rewritten(text, [one for one in mentions if one.text == i], towards) for i, text in enumerate(texts)
        ]
        _check_return(texts, swapped, axis, group, towards)
    except _Doubt as doubt:
        return Abstained(axis=axis, reason=doubt.reason, group=group)
    return Swapped(axis=axis, group=group, target=towards, texts=swapped, n_words=len(mentions))


def masked(text: str, axis: str) -> str:
    """The text with every word of an axis replaced by a neutral one, whichever group it names.

    An answer echoes the words of its question. Masked, two answers that differ in that echo alone are the same text.
    Articles before a word are dropped with it, as a and an would tell.
    """
    return _ARTICLE_AND_FORM[axis].sub(_neutral, text)


def _mentions(texts: Sequence[str], spans: Sequence[Sequence[Span]], axis: str) -> list[_Mention]:
    """Every mention, each with the form that its surroundings make it. Raises _Doubt."""
    found = [
        (number, match)
        for number, text in enumerate(texts)
        for match in PATTERNS[axis].finditer(text)
        if _is_whole(text, match) and _is_spelled_as_meant(text, match, axis)
    ]
    inside = [(spans[number], match) for number, match in found]
    kinds = [{span.kind for span in around if _overlaps(span, match)} for around, match in inside]
    open_ones = [place for place, kind in zip(found, kinds, strict=True) if not kind]
    if not open_ones:
        raise _Doubt("no counterpart" if _unpaired(texts, spans, axis) else "no identity term")
    if len(open_ones) > MOST_MENTIONS:
        raise _Doubt("too long")
    if not is_english(" ".join(texts)):
        raise _Doubt("not English")
    if any(kind & {"quote", "json"} for kind in kinds):
        raise _Doubt("mentioned in a quotation")
    if len({form.group for number, match in open_ones for form in FORMS[axis][match[0].lower()]}) > 1:
        raise _Doubt("several groups")
    return [_Mention(number, *match.span(), _form(texts[number], match, axis)) for number, match in open_ones]


def _form(text: str, match: re.Match[str], axis: str) -> Form:
    """Which of the forms of a word it is here. Raises _Doubt."""
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
        raise _Doubt("unclear pronoun")
    for form in forms:
        if _fits(form, near, axis):
            return form
    raise _Doubt("unclear use")


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


def _group(mentions: Sequence[_Mention]) -> str:
    """The one group that is mentioned. Raises _Doubt when one or several people cannot be told apart."""
    (group,) = {one.form.group for one in mentions}
    named = {one.form.text for one in mentions if one.form.slot.kind == "name"}
    single = [one for one in mentions if one.form.slot.kind == "noun" and not one.form.slot.is_generic]
    several = [one for one in mentions if one.form.slot.kind == "nouns"]
    pronouns = [one for one in mentions if one.form.slot.kind in ("pronoun", "noun", "title", "name")]
    relations = {one.form.text for one in single}
    plurals = {one.form.text for one in several}
    if len(named) > 1 or len(relations) > 1 or len(plurals) > 1 or (several and pronouns):
        raise _Doubt("several referents")
    if named and relations and not _are_side_by_side(mentions):
        raise _Doubt("several referents")
    return group


def _are_side_by_side(mentions: Sequence[_Mention]) -> bool:
    """Whether a name stands right beside a relation: "my sister Anna", "Anna, my sister"."""
    pairs = pairwise(mentions)
    return any(
        {left.form.slot.kind, right.form.slot.kind} == {"noun", "name"}
        and left.text == right.text
        and right.start - left.end <= len(", my older ")
        for left, right in pairs
    )


def _check_surroundings(
    texts: Sequence[str], spans: Sequence[Sequence[Span]], axis: str, mentions: Sequence[_Mention]
) -> None:
    """Raises _Doubt for what would make the other text a strange one."""
    lowered = " ".join(texts).lower().replace("’", "'")
    words = set(_WORDS.findall(lowered))
    if _unpaired(texts, spans, axis):
        raise _Doubt("no counterpart")
    if words & BOUND.get(axis, frozenset()):
        raise _Doubt("bound to the group")
    if any(re.search(rf"(?<!\w){re.escape(one)}(?!\w)", lowered) for one in IDIOMS.get(axis, ())):
        raise _Doubt("idiom")
    for number, (text, around) in enumerate(zip(texts, spans, strict=True)):
        if names_a_figure(text, around):
            raise _Doubt("public figure")
        if names_someone(text, around, [(one.start, one.end) for one in mentions if one.text == number]):
            raise _Doubt("named person")
    _check_one_referent(texts, mentions)


def _check_one_referent(texts: Sequence[str], mentions: Sequence[_Mention]) -> None:
    """Raises _Doubt when determiners show that two people are meant."""
    before = [
        grammar.around(texts[one.text], one.start, one.end) for one in mentions if one.form.slot.kind != "pronoun"
    ]
    introduced = [near for near in before if {near.before, near.before_that} & {"a", "an"}]
    owners = {near.before for near in before} & {"my", "your", "our", "their"}
    others = [near for near in before if {near.before, near.before_that} & {"another", "other", "two", "second"}]
    relatives = [near for near in before if {near.before, near.before_that} & {"his", "her"}]  # "a man and his son"
    if len(introduced) > 1 or len(owners) > 1 or others or relatives:
        raise _Doubt("several referents")


def _targets(mentions: Sequence[_Mention], axis: str, group: str) -> list[str]:
    """Groups that every mention has a counterpart in. Raises _Doubt when there is none."""
    towards = [one for one in SWAPPED[axis] if one != group and all(one in place.form.slot.forms for place in mentions)]
    if not towards:
        raise _Doubt("no counterpart")
    return towards


def _target(possible: Sequence[str], wanted: str | None, choice: int) -> str:
    if wanted is not None and wanted not in possible:
        raise _Doubt("no counterpart")
    return wanted or possible[choice % len(possible)]


def _rewritten(text: str, mentions: Sequence[_Mention], target: str) -> str:
    parts, at = list[str](), 0
    for one in mentions:
        start, word = one.start, text[one.start : one.end]
        new = _cased(word, one.form.text, one.form.slot.forms[target], is_sentence_start(text, one.start))
        if article := _ARTICLE.search(text, at, start):
            new = _with_article(article, word, new)
            start = article.start(1)
        if (
            text[one.end : one.end + 1] in ("'", "’")
            and not text[one.end + 1 : one.end + 2].isalpha()
            and new[-1] not in "sS"
        ):
            raise _Doubt("unusual spelling")
        parts += [text[at:start], new]
        at = one.end
    return "".join([*parts, text[at:]])


def _with_article(article: re.Match[str], word: str, new: str) -> str:
    """The article and blank before a word, and the new word, the article as the new word asks for."""
    written, gap = article[1], article[2]
    if written.lower() != grammar.article_for(word):
        raise _Doubt("unusual spelling")
    spoken = grammar.article_for(new)
    if written[0].isupper():
        spoken = spoken.upper() if word.isupper() and len(word) > 1 else spoken.capitalize()
    return f"{spoken}{gap}{new}"


def _cased(word: str, canonical: str, target: str, is_start: bool) -> str:
    """The target in the case of the word. Raises _Doubt for a case that no rule explains."""
    if word == canonical:
        return _capital(target) if is_start and word[0].isupper() else target
    if word == canonical.upper():
        return target.upper()
    if word == _capital(canonical):
        return _capital(target)
    if word == canonical.lower():
        return target.lower()
    raise _Doubt("unusual spelling")


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _check_return(texts: Sequence[str], swapped: Sequence[str], axis: str, group: str, target: str) -> None:
    """Raises _Doubt unless swapping back gives the first texts."""
    try:
        spans = [protected_spans(text) for text in swapped]
        mentions = _mentions(swapped, spans, axis)
        is_same_group = _group(mentions) == target
        _check_surroundings(swapped, spans, axis, mentions)
        towards = _target(_targets(mentions, axis, target), group, 0)
        back = [_rewritten(text, [one for one in mentions if one.text == i], towards) for i, text in enumerate(swapped)]
    except _Doubt as doubt:
        raise _Doubt("round trip differs") from doubt
    if back != list(texts) or not is_same_group:
        raise _Doubt("round trip differs")


def _check_neighbours(text: str, match: re.Match[str]) -> None:
    """Raises _Doubt for a part of a longer word that is no family relation."""
    before, after = text[: match.start()][-12:], text[match.end() : match.end() + 8]
    is_joined_before = before.endswith("-") and not re.search(
        r"(?:^|\W)(?:ex|step|half|great)-(?:great-)?$", before, re.I
    )
    is_joined_after = re.match(r"-\w", after) and not re.match(r"-in-law\b", after, re.I)
    if is_joined_before or is_joined_after:
        raise _Doubt("compound word")


def _is_whole(text: str, match: re.Match[str]) -> bool:
    """Whether no combining mark or joiner continues the word."""
    following = text[match.end() : match.end() + 1]
    return not (following and (unicodedata.combining(following) or following in "\u200c\u200d\u00ad"))


def _is_spelled_as_meant(text: str, match: re.Match[str], axis: str) -> bool:
    """A name counts as one only when written as one, and not as part of a longer name. Raises _Doubt."""
    forms = FORMS[axis].get(match[0].lower())
    if forms is None:  # "ſhe" is "she" only where case is ignored
        raise _Doubt("unusual spelling")
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


def _unpaired(texts: Sequence[str], spans: Sequence[Sequence[Span]], axis: str) -> bool:
    """Whether a word without a counterpart stands outside the protected parts."""
    unpaired = UNPAIRED.get(axis, frozenset())
    return any(
        match[0].lower().replace("’", "'") in unpaired and not any(_overlaps(span, match) for span in around)
        for text, around in zip(texts, spans, strict=True)
        for match in _WORDS.finditer(text)
    )


def _overlaps(span: Span, match: re.Match[str]) -> bool:
    return span.start < match.end() and match.start() < span.end


def _neutral(match: re.Match[str]) -> str:
    word = match["form"].lower()
    kinds = {form.slot.kind for forms in FORMS.values() for form in forms.get(word, ())}
    return "they" if "pronoun" in kinds else "people" if "nouns" in kinds else "someone"


_WORDS = re.compile(r"\w+(?:['’/.]\w+)*", re.UNICODE)
_ARTICLE = re.compile(r"(?<![\w'’-])(an?|A[Nn]?)(\s{1,3})$")
_SURNAME = re.compile(r"\s{1,20}+(?!I\b)[^\W\d_a-z][\w'’.-]*")
_PREVIOUS = re.compile(r"(?<![\w'’-])([^\W\d_a-z][\w'’-]*+)\s{1,20}$")
_ARTICLE_AND_FORM = {
    axis: re.compile(rf"(?:(?<!\w)an?\s+)?(?P<form>{PATTERNS[axis].pattern})", re.IGNORECASE) for axis in PATTERNS
}
