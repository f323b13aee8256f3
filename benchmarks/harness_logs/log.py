"""What logs of other harnesses have in common: each question as it was put, and the reply."""

from collections.abc import Sequence

import msgspec

from auditors.types import Message
from benchmarks.errors import BenchmarkError


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """One reply to one question."""

    prompt: tuple[Message, ...]
    fields: tuple[str, ...] = ()
    """Texts of the record that the question was made of; empty where the log has only the finished question."""
    question: str = ""
    """The finished question, where there are no fields."""
    options: tuple[str, ...] = ()
    """In the order of their letters; empty where no letters were shown."""
    reply: str | None
    """None: none was logged."""
    sample: int = 0


class Log(msgspec.Struct, frozen=True, kw_only=True):
    harness: str
    version: str
    """"unknown" where the log does not say."""
    task: str
    model: str | None
    sha256: str
    """Of the file."""
    answers: Sequence[Answered]


class LogError(BenchmarkError):
    """A file that is no log of the harness it is said to be of."""
