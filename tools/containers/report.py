"""The checks of a run, printed as they end and again as one table."""

import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

T = TypeVar("T")


class CheckFailed(Exception):
    """What a check expected did not hold."""


class SectionAborted(Exception):
    """A check failed on which all later ones of its section depend."""


@dataclass
class Row:
    section: str
    name: str
    result: str = "passed"
    seconds: float = 0.0
    note: str = ""


@dataclass
class Report:
    """Collects rows. A failing check is recorded and the next one goes on, unless the failing one is essential."""

    rows: list[Row] = field(default_factory=list)
    section: str = ""

    @contextmanager
    def check(self, name: str, *, essential: bool = False) -> Iterator[Row]:
        """Run a block as one check; the block may set the row's `note`.

        Raises: SectionAborted when an essential check fails.
        """
        row = Row(self.section, name)
        started = time.monotonic()
        try:
            yield row
        except Exception as exc:
            row.result, row.note = "FAILED", f"{type(exc).__name__}: {exc}"
            if not isinstance(exc, CheckFailed):
                traceback.print_exc()
            if essential:
                raise SectionAborted(name) from exc
        finally:
            row.seconds = time.monotonic() - started
            self.rows.append(row)
            print(f"  {row.result:7} {row.seconds:7.1f} s  {name}{f': {row.note}' if row.note else ''}", flush=True)

    def skip(self, name: str, reason: str) -> None:
        """Record a check that this machine cannot run."""
        self.rows.append(Row(self.section, name, "not run", 0.0, reason))
        print(f"  not run            {name}: {reason}", flush=True)

    @contextmanager
    def in_section(self, name: str) -> Iterator[None]:
        """Run the checks of a section; one that cannot go on ends here."""
        self.section = name
        print(f"{name}:", flush=True)
        try:
            yield
        except SectionAborted as exc:
            print(f"  the rest of this section needs: {exc}", flush=True)
        except Exception as exc:
            traceback.print_exc()
            self.rows.append(Row(name, "what lies between the checks", "FAILED", 0.0, f"{type(exc).__name__}: {exc}"))

    @property
    def failed(self) -> list[Row]:
        return [row for row in self.rows if row.result == "FAILED"]

    def table(self) -> str:
        """Return all rows as a Markdown table."""
        lines = ["| part | check | result | seconds | |", "|---|---|---|---|---|"]
        for row in self.rows:
            note = row.note.splitlines()[0].replace("|", "/") if row.note else ""
            lines.append(f"| {row.section} | {row.name} | {row.result} | {row.seconds:.1f} | {note} |")
        return "\n".join(lines)


def require(condition: object, message: str) -> None:
    """Raises: CheckFailed with the message unless the condition holds."""
    if not condition:
        raise CheckFailed(message)


def wait_for(read: Callable[[], T], *, within_seconds: float, waiting_for: str) -> T:
    """Call `read` until it returns something true, and return that.

    Raises: CheckFailed with the last value or exception after `within_seconds`.
    """
    deadline, last = time.monotonic() + within_seconds, "nothing"
    while time.monotonic() < deadline:
        try:
            if value := read():
                return value
            last = repr(value)
        except Exception as exc:  # a server that is not up yet
            last = f"{type(exc).__name__}: {exc}"
        time.sleep(0.25)
    raise CheckFailed(f"waited {within_seconds:g} s for {waiting_for}; last: {last}")
