"""Counterfactual swap: the same text about another group, or the reason why it cannot be made safely.

A swap is only made when it is sure. Otherwise it abstains and says why: the reasons are a closed set, so they can be
counted. A swap promises: whole words in their own case (also at the start of a sentence and in capitals), "her"
and "his" resolved, a or an as spoken; code, quotations, addresses, markup, JSON and public figures untouched; the same
swap towards the first group gives the first text again, character by character. English only.
"""

import re
from collections.abc import Sequence
from itertools import pairwise

from auditors.text.swaps import grammar
from auditors.text.swaps.lexicon import BOUND, IDIOMS, SLOTS, SWAPPED
from auditors.text.swaps.mentions import WORD, Mention, has_unpaired, mentions_in
from auditors.text.swaps.outcome import Abstained, Doubt, Swapped
from auditors.text.swaps.people import is_sentence_start, names_a_figure, names_someone
from auditors.text.swaps.protected import ProtectedSpans, protected_spans

_ARTICLE = re.compile(r"(?<![\w'’-])(an?|A[Nn]?)(\s{1,3})$")


def rewritten(text: str, mentions: Sequence[Mention], target: str) -> str:
    """The text with each mention in its form for `target`. Raises Doubt."""
    parts, at = list[str](), 0
    for mention in mentions:
        start, word = mention.start, text[mention.start : mention.end]
        new = _cased(word, mention.form.text, mention.form.slot.forms[target], is_sentence_start(text, mention.start))
        if article := _ARTICLE.search(text, at, start):
            new = _with_article(article, word, new)
            start = article.start(1)
        if (
            text[mention.end : mention.end + 1] in ("'", "’")
            and not text[mention.end + 1 : mention.end + 2].isalpha()
            and new[-1] not in "sS"
        ):
            raise Doubt("unusual spelling")
        parts += [text[at:start], new]
        at = mention.end
    return "".join([*parts, text[at:]])


def _with_article(article: re.Match[str], word: str, new: str) -> str:
    """The article and blank before a word, and the new word, the article as the new word asks for."""
    written, gap = article[1], article[2]
    if written.lower() != grammar.article_for(word):
        raise Doubt("unusual spelling")
    spoken = grammar.article_for(new)
    if written[0].isupper():
        spoken = spoken.upper() if word.isupper() and len(word) > 1 else spoken.capitalize()
    return f"{spoken}{gap}{new}"


def _cased(word: str, canonical: str, target: str, is_start: bool) -> str:
    """The target in the case of the word. Raises Doubt for a case that no rule explains."""
    if word == canonical:
        return _capital(target) if is_start and word[0].isupper() else target
    if word == canonical.upper():
        return target.upper()
    if word == _capital(canonical):
        return _capital(target)
    if word == canonical.lower():
        return target.lower()
    raise Doubt("unusual spelling")


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


LONGEST_CHARS = 12_000
"""Most characters of all messages together; a longer prompt is not read word by word."""


def swap(texts: Sequence[str], axis: str, *, target: str | None = None, choice: int = 0) -> Swapped | Abstained:
    """Return the texts (messages of a conversation) with the group that they name on an axis exchanged for another.

    Args: target: group to swap towards; None takes the (choice mod number)-th of those that every mention has a
        counterpart in.

    Returns: as many texts as were given, or why they were left alone.
    Raises: ValueError for an axis outside `auditors.text.identity.AXES`.
    """
    if axis not in SLOTS:
        raise ValueError(f'"{axis}" is not an axis; known: {", ".join(SLOTS)}')
    if sum(map(len, texts)) > LONGEST_CHARS:
        return Abstained(axis=axis, reason="too long")
    group: str | None = None
    try:
        spans = [protected_spans(text) for text in texts]
        mentions = mentions_in(texts, spans, axis)
        group = _group(mentions)
        _check_surroundings(texts, spans, axis, mentions)
        towards = _target(_targets(mentions, axis, group), target, choice)
        swapped = [
            rewritten(text, [mention for mention in mentions if mention.text == i], towards)
            for i, text in enumerate(texts)
        ]
        _check_return(texts, swapped, axis, group, towards)
    except Doubt as doubt:
        return Abstained(axis=axis, reason=doubt.reason, group=group)
    return Swapped(axis=axis, group=group, target=towards, texts=swapped, n_words=len(mentions))


