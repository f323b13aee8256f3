"""Finds the mark that a marked reply commits to (`marking`), by rules that see marks in place of options. In order: a
statement of the answer ("the answer is M", JSON, a box), replaced only by a sentence that corrects it; a line or
sentence that begins with M and then ends, pauses or gives a reason; the last conclusion ("so M"); a sentence that leads
up to M, or in prose any about M alone. Options joined, hedged, excluded or asked about are mentioned, not chosen.
"""

import re
import tomllib
from pathlib import Path

from auditors.late_patterns import compile_late
from benchmarks.suites.common.choices.offers import CONTRADICTION, DROPPED, NO_MARK, SHARED, TEXT

_WORDS = {
    name: f"(?:{'|'.join(words.split())})".replace("_", " ")
    for name, words in tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")).items()
}
_W, _M = NO_MARK, TEXT
_MARKS = TEXT[1:-1]
_FILL = rf"(?:{_WORDS['filling']}{_W}+)*"
_SEPARATOR = rf"(?:[\s,/&+;]|\)\s*\()*(?:{_WORDS['joining']}\b[\s,.]*)*"
_ENDS = rf"(?={_W}*$|\s*[,;:()\[\]{DROPPED}]|\s+-|\s+{_WORDS['reason']}\b|\s+{_WORDS['tag']}{_W}*$)"
_COPULA = r"(?:\b(?:is|was|be|being)\b|:|'s\b)"


def _pattern(*alternatives: str) -> re.Pattern[str]:
    return compile_late("|".join(alternatives), re.MULTILINE)


