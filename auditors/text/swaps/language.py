"""Detects whether a text is English: a German "man" or a Turkish "her" must not be swapped as an English word.

Source: function words from general knowledge; nothing was counted.
"""

import re

from auditors.text.swaps.words import WORDS

_ENGLISH = WORDS["english"]
_OTHERS = WORDS["other_languages"]
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
MOST_WORDS = 400
"""Words examined, from the beginning."""


def is_english(text: str) -> bool:
    """At least a fifth of the words are English function words, and these outnumber other languages' three to one."""
    words = [
        match[0].lower().split("'")[0].split("’")[0]
        for match, _ in zip(_WORD.finditer(text), range(MOST_WORDS), strict=False)
    ]
    n_english = sum(word in _ENGLISH for word in words)
    n_other = sum(word in _OTHERS for word in words)
    return n_english >= max(1.0, 0.2 * len(words)) and n_english >= 3 * n_other
