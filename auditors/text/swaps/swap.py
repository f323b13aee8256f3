"""Counterfactual swap: the same text about another group, or the reason (of a closed set) why it is not sure. Whole
words in their own case, "her" and "his", a or an; code, quotations, addresses, markup, JSON and public figures
untouched; swapping back gives the first text, character by character. English only.
"""

import re
import unicodedata
from collections.abc import Sequence
from itertools import pairwise

from auditors.text.plain import BLANKS, HYPHENS, Plain, plain_text
from auditors.text.swaps import grammar
from auditors.text.swaps.lexicon import BOUND, IDIOMS, SLOTS, SWAPPED
from auditors.text.swaps.mentions import Mention, has_unpaired, mentions_in
from auditors.text.swaps.outcome import Abstained, Doubt, Swapped
from auditors.text.swaps.people import is_sentence_start, names_a_figure, names_someone
from auditors.text.swaps.protected import protected_spans
from auditors.text.swaps.words import WORDS

_ARTICLE = re.compile(r"(?<![\w'-])(an?|A[Nn]?)(\s{1,3})$")


def rewritten(plain: Plain, mentions: Sequence[Mention], target: str) -> str:
    """The text with each mention in its form for `target`. Raises Doubt."""
    changes, at, text = list[tuple[int, int, str]](), 0, plain.text
    for mention in mentions:
        start, word = mention.start, text[mention.start : mention.end]
        new = _cased(word, mention.form.text, mention.form.slot.forms[target], is_sentence_start(text, mention.start))
        if (
            text[mention.end : mention.end + 1] == "'"
            and not text[mention.end + 1 : mention.end + 2].isalpha()
            and new[-1] not in "sS"
        ):
            raise Doubt("unusual spelling")
        changes.append((mention.start, mention.end, _in_type_of(plain.written(mention.start, mention.end), new)))
        if article := _ARTICLE.search(text, at, start):
            changes.insert(-1, (*article.span(1), _article(article[1], word, new)))
        at = mention.end
    return plain.rewritten(changes)


def _in_type_of(written: str, new: str) -> str:
    """The new word with the hyphens and blanks of the old one. Raises Doubt for unusual letters."""
    if any(unicodedata.normalize("NFKC", letter) != letter for letter in written if letter.isalpha()):
        raise Doubt("unusual spelling")
    for plain, others in (("-", _HYPHENS), (" ", _BLANKS)):
        if odd := others.search(written):
            new = new.replace(plain, odd[0])
    return new


_HYPHENS, _BLANKS = re.compile(f"[{HYPHENS}]"), re.compile(f"[{BLANKS}]")


def _article(written: str, word: str, new: str) -> str:
    """The article before a word as the new word asks for. Raises Doubt for an article that did not fit the old one."""
    if written.lower() != grammar.article_for(word):
        raise Doubt("unusual spelling")
    spoken = grammar.article_for(new)
    if written[0].isupper():
        spoken = spoken.upper() if word.isupper() and len(word) > 1 else spoken.capitalize()
    return spoken


def _cased(word: str, canonical: str, target: str, is_start: bool) -> str:
    """The target in the case of the word. Raises Doubt for a case that no rule explains."""
    canonical = plain_text(canonical).text
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
    """The messages with the group named on an axis exchanged for another, or why they were left alone. `target`: a
    group; None takes the (choice mod number)-th with counterparts for every mention. Raises ValueError: no such axis.
    """
    if axis not in SLOTS:
        raise ValueError(f'"{axis}" is not an axis; known: {", ".join(SLOTS)}')
    if sum(map(len, texts)) > LONGEST_CHARS:
        return Abstained(axis=axis, reason="too long")
    group: str | None = None
    try:
        plains = [plain_text(text) for text in texts]
        mentions = _mentions(plains, axis)
        group = _group(mentions)
        _check_surroundings(plains, axis, mentions)
        towards = _target(_targets(mentions, axis, group), target, choice)
        swapped = _all_rewritten(plains, mentions, towards)
        _check_return(_all_rewritten(plains, mentions, group), swapped, axis, group, towards)
    except Doubt as doubt:
        return Abstained(axis=axis, reason=doubt.reason, group=group)
    return Swapped(axis=axis, group=group, target=towards, texts=swapped, n_words=len(mentions))


