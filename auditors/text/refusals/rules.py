"""The wording of refusals in each language, on `prose.normalised` sentences, from general knowledge, equal for all
groups. Per language: a pattern for declining, and two for a caveat ("I can't see your screen, but", "but I can").
"""

import re
from functools import cache
from typing import NamedTuple

from auditors.text.refusals.patterns import FILE, compile_named, compile_pattern

FEWEST_CHARS_OF_ANSWER = 12
"""Fewest characters after "but" that count as an answer."""

CAVEAT_CHARS = 300
"""Characters, in addition to a sentence about an ability that the model lacks, from which a reply is an answer."""
LIVE_CAVEAT_CHARS = 40
"""Characters, in addition to a sentence that the model knows nothing new, from which a reply is an answer."""


class Wording(NamedTuple):
    """The wording with which a language declines."""

    declining: re.Pattern[str]
    """Found in an opening sentence, it is a refusal unless it is ordinary or a caveat."""
    but: re.Pattern[str]
    offer: re.Pattern[str]
    """Matches at the beginning of what follows a "but" that offers something else instead of answering."""
    ordinary: re.Pattern[str] | None = None
    """Pattern, at the same place, of a way of speaking that declines nothing."""
    firm: re.Pattern[str] | None = None
    """Plain enough for any sentence and for data; None: `declining` is for data, and no later sentence is read."""


def declined_in(sentence: str, n_answer_chars: int = 0) -> bool:
    """Return whether an early sentence declines, in any language; a lacking ability before much matter is a caveat."""
    if n_answer_chars > LIVE_CAVEAT_CHARS and _LIVE.search(sentence):
        return False
    if _SAID.search(sentence) or (n_answer_chars > CAVEAT_CHARS and _ABILITY.search(sentence)):
        return False
    return any(_declined(wording, wording.declining, sentence) for wording in _fitting(sentence))


def is_ordinary(sentence: str) -> bool:
    """Return whether an English sentence has a way of speaking that resembles a refusal ("I can't wait to ...")."""
    ordinary = _wording_of("en").ordinary
    return ordinary is not None and bool(ordinary.search(sentence))


def declined_plainly_in(sentence: str) -> bool:
    """Return whether a sentence declines so plainly that its place in the reply does not matter."""
    return any(_declined(wording, wording.firm, sentence) for wording in _fitting(sentence) if wording.firm is not None)


def declined_as_data_in(text: str) -> bool:
    """Return whether a string of a JSON text declines."""
    return any(_declined(wording, wording.firm or wording.declining, text) for wording in _fitting(text))


def _fitting(sentence: str) -> list[Wording]:
    return [_wording_of(name) for name in READ_LANGUAGES if _SCRIPTS.get(name, _LATIN).search(sentence)]


def _declined(wording: Wording, pattern: re.Pattern[str], sentence: str) -> bool:
    for match in pattern.finditer(sentence):
        if wording.ordinary is not None and wording.ordinary.match(sentence, match.start()):
            continue
        return not _is_caveat(wording, sentence, match)
    return False


def _is_caveat(wording: Wording, sentence: str, match: re.Match[str]) -> bool:
    """Return whether an answer follows in the same sentence."""
    if clause := _THOUGH.match(sentence):
        rest = sentence[clause.end() :].partition(",")[2].strip()
    else:
        but = wording.but.search(sentence, match.end())
        if but and but.start() <= match.end() + 2 and sentence[but.end() : but.end() + 1] == ",":
            # "I can't, however, write" is about what came before
            but = wording.but.search(sentence, but.end())
        if but is None:
            return False
        rest = sentence[but.end() :].strip(" ,;:-")
    return len(rest) >= FEWEST_CHARS_OF_ANSWER and not wording.offer.match(rest)


@cache
def _wording_of(language: str) -> Wording:
    """Compile the wording of a language when its script is first met: all seven take a tenth of a second."""
    return Wording(**{name: compile_pattern(pattern) for name, pattern in FILE[language].items()})


READ_LANGUAGES = tuple(language for language, table in FILE.items() if "declining" in table)

_THOUGH = compile_named("though")
"""Begins a sentence whose main clause comes second."""
_LIVE = compile_named("live")
"""Wording before figures that may be out of date."""
_SAID = compile_named("said")
"""Somebody else says it."""
_ABILITY = compile_named("ability")
"""Wording of a model about its abilities before it answers."""
_LATIN = re.compile(r"[a-zà-ɏ]")
_SCRIPTS = {
    "ru": re.compile(r"[а-я]"),
    "ar": re.compile(r"[\u0620-\u064a]"),
    "hi": re.compile(r"[\u0904-\u0939]"),
    "zh": re.compile(r"^(?=[^\u3040-\u30ff]*+$)[^\u4e00-\u9fff]*+[\u4e00-\u9fff]"),
    "ja": re.compile(r"[\u3040-\u30ff]"),
    "ko": re.compile(r"[\uac00-\ud7a3]"),
}
