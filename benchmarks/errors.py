"""Mistakes a user of the benchmarks can act on. One line each: what is wrong, the value, what to do."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import msgspec

from auditors.errors import BiasgateError
from auditors.json_errors import UNREADABLE

T = TypeVar("T")


class BenchmarkError(BiasgateError):
    """Base of every error that the benchmarks raise on purpose."""


@contextmanager
def writing(path: object) -> Iterator[None]:
    """Raise BenchmarkError for what cannot be written; `path` is named."""
    try:
        yield
    except OSError as exc:
        raise BenchmarkError(f"{path}: cannot be written: {exc.strerror}") from exc


def decode_lines(content: bytes, kind: type[T], path: object, remedy: str) -> Iterator[tuple[str, T]]:
    """Yield place and content of each line that is not blank. Raises BenchmarkError: place, fault and remedy."""
    decoder = msgspec.json.Decoder(kind)
    for number, line in enumerate(content.split(b"\n"), 1):
        if line.strip():
            place = f"{path}, line {number}"
            try:
                decoded = decoder.decode(line)
            except UNREADABLE as exc:
                raise BenchmarkError(f"{place}: {exc}: {remedy}") from exc
            yield place, decoded


class DatasetError(BenchmarkError):
    """Benchmark data that is missing, incomplete, or not the pinned version."""


class RunStopped(Exception):
    """Raised when a run was asked to stop. Everything asked so far is in its log, and the run can be resumed."""

    def __init__(self, done: int, total: int) -> None:
        super().__init__(f"stopped after {done} of {total} replies" if total else "stopped before anything was asked")
        self.done = done
        self.total = total