def _all_rewritten(plains: Sequence[Plain], mentions: Sequence[Mention], target: str) -> list[str]:
    return [
        rewritten(plain, [mention for mention in mentions if mention.text == i], target)
        for i, plain in enumerate(plains)
    ]


def _mentions(plains: Sequence[Plain], axis: str) -> list[Mention]:
    texts = [plain.text for plain in plains]
    return mentions_in(texts, [protected_spans(text) for text in texts], axis)


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


def _check_surroundings(plains: Sequence[Plain], axis: str, mentions: Sequence[Mention]) -> None:
    """Raises Doubt for what would make the other text a strange one."""
    texts = [plain.text for plain in plains]
    spans = [protected_spans(text) for text in texts]
    lowered = " ".join(_JOINED.sub(" ", " ".join(texts).lower()).split())
    if has_unpaired(texts, spans, axis):
        raise Doubt("no counterpart")
    if axis in BOUND and BOUND[axis].search(lowered):
        raise Doubt("bound to the group")
    if axis in IDIOMS and IDIOMS[axis].search(lowered):
        raise Doubt("idiom")
    if axis == "gender" and all(mention.form.slot.kind in ("pronoun", "sign") for mention in mentions):
        first = min(mentions, key=lambda mention: (mention.text, mention.start))
        words_before = {word.removesuffix("'s") for word in _WORD.findall(_before(texts, first))}
        if words_before & _CALLED_HE_OR_SHE and not words_before & grammar.PEOPLE:
            raise Doubt("unclear use")
    for number, (text, around) in enumerate(zip(texts, spans, strict=True)):
        if names_a_figure(text, around):
            raise Doubt("public figure")
        if names_someone(
            text, around, [(mention.start, mention.end) for mention in mentions if mention.text == number]
        ):
            raise Doubt("named person")
    _check_one_referent(texts, mentions)


def _before(texts: Sequence[str], mention: Mention) -> str:
    return " ".join([*texts[: mention.text], texts[mention.text][: mention.start]]).lower()


_WORD = re.compile(r"[^\W\d_]+(?:'s)?")
_JOINED = re.compile(r"-|\.(?=\s|\w)")
_CALLED_HE_OR_SHE = WORDS["called_he_or_she"]


def _check_one_referent(texts: Sequence[str], mentions: Sequence[Mention]) -> None:
    """Raises Doubt when determiners show that two people are meant."""
    before = [
        grammar.around(texts[mention.text], mention.start, mention.end)
        for mention in mentions
        if mention.form.slot.kind not in ("pronoun", "sign")
    ]
    introduced = [near for near in before if {near.before, near.before_that} & {"a", "an"}]
    owners = {near.before for near in before} & {"my", "your", "our", "their"}
    with_other = [near for near in before if {near.before, near.before_that} & {"another", "other", "second"}]
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


def _check_return(own: Sequence[str], swapped: Sequence[str], axis: str, group: str, target: str) -> None:
    """Raises Doubt unless swapping back gives the first texts (`own`, in the spelling of the lexicon)."""
    try:
        plains = [plain_text(text) for text in swapped]
        mentions = _mentions(plains, axis)
        is_same_group = _group(mentions) == target
        _check_surroundings(plains, axis, mentions)
        back = _all_rewritten(plains, mentions, _target(_targets(mentions, axis, target), group, 0))
    except Doubt as doubt:
        raise Doubt("round trip differs") from doubt
    if [plain_text(text).text for text in back] != [plain_text(text).text for text in own] or not is_same_group:
        raise Doubt("round trip differs")
