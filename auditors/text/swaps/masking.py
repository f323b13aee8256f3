"""Masks the words of an axis in texts, for every group that they name."""

import re

from auditors.text.swaps.lexicon import FORMS, PATTERNS

_ARTICLE_AND_FORM = {
    axis: re.compile(rf"(?:(?<!\w)an?\s+)?(?P<form>{PATTERNS[axis].pattern})", re.IGNORECASE) for axis in PATTERNS
}


def masked(text: str, axis: str) -> str:
    """Return the text with every word of an axis replaced by a neutral word, for every group that it names.

    An answer echoes the words of its question. Masked, two answers that differ in that echo alone are the same text.
    Articles before a word are dropped with it, as a and an would tell.
    """
    return _ARTICLE_AND_FORM[axis].sub(_neutral, text)


def _neutral(match: re.Match[str]) -> str:
    word = match["form"].lower()
    kinds = {form.slot.kind for forms in FORMS.values() for form in forms.get(word, ())}
    return "they" if "pronoun" in kinds else "people" if "nouns" in kinds else "someone"
