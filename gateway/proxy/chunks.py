"""Recognises packets that hold complete chunks of a chunked body (RFC 9112 section 7.1) and nothing else.

Model servers write one chunk a token, and most arrive in a packet of their own. When nobody looks inside, such a packet
goes on to the client as it came, without a parser taking it apart and us putting it together again.
"""

import re

_SIZE = re.compile(rb"[0-9a-fA-F]{1,8}")
"""No extension, which would be a hop's own business, and no size that needs more digits than a packet can hold."""
_MAX_SIZE_LINE = 10
_KNOWN_SIZES = 4096

_HEAD_END = b"\r\n\r\n"

_sizes: dict[bytes, int] = {}
"""What was read before: the sizes of tokens' events are few."""


def _size_of(digits: bytes) -> int:
    """0 for what is no plain size."""
    size = int(digits, 16) if _SIZE.fullmatch(digits) else 0
    if size and len(_sizes) < _KNOWN_SIZES:
        _sizes[digits] = size
    return size


def are_complete_chunks(packet: bytes) -> bool:
    """Whether these are one or more complete chunks, none of them the last, empty one."""
    position, length = 0, len(packet)
    while True:
        digits = packet[position : packet.find(b"\r\n", position, position + _MAX_SIZE_LINE)]
        size = _sizes.get(digits) or _size_of(digits)
        end = position + len(digits) + 4 + size
        if not size or packet[end - 2 : end] != b"\r\n":
            return False
        if end == length:
            return True
        position = end


def ends_between_chunks(packet: bytes) -> bool:
    """Whether a packet that the parser took for a response head and the beginning of a chunked body holds that head and
    complete chunks, so that what comes next begins with the size of a chunk. False also where that cannot be told.
    """
    end = packet.find(_HEAD_END)
    rest = packet[end + len(_HEAD_END) :]
    return end >= 0 and (not rest or are_complete_chunks(rest))
