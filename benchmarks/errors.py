"""Mistakes a user of the benchmarks can act on. One line each: what is wrong, the value, what to do."""

import difflib
from collections.abc import Iterable


class BenchmarkError(Exception):
    """Base of every error that the benchmarks raise on purpose. The command line prints it as one line and exits 2."""


class DatasetError(BenchmarkError):
    """Benchmark data that is missing, incomplete, or not the pinned version."""


class RunStopped(Exception):
    """A run that was asked to stop. What was asked so far is in its log, and the run can be resumed."""

    def __init__(self, done: int, total: int) -> None:
        super().__init__(f"stopped after {done} of {total} replies" if total else "stopped before anything was asked")
        self.done = done
        self.total = total


def nearest(word: str, known: Iterable[str]) -> str:
    """` (did you mean "x"?)` for the closest known word, or an empty string when none is close."""
    match = difflib.get_close_matches(word, sorted(known), n=1, cutoff=0.5)
    return f' (did you mean "{match[0]}"?)' if match else ""