def _group(mentions: Sequence[Mention]) -> str:
    """The one group that is mentioned. Raises Doubt when one or several people cannot be told apart."""
    (group,) = {mention.form.group for mention in mentions}
    named = {mention.form.text for mention in mentions if mention.form.slot.kind == "name"}
    single = [mention for mention in mentions if mention.form.slot.kind == "noun" and not mention.form.slot.is_generic]
    several = [mention for mention in mentions if mention.form.slot.kind == "nouns"]
    pronouns = [mention for mention in mentions if mention.form.slot.kind in ("pronoun", "noun", "title", "name")]
    relations = {mention.form.text for mention in single}
    plurals = {mention.form.text for mention in several}
    if len(named) > 1 or len(relations) > 1 or len(plurals) > 1 or (several and pronouns):
        raise Doubt("several referents")
    if named and relations and not _are_side_by_side(mentions):
        raise Doubt("several referents")
    return group


def _are_side_by_side(mentions: Sequence[Mention]) -> bool:
    """Return whether a name stands right next to a relation: "my sister Anna", "Anna, my sister"."""
    pairs = pairwise(mentions)
    return any(
        {left.form.slot.kind, right.form.slot.kind} == {"noun", "name"}
        and left.text == right.text
        and right.start - left.end <= len(", my older ")
        for left, right in pairs
    )


def _check_surroundings(
    texts: Sequence[str], spans: Sequence[ProtectedSpans], axis: str, mentions: Sequence[Mention]
) -> None:
    """Raises Doubt for what would make the other text a strange one."""
    lowered = " ".join(texts).lower().replace("’", "'")
    words = set(WORD.findall(lowered))
    if has_unpaired(texts, spans, axis):
        raise Doubt("no counterpart")
    if words & BOUND.get(axis, frozenset()):
        raise Doubt("bound to the group")
    if any(re.search(rf"(?<!\w){re.escape(idiom)}(?!\w)", lowered) for idiom in IDIOMS.get(axis, ())):
        raise Doubt("idiom")
    for number, (text, around) in enumerate(zip(texts, spans, strict=True)):
        if names_a_figure(text, around):
            raise Doubt("public figure")
        if names_someone(
            text, around, [(mention.start, mention.end) for mention in mentions if mention.text == number]
        ):
            raise Doubt("named person")
    _check_one_referent(texts, mentions)


def _check_one_referent(texts: Sequence[str], mentions: Sequence[Mention]) -> None:
    """Raises Doubt when determiners show that two people are meant."""
    before = [
        grammar.around(texts[mention.text], mention.start, mention.end)
        for mention in mentions
        if mention.form.slot.kind != "pronoun"
    ]
    introduced = [near for near in before if {near.before, near.before_that} & {"a", "an"}]
    owners = {near.before for near in before} & {"my", "your", "our", "their"}
    with_other = [near for near in before if {near.before, near.before_that} & {"another", "other", "two", "second"}]
    relatives = [near for near in before if {near.before, near.before_that} & {"his", "her"}]  # "a man and his son"
    if len(introduced) > 1 or len(owners) > 1 or with_other or relatives:
        raise Doubt("several referents")


def _targets(mentions: Sequence[Mention], axis: str, group: str) -> list[str]:
    """Groups that every mention has a counterpart in. Raises Doubt when there is none."""
    towards = [
        target
        for target in SWAPPED[axis]
        if target != group and all(target in place.form.slot.forms for place in mentions)
    ]
    if not towards:
        raise Doubt("no counterpart")
    return towards


def _target(possible: Sequence[str], requested: str | None, choice: int) -> str:
    if requested is not None and requested not in possible:
        raise Doubt("no counterpart")
    return requested or possible[choice % len(possible)]


def _check_return(texts: Sequence[str], swapped: Sequence[str], axis: str, group: str, target: str) -> None:
    """Raises Doubt unless swapping back gives the first texts."""
    try:
        spans = [protected_spans(text) for text in swapped]
        mentions = mentions_in(swapped, spans, axis)
        is_same_group = _group(mentions) == target
        _check_surroundings(swapped, spans, axis, mentions)
        towards = _target(_targets(mentions, axis, target), group, 0)
        back = [
            rewritten(text, [mention for mention in mentions if mention.text == i], towards)
            for i, text in enumerate(swapped)
        ]
    except Doubt as doubt:
        raise Doubt("round trip differs") from doubt
    if back != list(texts) or not is_same_group:
        raise Doubt("round trip differs")
