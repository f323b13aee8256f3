"""Writes a text about the other group: its words in the case of the old ones, a or an as spoken."""

import re
from collections.abc import Sequence

from auditors.text.swaps import grammar
from auditors.text.swaps.mentions import Mention
from auditors.text.swaps.outcome import Doubt
from auditors.text.swaps.people import is_sentence_start

_ARTICLE = re.compile(r"(?<![\w'’-])(an?|A[Nn]?)(\s{1,3})$")


def rewritten(text: str, mentions: Sequence[Mention], target: str) -> str:
    """The text with each mention in its form for `target`. Raises Doubt."""
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
            raise Doubt("unusual spelling")
        parts += [text[at:start], new]
        at = one.end
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
