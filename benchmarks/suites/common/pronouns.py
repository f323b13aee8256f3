"""Pronouns of both genders in a single word."""

import re

_EITHER = re.compile(r"\(s\)he\b|\bs/he\b", re.IGNORECASE)


def as_they(text: str) -> str:
    """Return the text with "they" in place of "s/he" and "(s)he", which a split into words would take for "he"."""
    return _EITHER.sub("they", text)
