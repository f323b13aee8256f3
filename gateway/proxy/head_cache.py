"""Recognises a message head that came before on its connection, but for the content-length, at a tenth of parsing's
cost. Heads hold keys, and behind a proxy a connection carries many clients: comparing takes constant time.
"""

import re
from hmac import compare_digest

MAX_KNOWN_BYTES = 8192
"""Longer heads are parsed each time, so that many connections cannot hold much."""

MAX_DIGITS = 9

_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,%d})\r\n" % MAX_DIGITS, re.IGNORECASE)
_END = b"\r\n\r\n"


class CachedHead:
    """A head but for the digits of its content-length. Build it only from one complete, accepted message."""

    __slots__ = ("_digits_at", "_last", "_last_length", "_prefix", "_suffix")

    def __init__(self, prefix: bytes, suffix: bytes) -> None:
        self._prefix = prefix
        self._suffix = suffix
        self._digits_at = len(prefix)
        self._last = b""
        """The last match, and what its digits said."""
        self._last_length = -1

    def body_in(self, packet: bytes) -> bytes | None:
        """The body, when `packet` is this head with a body of the length it announces and nothing more; else None."""
        end = packet.find(_END, 0, MAX_KNOWN_BYTES) + len(_END)
        head, body = packet[:end], packet[end:]
        if not compare_digest(head, self._last):
            digits = head[self._digits_at : -len(self._suffix)]
            if (
                not digits.isdigit()
                or len(digits) > MAX_DIGITS
                or not compare_digest(head, self._prefix + digits + self._suffix)
            ):
                return None
            self._last, self._last_length = head, int(digits)
        return body if len(body) == self._last_length else None


def split_head(data: bytes, content_length: int) -> tuple[bytes, bytes] | None:
    """Return a CachedHead's prefix and suffix from a packet that was parsed as one message of this content-length. None
    unless it is a head with one such header and a body of that size: parser and module then agree where the head ends.
    """
    end = data.find(_END, 0, MAX_KNOWN_BYTES) + len(_END)
    length = _LENGTH.search(data, 0, end)
    if end < len(_END) or length is None or int(length[1]) != content_length or len(data) != end + content_length:
        return None
    return data[: length.start(1)], data[length.end(1) : end]