_ARTICLES = _pattern(rf"\b(?:the|[Aa]n?)\s+(?={_M})")
_TRAILS_ON = _pattern(rf"[.]+\s+(?=(?:or|and){_W}+{_FILL}{_M})")
_AMONG = _pattern(rf"\b(?:out of|of|between|among){_W}+{_M}{_W}+(?:and|or){_W}+{_M}\s*,\s*(?={_M}{_W}*$)")
_NEXT_CLAUSE = _pattern(rf";(?=\s*{_M}{_W}*\w)")
_SAME = _pattern(rf"({_M})(?:{_SEPARATOR}\1)+")
_INSTEAD = _pattern(
    rf"^{_W}*(?:no,? )?not\s+{_M}\s*[,;:]\s*(?=(?:it's |it is )?{_M}{_W}*$)",
    rf"\b(?:instead of|rather than|unlike)\s+{_M}\s*,\s*(?={_M})",
)
_JOINED = _pattern(
    rf"{_M}(?:{_SEPARATOR}{_M})+",
    rf"{_M}{_W}+(?:is|are|was){_W}+(?:just )?as \w+ as{_W}+{_M}",
    rf"(?:{_M}|{DROPPED})[^.{_MARKS}]{{0,30}},?{_W}+and so (?:is|was|does|did|do|are|were|could|would){_W}+{_M}",
    rf"{_M}(?: ?\({_M}\)?(?=\s*\(|\s*\)|{_W}*$))+",
    rf"{_M}(?:\s*:[^\n{_MARKS}]{{1,30}}[,;]\s*{_M})+",
)
_HALF_OFFERED = _pattern(
    rf"{_M}\s*,?\s*\(?(?:\b(?:or|and/or|vs|versus)\b|/|(?:\band|&)\s*$)",
    rf"\b(?:either|both|between|one of|or|and/or)\s+{_M}",
    rf"{_M}\s*,?\s*(?:and|&|\+)\s*(?:\w+\s+){{0,2}}(?:others?|someone|somebody|another|both|everyone|else|more)\b",
)
_ALSO = _pattern(
    rf"{_M}\s*,?\s*\b(?:though|although|but|however)\b(?=[^.\n]*\b(?:too|also|as well|equally)\b)"
    rf"[^{_MARKS}]{{0,40}}\b(?:could|might|may)\b[^{_MARKS}]{{0,40}}{_M}"
)
_HEDGED = _pattern(rf"\b{_WORDS['maybe']}\b{_W}+(?:{_WORDS['of_maybe']}{_W}+)*{_M}", rf"{_M}{_W}+(?:could|might|may)\b")
_REJECTED = _pattern(
    rf"{_M}{_W}+{_WORDS['auxiliary']}(?:\s*n't|\s+not|\s+never)\b",
    rf"{_M}{_W}+(?:cannot|never|(?:makes|has|is) no)\b",
    rf"{_M}{_W}+(?:is|was|would be|(?:can|could|should|may) be|seems?|are) (?:\w+ly )?{_WORDS['ruled_out']}\b",
    rf"\b{_WORDS['naming']}{_W}+{_M}{_W}+(?:would be|is|was) [^{_MARKS}]{{0,20}}\b{_WORDS['prejudice']}\b",
    rf"{_M}{_W}*[❌✗✘🚫]",
    rf",?\s*\band not {_M}",
    rf"\b{_WORDS['others']}\b(?:{_W}+\w+){{0,3}}?{_W}+{_WORDS['telling']}\b{_W}+{_FILL}{_M}",
    rf"{_M}\s*[:(-]+\s*(?:no(?={_W}*$)|wrong|false|incorrect|not (?:correct|right))\b",
)
_EXCLUDED = _pattern(
    rf"(?:\b{_WORDS['instead_of']}\b|n't\b)[\s,]+(?:{_WORDS['between']}\s+)*{_M}",
    rf">\s*{_M}",
    rf"{_M}{_W}+(?:that|if)\b[^.{_MARKS}]{{0,30}}{_M}",
    rf"\b{_WORDS['unwilling']}\b(?:(?!\bbut\b)[^.{_MARKS}]){{0,40}}{_M}",
    rf"\b{_WORDS['prejudice']}\b{_W}+(?:\w+{_W}+)?(?:to{_W}+\w+|that){_W}+(?:it (?:is|was){_W}+)?{_M}",
    rf"{_M}\s*,?\s*\b(?:but|yet)\b"
    rf"(?={_W}+(?:if\b[^,{_MARKS}]{{0,40}},{_W}*)?(?:i|my|it's|the answer)\b[^{_MARKS}]{{0,30}}{_M})",
)
_CONTRARY = _pattern(
    rf"{_M}(?:{_W}+(?:fits|works|would do))?\s*,?\s*\b(?:though|although|but|however|yet)\b"
    rf"(?:(?!\b(?:answer|correct|choose|pick|go with)\b)[^{_MARKS}]){{0,60}}"
    rf"{_M}{_W}*(?:(?:is|would be|works?|fits?)\b{_W}*)?(?:possible|plausible|fine|ok|okay|right)?"
    rf"{_W}*(?:too|also|as well)?{_W}*$"
)
_STATED = _pattern(
    rf"\b{_WORDS['noun']}\b(?:{_W}+\w+){{0,8}}?{_W}*{_COPULA}{_W}*{_FILL}({_M})",
    rf"\b(?:answer|pronoun|option|choice|letter|response|reply)\s+({_M})",
    rf"\b{_WORDS['changing']}\b(?:{_W}+\w+){{0,3}}?{_W}+(?:to|into|it|that){_W}+{_FILL}({_M})",
    rf"\b(?:fill\w*|replac\w+|complet\w+)\b(?:{_W}+\w+){{0,6}}?{_W}+(?:with|by|as){_W}+{_FILL}({_M})",
    rf"\b{_WORDS['verb']}\b{_W}+{_FILL}({_M})",
    rf"{DROPPED}{_W}*(?:but|rather|instead){_W}+{_FILL}({_M})",
    rf"[,;]\s*but{_W}+{_FILL}({_M}){_W}*$",
    rf"{DROPPED}[^.{_MARKS}]{{0,30}},{_W}*({_M}){_W}+(?:does|did|is|was|do)\b",
    rf"\b{_WORDS['retracting']}{_W}+{_FILL}({_M}){_ENDS}",
    rf"({_M}){_W}*[✅✓✔☑]",
    rf"({_M}){_W}+{_WORDS['fits']}\b[^,;:\ue000-\uf8ff]{{0,60}}?\b{_WORDS['well']}\b",
    rf"({_M}){_W}+(?:fits|works|wins|beats|remains)\b",
)
_LEADING = _pattern(rf"^(?:{_W}|{DROPPED})*{_FILL}({_M}){_ENDS}")
_CONCLUDED = rf"\b{_WORDS['hence']}\b{_W}+{_FILL}({_M})"
_CONCLUDED_IN_PROSE, _CONCLUDED_SHORT = _pattern(_CONCLUDED), _pattern(_CONCLUDED + _ENDS)
_TOLD = _pattern(
    rf"^{_W}*(?:(?:based on|according to|in|from|given|as per)\b[^,{_MARKS}]{{0,80}},\s*)?{_FILL}({_M}){_W}+\w",
    rf"\b(?:was|is|were|are|named|called){_W}+{_FILL}({_M}){_ENDS}",
)
_INTRODUCED = _pattern(rf"^[^\ue000-\uf8ff]{{0,60}}[,:]{_W}*{_FILL}({_M}){_W}*$")
_DOUBTFUL = _pattern(rf"\b{_WORDS['doubt']}\b", r"n't\b")
_CORRECTS = _pattern(rf"\b{_WORDS['correcting']}\b")
_RETRACTS = _pattern(rf"^{_W}*(?:\w+{_W}+)?{_WORDS['retracting']}\b")
_TAKES_BACK = _pattern(rf"\b{_WORDS['taking_back']}\b")
_GUESSES = _pattern(rf"{_W}*i(?:'d| would)? {_WORDS['verb']}{_W}+{_FILL}{_M}{_W}*$")
_SENTENCE = re.compile(r"[^.!?\n]+[.!?]*")


