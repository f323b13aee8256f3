"""Tables on a terminal and in a file."""

import re
import sys

import pytest

from gateway.terminal.tables import aligned

LONG = "[bold]" + "why " * 50 + "not"
ROWS = [["metric", "95 % interval", ""], ["ss", "12.5 to 1234567.8", LONG], ["lms", "–", ""]]


def test_a_table_in_a_file_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """No cut and no wrapped cell, however narrow the terminal; markup is text."""
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: False)
    assert aligned(ROWS).splitlines() == ["metric  95 % interval", f"ss      12.5 to 1234567.8  {LONG}", "lms     –"]


@pytest.mark.parametrize("term", ["dumb", "xterm"])
@pytest.mark.parametrize("width", [40, 80, 200])
def test_a_table_is_no_wider_than_its_terminal(monkeypatch: pytest.MonkeyPatch, width: int, term: str) -> None:
    """What does not fit goes on below, and nothing is lost; heads are bold on a terminal that can."""
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", term)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    drawn = aligned(ROWS)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", drawn)
    assert max(map(len, plain.splitlines())) <= width
    assert (drawn != plain) == (term == "xterm")
    words = plain.split()
    assert [words.count(word) for word in ("metric", "ss", "1234567.8", "why", "not")] == [1, 1, 1, 49, 1]
    assert words.count("[bold]why") == 1
