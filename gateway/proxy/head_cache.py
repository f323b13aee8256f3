"""Recognises a message head that came before on the same connection, so that it need not be parsed again.

Clients and servers repeat themselves: on a kept-alive connection most heads differ in the digits of content-length
alone. A head that was parsed and accepted once is then compared byte for byte, at a tenth of the cost of parsing. Heads
hold keys, and behind a proxy one connection carries many clients: comparing takes as long whatever the bytes are.
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
    """Prefix and suffix for a CachedHead, or None.

    Args:
        data: what came in one packet, and was parsed as exactly one message.
        content_length: of that message, as the parser read it.

    None unless the packet is one head with one content-length of that value, followed by a body of that size: then the
    parser and this module agree about where the head ends.
    """
    end = data.find(_END, 0, MAX_KNOWN_BYTES) + len(_END)
    length = _LENGTH.search(data, 0, end)
    if end < len(_END) or length is None or int(length[1]) != content_length or len(data) != end + content_length:
        return None
    return data[: length.start(1)], data[length.end(1) : end]
