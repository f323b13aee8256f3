"""Masks an axis' words of every group, by the rules of swaps. `Echo` also reads identifiers and swapped phrases."""

import re
from collections.abc import Sequence

from auditors.text.plain import plain_text
from auditors.text.swaps.lexicon import FORMS, SLOTS
from auditors.text.swaps.mentions import places_in
from auditors.text.swaps.outcome import Swapped

_WORD = re.compile(r"\w+")
_JOINED = re.compile(r"[_\-‐‑]")
_REPEATED = re.compile(r"\bsomeone(?:\W{1,3}someone\b)+")
_SHORTEST = 4
"""Letters of a word of a phrase that says something: "from the United States" is known by the last two."""


class Echo:
    """The words that one swap may leave in an answer."""

    def __init__(self, texts: Sequence[str], swapped: Swapped) -> None:
        """`texts` are the messages as they were asked, `swapped` the same about the other group."""
        self._axis = swapped.axis
        original, other = _words(texts), _words(swapped.texts)
        self._words = ((original ^ other) - {"a", "an"}) | _of_phrases(swapped.axis)

    def plain(self, text: str) -> str:
        """The text with a neutral word for each of the axis, and for each that the swap exchanged; one blank a gap."""
        text = masked(_JOINED.sub(" ", masked(text, self._axis)), self._axis)
        text = _WORD.sub(lambda match: "someone" if match[0].lower() in self._words else match[0], text)
        return " ".join(_REPEATED.sub("someone", text).split())


def _words(texts: Sequence[str]) -> set[str]:
    return {match[0].lower() for text in texts for match in _WORD.finditer(text)}


def _of_phrases(axis: str) -> set[str]:
    """Words that tell the forms of a phrase from each other: of "from Nigeria" the country."""
    words = set[str]()
    for slot in SLOTS[axis]:
        if slot.kind == "phrase":
            forms = [_words([form]) for form in slot.forms.values()]
            shared = set[str]().union(*forms).intersection(*forms)
            words |= {word for form in forms for word in form - shared if len(word) >= _SHORTEST}
    return words


_ARTICLE = re.compile(r"(?<!\w)an?\s{1,20}$", re.IGNORECASE)
_LONGEST_ARTICLE = 25


def masked(text: str, axis: str) -> str:
    """The text with each word of an axis, and an article before it, made neutral: echoes become equal."""
    plain = plain_text(text)
    changes = list[tuple[int, int, str]]()
    for place in sorted(places_in(plain.text, axis), key=lambda place: place.start):
        article = _ARTICLE.search(plain.text, max(0, place.start - _LONGEST_ARTICLE), place.start)
        changes.append((article.start() if article else place.start, place.end, _neutral(place.word)))
    return plain.rewritten(changes)


def _neutral(word: str) -> str:
    kinds = {form.slot.kind for forms in FORMS.values() for form in forms.get(word.lower(), ())}
    return "they" if "pronoun" in kinds else "people" if "nouns" in kinds else "someone"
