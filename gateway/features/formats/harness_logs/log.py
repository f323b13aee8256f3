"""The common form of other harnesses' logs: each question as it was put, and the reply."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from auditors.text.user_files import NotUtf8Error, as_utf8
from auditors.types import Message
from benchmarks.errors import BenchmarkError

LARGEST_BYTES = 2**30
"""Most bytes of a log; it is read into memory."""
MOST_SAMPLES = 1000
"""Most epochs, or replies to a question."""


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """One reply to one question."""

    prompt: tuple[Message, ...]
    fields: tuple[str, ...] = ()
    """Texts of the record from which the question was formed; empty where the log has only the finished question."""
    question: str = ""
    """The finished question, where the log has no fields."""
    options: tuple[str, ...] = ()
    """Options in the order of their letters; empty where no letters were shown."""
    reply: str | None
    """Text of the reply; None where the log has none."""
    sample: int | None = 0
    """Index of the sample, from 0; None where the log gives no whole number from 1 to `MOST_SAMPLES`."""


class Log(msgspec.Struct, frozen=True, kw_only=True):
    harness: str
    version: str
    """"unknown" where the log does not say."""
    task: str
    model: str | None
    sha256: str
    """sha256 of the file."""
    answers: Sequence[Answered]


class LogError(BenchmarkError):
    """Raised for a file that is not a log of the harness that was named."""


def read_file(path: Path) -> bytes:
    """Return the content of a log. Raises LogError when it is not a regular file, cannot be read, or is too large."""
    try:
        if path.exists() and not path.is_file():
            raise LogError(f"{path}: is not a regular file")
        if path.stat().st_size > LARGEST_BYTES:
            raise LogError(f"{path}: has more than {LARGEST_BYTES} bytes: import fewer samples at a time")
        return path.read_bytes()
    except OSError as exc:
        raise LogError(f"{path}: cannot be read: {exc.strerror}") from exc


def without_mark(path: Path, content: bytes) -> bytes:
    """Return a log's content without a byte order mark. Raises LogError when it is not UTF-8."""
    try:
        return as_utf8(content)
    except NotUtf8Error as exc:
        raise LogError(f"{path}: cannot be read: {exc.strerror}") from exc
