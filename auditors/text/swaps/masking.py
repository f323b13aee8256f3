"""Masks the words of an axis in texts, for every group that they name, by the rules that swaps read by."""

import re

from auditors.text.plain import plain_text
from auditors.text.swaps.lexicon import FORMS
from auditors.text.swaps.mentions import places_in

_ARTICLE = re.compile(r"(?<!\w)an?\s{1,20}$", re.IGNORECASE)
_LONGEST_ARTICLE = 25


def masked(text: str, axis: str) -> str:
    """Return the text with every word of an axis replaced by a neutral word, for every group that it names.

    An answer echoes the words of its question. Masked, two answers that differ in that echo alone are the same text.
    Articles before a word are dropped with it, as a and an would tell.
    """
    plain = plain_text(text)
    changes = list[tuple[int, int, str]]()
    for place in sorted(places_in(plain.text, axis), key=lambda place: place.start):
        article = _ARTICLE.search(plain.text, max(0, place.start - _LONGEST_ARTICLE), place.start)
        changes.append((article.start() if article else place.start, place.end, _neutral(place.word)))
    return plain.rewritten(changes)


def _neutral(word: str) -> str:
    kinds = {form.slot.kind for forms in FORMS.values() for form in forms.get(word.lower(), ())}
    return "they" if "pronoun" in kinds else "people" if "nouns" in kinds else "someone"
