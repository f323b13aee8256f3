"""The options of a question as replies may name them, and the marks that stand for them in a reply."""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

from benchmarks.suites.common.choices.plain import WORDS, plain, words_of

Labels = Literal["letters", "numbers", "none"]
"""Kind of the labels with which a prompt shows its options."""
LONGEST_NAME = 4
"""Words of an option of which a part may stand for it."""

_FIRST_TEXT, _FIRST_LABEL = 0xE000, 0xE100
NOT_OFFERED, SHARED, CONTRADICTION, DROPPED = "\ue0f0", "\ue0f1", "\ue0f2", "\uf000"
"""Marks of a label that is not offered, options named together, a label against a text, an option not chosen."""
TEXT, LABEL, NO_MARK = "[\ue000-\ue0ff]", "[\ue100-\ue1ff]", "[^\\w\ue000-\uf8ff]"
"""Patterns of a mark by text, of a mark by label, and of a character that is neither a word's nor a mark."""


def text_mark(place: int) -> str:
    """Return the mark of an option that is named by its text."""
    return chr(_FIRST_TEXT + place)


def label_mark(place: int, n: int) -> str:
    """Return the mark of an option that is named by its label, NOT_OFFERED if there are fewer options."""
    return chr(_FIRST_LABEL + place) if 0 <= place < n else NOT_OFFERED


def place_of(mark: str) -> int:
    """Return the place of the option that either mark stands for."""
    return ord(mark) & 0xFF


class Offer(NamedTuple):
    """The options of an item, as replies may name them."""

    n: int
    labels: Labels
    forms: tuple[tuple[str, int], ...]
    """Words that name a single option, and its place; the longest first."""
    parts: frozenset[str]
    """Forms that are a part of an option only: "landlord"; "a landlord" names nothing."""
    ends: tuple[str, ...]
    """The punctuation that ends the text of each option, empty for none."""
    frame: tuple[str, str] | None
    """Words before and after the gap of a sentence that the options fill."""
    undetermined: int | None
    """Place of the option that says that the context does not tell."""
    is_prose: bool
    """True if a sentence about an option is an answer: "It was the teacher who was late"."""


@lru_cache(2048)
def offer(
    texts: tuple[tuple[str, ...], ...],
    labels: Labels,
    *,
    sentence: str | None = None,
    undetermined: int | None = None,
    is_prose: bool = False,
) -> Offer:
    """Return the options whose texts are given, each in one or several forms. `sentence`: has [MASK] for its gap."""
    whole: dict[str, set[int]] = {}
    parts: dict[str, set[int]] = {}
    for place, forms in enumerate(texts):
        for form in map(words_of, forms):
            for spelling in {form, _ARTICLE.sub("", form), _SPELLED.get(form, form)} - {""}:
                whole.setdefault(spelling, set()).add(place)
    for place, forms in enumerate(texts if is_prose else ()):
        for part in set(_parts(forms)) - whole.keys() if place != undetermined else ():
            parts.setdefault(part, set()).add(place)
    single = [(form, min(places)) for form, places in (whole | parts).items() if len(places) == 1]
    around = sentence.split("[MASK]") if sentence else []
    return Offer(
        n=len(texts),
        labels=labels,
        forms=tuple(sorted(single, key=lambda pair: -len(pair[0]))),
        parts=frozenset(parts),
        ends=tuple((_END.search(forms[0]) or [""])[0] if forms else "" for forms in texts),
        frame=(words_of(around[0]), words_of(around[1])) if len(around) == 2 else None,
        undetermined=undetermined,
        is_prose=is_prose,
    )


_SPELLED = {"one": "1", "two": "2", "three": "3", "four": "4", "2": "two", "3": "three", "4": "four"}
_ARTICLE = re.compile(r"^(?:the|an?) (?=.)")
_END = re.compile(r"[.!?,;](?=\W*$)")
_SYNONYMS = {"man": "guy person male gentleman", "woman": "lady girl person female gal", "person": "guy individual"}
_AFTER_NOUN = re.compile(r"\b(?:from|of|with|who|whose|in|at|without)\b")


def _parts(forms: Sequence[str]) -> Iterator[str]:
    """Yield an option's noun, the rest of it with "one", and a name's first word: "landlord", "tall one", "Jamal"."""
    for form in forms:
        noun = WORDS.findall(_AFTER_NOUN.split(plain(form), maxsplit=1)[0])
        if 1 < len(noun) <= LONGEST_NAME and noun[-1] != "one":
            yield noun[-1].casefold()
            words = words_of(form).split()
            for name in ("one", *_SYNONYMS.get(noun[-1].casefold(), "").split()):
                rest = [*words[: len(noun) - 1], name, *words[len(noun) :]][words[0] in ("the", "my", "a", "an") :]
                if len(rest) > 1:
                    yield " ".join(rest)
            if all(word.istitle() for word in noun) and noun[0] != "The":
                yield noun[0].casefold()
