"""Finds where the complete events of a stream end, as its bytes come (WHATWG HTML, 9.2.6)."""

import re

_BLANK_LINE = re.compile(rb"(?:\r\n|\n|\r(?!\n))(?:\r\n|\n|\r(?=[^\n]))")
"""A line ending and another: a CR at the very end may be half of one, and is left for the next piece."""
_LONGEST_BLANK = 4


def events_end(received: bytes | bytearray, searched: int) -> tuple[int, int]:
    """Where the last complete event ends, 0 for none; and from where to search when more has come.

    `searched` is what the last call returned for that; so the whole takes time in proportion to its bytes.
    """
    start, end = max(searched - _LONGEST_BLANK, 0), 0
    for found in _BLANK_LINE.finditer(received, start):
        end = found.end()
    return end, len(received)
