"""Text files that people write: with a byte order mark or without, with either line end, and in UTF-8."""

import codecs
from pathlib import Path

_OTHER_ENCODINGS = {
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}
"""Longer marks first: that of UTF-32 begins like that of UTF-16."""


class NotUtf8Error(OSError):
    """A file that is not UTF-8, and thus cannot be read for the user who names it: `strerror` says why."""


def as_utf8(content: bytes) -> bytes:
    """Return the bytes of a text without its byte order mark. Raises NotUtf8Error for what is not UTF-8."""
    for mark, name in _OTHER_ENCODINGS.items():
        if content.startswith(mark):
            raise NotUtf8Error(0, f"it is {name}: save the file as UTF-8")
    content = content.removeprefix(codecs.BOM_UTF8)
    try:
        content.decode()
    except UnicodeDecodeError as exc:
        line = content.count(b"\n", 0, exc.start) + 1
        raise NotUtf8Error(0, f"line {line}: not UTF-8 (byte {exc.start}): save the file as UTF-8") from exc
    if b"\0" in content[:64]:
        raise NotUtf8Error(0, "it holds zero bytes, as UTF-16 does: save the file as UTF-8")
    return content


def read_utf8(path: Path) -> bytes:
    """Return the bytes of a text file without its byte order mark. Raises OSError; NotUtf8Error is one."""
    return as_utf8(path.read_bytes())
