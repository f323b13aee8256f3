"""Tables on a terminal and in a file."""

import sys

import pytest

from gateway.cli.tables import aligned


@pytest.mark.parametrize(("is_terminal", "term"), [(False, "xterm"), (True, "dumb"), (True, "xterm")])
def test_a_table_is_whole(monkeypatch: pytest.MonkeyPatch, is_terminal: bool, term: str) -> None:
    """No cut and no wrapped cell, however narrow the terminal; markup is text; bold heads on a terminal that can."""
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setenv("TERM", term)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)
    long = "[bold]" + "why " * 50 + "not"
    rows = [["metric", "95 % interval", ""], ["ss", "12.5 to 1234567.8", long], ["lms", "–", ""]]

    head, *body = aligned(rows).splitlines()

    bold = is_terminal and term == "xterm"
    assert head == ("\x1b[1mmetric  95 % interval\x1b[0m" if bold else "metric  95 % interval")
    assert body == [f"ss      12.5 to 1234567.8  {long}", "lms     –"]
