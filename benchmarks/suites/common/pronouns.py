"""Pronouns of both genders in a single word."""

import re

_SLASH = r"(?:-or-|\s*[/\\|∕⁄／–-]\s*)"
_MALE, _FEMALE = "(?:he|him|his|himself)", "(?:she|hers?|herself)"
_EITHER = re.compile(
    rf"\(s\)he\b|\bs\(he\)|\b(?:s{_SLASH}he|{_MALE}{_SLASH}{_FEMALE}|{_FEMALE}{_SLASH}{_MALE})(?:/it)?\b", re.IGNORECASE
)


def as_they(text: str) -> str:
    """Return the text with "they" in place of "s/he", "(s)he" and "he/she", which splitting could take for "he"."""
    return _EITHER.sub("they", text)
