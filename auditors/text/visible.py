"""Makes text from outside safe for a terminal: control and bidirectional characters become JSON's escapes."""

import re

_BIDI_AND_SEPARATORS = "\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
_UNSAFE = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f{_BIDI_AND_SEPARATORS}\ud800-\udfff\U000e0000-\U000e007f]")
_UNSAFE_IN_LINE = re.compile(f"[\t\n]|{_UNSAFE.pattern}")


def visible(text: str) -> str:
    """Escape control characters but tab and newline, marks of direction, lone surrogates and tag characters."""
    return _UNSAFE.sub(_escape, text)


def visible_line(text: str) -> str:
    """Return text as `visible` does, with tab and newline escaped too: it takes one line."""
    return _UNSAFE_IN_LINE.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    if character in "\t\n":
        return {"\t": "\\t", "\n": "\\n"}[character]
    code = ord(character)
    if code > 0xFFFF:  # as JSON has it: a surrogate pair
        high, low = divmod(code - 0x10000, 0x400)
        return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"
    return f"\\u{code:04x}"
