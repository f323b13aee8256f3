"""Escapes what a terminal would obey, in all that is printed; `visible_line` also keeps fields on their line."""

import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

from auditors.text.visible import visible

_OWN_MARKS = re.compile("(\x1b\\[[01]m)")
"""Bold and its end, as `gateway.terminal.tables` draws heads: they cannot hide or move anything."""


class GuardedStream:
    """A text stream that escapes what a terminal would obey; all but writing is the inner stream's."""

    def __init__(self, inner: TextIO) -> None:
        self.inner = inner

    def write(self, text: str) -> int:
        """Return the number of characters of `text`, as streams do."""
        parts = _OWN_MARKS.split(text)
        self.inner.write("".join(part if place % 2 else visible(part) for place, part in enumerate(parts)))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


@contextmanager
def guarded_streams() -> Iterator[None]:
    """Guard standard output and standard error until the block ends."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast(TextIO, GuardedStream(unguarded(stream))) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def unguarded(stream: TextIO) -> TextIO:
    """Return the stream itself, for what draws on a terminal and escapes the texts that it is given."""
    return stream.inner if isinstance(stream, GuardedStream) else stream
