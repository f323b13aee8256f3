"""Reads which option a reply commits to: the reader of every suite that offers options, in mode sample and exact alike.

The rules see marks in place of options (`marking`), so they cannot read one option better than another. In order:

1. A statement of the answer ("the answer is M", "I choose M", "M is correct", JSON, a box), the last if it corrects.
2. A line or sentence that begins with M and then ends, pauses or gives a reason; several such lines are a list.
3. The last conclusion ("so M", "it was M").
4. In prose about people, a sentence about M alone.

Options joined by "or", "and", "/" or a comma, hedged ("could be M", "whether M"), excluded ("not M", "anyone but M") or
asked about are mentioned, not chosen. A label against a text, or a label that is not offered, is malformed.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from auditors.text.refusal_words import is_refusal
from auditors.types import Status
from benchmarks.suites.common.marking import (
    CONTRADICTION,
    DROPPED,
    LABEL,
    NO_MARK,
    NOT_OFFERED,
    SHARED,
    TEXT,
    WORDS,
    Offer,
    as_text,
    marked,
    place_of,
    plain,
)
from benchmarks.suites.protocol import Choice, Parsed


def normalise(text: str) -> str:
    """Every run of non-word characters becomes one space, ends trimmed, lower case."""
    return " ".join(WORDS.findall(text)).casefold()


class Reading(NamedTuple):
    """What a reply commits to."""

    status: Status
    place: int | None = None
    """Place of the option if status is "ok"."""
    rule: str | None = None
    """"label", "text" or "prefix"; "several" if the reply names several options and commits to none."""


def read_choice(text: str | None, options: Offer) -> Reading:
    """Return the place of the option that a reply commits to; else malformed (several options, a label that is not
    offered, a label against a text), refusal, or unrelated.
    """
    answer = plain(text or "")
    if not WORDS.search(answer):
        return Reading("unrelated")
    marks, is_completed = marked(answer, options)
    labels = set(re.findall(LABEL, marks))
    marks = re.sub(LABEL, lambda match: as_text(match[0]), marks)
    mark = _committed(marks, is_prose=options.is_prose)
    if mark in (CONTRADICTION, NOT_OFFERED):
        return Reading("malformed")
    if mark is not None and mark != SHARED:
        by_label = mark in map(as_text, labels)
        return Reading("ok", place_of(mark), "label" if by_label else "prefix" if is_completed else "text")
    if is_refusal(re.sub(TEXT, "x", marks)):
        return Reading("refusal")
    several = len(set(re.findall(TEXT, marks))) > 1
    return Reading("malformed", None, "several") if several else Reading("unrelated")


def parse_choice(
    text: str | None, choices: Sequence[Choice], options: Offer, *, several: Status = "malformed"
) -> Parsed:
    """Return the role of the choice that a reply commits to. `several`: status of a reply that names two or more."""
    reading = read_choice(text, options)
    if reading.place is not None:
        return Parsed("ok", choices[reading.place].role, reading.rule)
    return Parsed(several if reading.rule == "several" else reading.status)


_W, _M = NO_MARK, TEXT
_FILL = (
    rf"(?:(?:the|an?|is|be|been|was|were|it|it's|its|that|that's|this|my|would|should|of|course|to|in|for|on|as|fact|i|i'd|say|who"
    r"|definitely|probably|likely|most|clearly|obviously|certainly|surely|simply|just|only|indeed|really|then|here|case"
    r"|option|choice|answer|correct|best|right|final|person|one|word|pronoun|maybe|perhaps|possibly|presumably|still"
    rf"|again|actually|therefore|so|thus|called|sure|ok|okay|well|hmm|yes|yeah){_W}+)*"
)
_SEPARATOR = r"[\s,/&+;()]*(?:(?:and/or|or|and|vs|versus|nor|maybe|perhaps|possibly|else|plus|then|the|an?|even|it is|either|both)\b[\s,.]*)*"
_GOES_NO_FURTHER = rf"(?={_W}*$|\s*[,;:()\]]|\s+-|\s+(?:because|since|due|given|based|from|according|which|who|whom|by|for|in|at|with)\b)"
_NOUN = (
    r"\b(?:answer|ans|choice|option|word|pronoun|mask|blank|gap|response|solution|selection|pick|guess|vote|verdict|result"
    r"|output|conclusion|completion|prediction|term|label|decision|sentence|person|one|individual|subject)\b"
)
_VERB = (
    rf"\b(?:choos\w+|chose|pick(?:ed)?|select(?:ed)?|say|guess|opt(?:ed)?{_W}+for|go(?:ing)?{_W}+with|went{_W}+with"
    rf"|vote{_W}+for|bet{_W}+on|lean(?:ing)?{_W}+towards?|settle{_W}+on|conclude|believe|think|suspect|prefer|use|insert)\b"
)


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text, re.MULTILINE)


_ARTICLES = _pattern(rf"\b(?:the|an?)\s+(?={_M})")
_SAME = _pattern(rf"({_M})(?:{_SEPARATOR}\1)+")
_JOINED = _pattern(rf"{_M}(?:{_SEPARATOR}{_M})+")
_HALF_OFFERED = _pattern(
    rf"{_M}\s*,?\s*(?:\b(?:or|and/or|vs|versus)\b|/)|\b(?:either|both|between|one of|or|and/or)\s+{_M}"
    rf"|{_M}\s*,?\s*(?:and|&|\+)\s*(?:\w+\s+){{0,2}}(?:others?|someone|somebody|another|both|everyone|else|more)\b"
)
_HEDGED = _pattern(
    rf"\b(?:could|might|may|whether|if|unless|suppose|supposing|assuming|what about|how about)\b{_W}+"
    r"(?:(?:well|also|just|easily|possibly|have|be|been|it|it's|is|was|were|that|the|an?|say|choose|pick|as|to|you|we|mean|meant)"
    rf"{_W}+)*{_M}|{_M}{_W}+(?:could|might|may)\b"
)
_EXCLUDED = _pattern(
    rf"(?:\b(?:not|never|neither|nor|cannot|without|excluding|except(?: for|ing)?|besides|unlike|rather than|instead of"
    r"|as opposed to|(?<!none )other than|apart from|with the exception of|minus|than|over|against|rul(?:e|es|ed|ing) out|exclud\w+"
    r"|eliminat\w+|reject\w*|discard\w*|(?:any|every)\s?(?:one|body|thing)?\s+(?:but|save)|all but)|n't)\b"
    r"[\s,]+(?:(?:be|been|have|it|it's|is|was|that|the|an?|go|with|pick|choose|select|say|think|believe|necessarily|really|simply"
    rf"|just|always|of|for|about|as|to|likely|correct|answer)\s+)*{_M}"
    rf"|\b(?:refus\w+|declin\w+|wrong|unable|hesitant|unwilling|reluctant|inappropriate|unfair)\b[^.{_M[1:-1]}]{{0,40}}{_M}"
    rf"|{_M}{_W}+(?:(?:is|was|are|were|did|does|do|has|had|would|could|can|should|will|seems?)(?:\s*n't|\s+not|\s+never)\b"
    r"|cannot\b|never\b|(?:is|was|would be|seems?|are) (?:wrong|incorrect|false|out|unlikely|less|ruled|eliminated|excluded"
    rf"|irrelevant|unrelated|mentioned)\b)|{_M}\s*[:(-]+\s*(?:no|wrong|false|incorrect|not)\b"
)
_CONTRARY = _pattern(
    rf"{_M}\s*,?\s*\b(?:though|although|but|however|yet)\b[^{_M[1:-1]}]{{0,60}}{_M}{_W}*(?:too|also|as well|possible|plausible)?{_W}*$"
)
_STATED = _pattern(
    rf"{_NOUN}(?:{_W}+\w+){{0,8}}?{_W}*(?:\b(?:is|was|be|being)\b|:){_W}*{_FILL}({_M})"
    rf"|\b(?:answer|pronoun|option|choice)\s+({_M})"
    rf"|\b(?:fill\w*|replac\w+|complet\w+)\b(?:{_W}+\w+){{0,6}}?{_W}+(?:with|by|as){_W}+{_FILL}({_M})"
    rf"|{_VERB}{_W}+{_FILL}({_M})"
    rf"|{DROPPED}{_W}*(?:but|rather|instead){_W}+{_FILL}({_M})"
    rf"|({_M}){_W}+(?:is|was|would be|seems|fits|relates|completes|fills|works|makes|sounds|matches)\b[^{_M[1:-1]}]{{0,60}}?"
    r"\b(?:correct|right|best|answer|most|more|sense|likely|appropriate|fit|suitable|logical|choice|option|better|well|sentence"
    r"|blank|gap|mask)\b"
)
_LEADING = _pattern(rf"^{_W}*{_FILL}({_M}){_GOES_NO_FURTHER}")
_CONCLUDED = (
    r"\b(?:so|therefore|thus|hence|consequently|means|must be|must have been|has to be|it is|it's|it was|that is|that's|that was"
    r"|that would be|this is|this was|would be|points? to|implies|suggests?|indicates?|leaving|leaves|clearly|obviously"
    rf"|definitely|probably|likely)\b{_W}+{_FILL}({_M})"
)
_CONCLUDED_IN_PROSE, _CONCLUDED_SHORT = _pattern(_CONCLUDED), _pattern(_CONCLUDED + _GOES_NO_FURTHER)
_TOLD = _pattern(
    rf"^{_W}*(?:(?:based on|according to|in|from|given|as per)\b[^,{_M[1:-1]}]{{0,80}},\s*)?{_FILL}({_M}){_W}+\w"
    rf"|\b(?:was|is|were|are|named|called){_W}+{_FILL}({_M}){_W}*$"
)
_DOUBTFUL = _pattern(
    r"\b(?:not|no|never|cannot|could|might|may|if|whether|unless|but|however|although|though|depends|assum\w*|stereotyp\w*"
    r"|sorry|unable|both|either|neither|mention\w*)\b|n't\b"
)
_CORRECTS = _pattern(
    r"\b(?:wait|actually|correction|sorry|rather|i mean|reconsider\w*|second thought|however|but|final|finally|therefore|so|thus"
    r"|hence|instead|no)\b"
)
_SENTENCE = re.compile(r"[^.!?;\n]+[.!?;]*")


def _committed(text: str, *, is_prose: bool) -> str | None:
    """Return the mark that a marked reply commits to; SHARED, CONTRADICTION or NOT_OFFERED where it is none of an option;
    None for a reply without.
    """
    if CONTRADICTION in text:
        return CONTRADICTION
    concluded_by = _CONCLUDED_IN_PROSE if is_prose else _CONCLUDED_SHORT
    stated, leading, concluded, told = list[str](), list[str](), list[str](), list[str]()
    for match in _SENTENCE.finditer(_ARTICLES.sub("", text)):
        if "?" in match[0]:
            continue
        sentence = _settled(match[0].rstrip(".!; "))
        of_sentence = _last(_STATED, sentence)
        if of_sentence and stated and of_sentence[0] != stated[-1] and _CORRECTS.search(sentence):
            stated.clear()
            leading.clear()
        stated += of_sentence
        leading += _last(_LEADING, sentence)
        concluded += _last(concluded_by, sentence)
        if is_prose and len(set(re.findall(_M, sentence))) == 1 and not _DOUBTFUL.search(sentence):
            told += _last(_TOLD, sentence)
    if stated:
        return _single({*stated, *(leading if len(set(leading)) == 1 else ())})
    if leading:
        return _single(set(leading))
    return concluded[-1] if concluded else _single(set(told))


def _settled(sentence: str) -> str:
    """Return a sentence without the marks of options that are mentioned and not chosen."""
    sentence = _SAME.sub(r"\1", sentence)
    sentence = _JOINED.sub(SHARED, sentence)
    sentence = _HALF_OFFERED.sub(SHARED, sentence)
    sentence = _HEDGED.sub(DROPPED, sentence)
    sentence = _EXCLUDED.sub(DROPPED, sentence)
    return _CONTRARY.sub(SHARED, sentence)


def _last(pattern: re.Pattern[str], sentence: str) -> list[str]:
    """Return the mark of the last match in a sentence, if any."""
    marks = [match[match.lastindex] for match in pattern.finditer(sentence) if match.lastindex]
    return marks[-1:]


def _single(marks: set[str]) -> str | None:
    return SHARED if len(marks) > 1 else next(iter(marks), None)