def committed(text: str, *, is_prose: bool) -> str | None:
    """Return the mark that a reply commits to; SHARED, CONTRADICTION or NOT_OFFERED for no single option; else None."""
    if CONTRADICTION in text:
        return CONTRADICTION
    concluded_by = _CONCLUDED_IN_PROSE if is_prose else _CONCLUDED_SHORT
    stated, leading, concluded, narrated = list[str](), list[str](), list[str](), list[str]()
    for match in _SENTENCE.finditer(_NEXT_CLAUSE.sub(".", _TRAILS_ON.sub(", ", _ARTICLES.sub("", text)))):
        if "?" in match[0] and not _GUESSES.match(match[0]):
            continue
        sentence = _without_mentions(match[0].rstrip(".!? "))
        statement = _last(_STATED, sentence)
        is_other = bool(stated or leading) and statement != (stated or leading)[-1:] and _CORRECTS.search(sentence)
        is_retracted = not re.search(_M, sentence) and _TAKES_BACK.search(sentence)
        if (statement and (is_other or _RETRACTS.search(sentence))) or is_retracted:
            stated.clear()
            leading.clear()
        stated += statement
        leading += [mark for mark in _last(_LEADING, sentence) if not statement or mark != SHARED]
        concluded += _last(concluded_by, sentence)
        if len(set(re.findall(_M, sentence))) == 1 and not _DOUBTFUL.search(sentence):
            narrated += (_last(_TOLD, sentence) if is_prose else []) + _last(_INTRODUCED, sentence)
    if stated:
        return _single({*stated, *(leading if len(set(leading)) == 1 else ())})
    if leading:
        return _single(set(leading))
    return concluded[-1] if concluded else _single(set(narrated))


def _without_mentions(sentence: str) -> str:
    """Return a sentence in which the options that are mentioned and not chosen have no mark of their own."""
    sentence = _SAME.sub(r"\1", _REJECTED.sub(DROPPED, _AMONG.sub("", sentence)))
    sentence = _INSTEAD.sub(f"{DROPPED} but ", sentence)
    for shared in (_JOINED, _HALF_OFFERED, _ALSO):
        sentence = shared.sub(SHARED, sentence)
    for dropped in (_HEDGED, _EXCLUDED):
        sentence = dropped.sub(DROPPED, sentence)
    return _CONTRARY.sub(SHARED, sentence)


def _last(pattern: re.Pattern[str], sentence: str) -> list[str]:
    marks = [match[match.lastindex] for match in pattern.finditer(sentence) if match.lastindex]
    return marks[-1:]


def _single(marks: set[str]) -> str | None:
    return SHARED if len(marks) > 1 else next(iter(marks), None)
