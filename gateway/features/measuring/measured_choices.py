"""`biasgate auditors measure choices|numbers`: how often suites read another option or number than a person does."""

import argparse
import sys
from collections.abc import Iterable

import msgspec

from auditors.metrics.intervals import wilson_interval
from auditors.text.visible import visible_line
from benchmarks.errors import BenchmarkError
from gateway.features.measuring.labelled_choices import (
    PARTS,
    LabelledReply,
    count_readings,
    is_misread,
    labelled,
    option_read,
    read_file,
)
from gateway.terminal.tables import aligned


def run(arguments: argparse.Namespace) -> int:
    """Print the readings of a file, or of the parts that biasgate brings along. Exit code 2 for an unreadable file."""
    try:
        if arguments.file:
            sets = {str(arguments.file): read_file(arguments.file)}
        else:
            sets = {part: labelled(part, arguments.auditor) for part in PARTS if arguments.part in (None, part)}
        if arguments.json:
            counts = count_readings(reply for replies in sets.values() for reply in replies)
            print(msgspec.json.encode({"counts": counts}).decode())
            return 0
        for name, replies in sets.items():
            suites = sorted({reply.suite for reply in replies})
            head = [
                "suite",
                "choices",
                "read",
                "share, 95 % interval",
                "as another",
                "no choice",
                "read",
                "share, 95 % interval",
            ]
            rows = [_row(suite, [reply for reply in replies if reply.suite == suite]) for suite in suites]
            report = [f"{name}: {len(replies)} replies", aligned([head, *rows, _row("all", replies)]), ""]
            print("\n".join(report))
            if arguments.wrong:
                print("\n".join(visible_line(_misreading(reply)) for reply in replies if is_misread(reply)) + "\n")
    except (BenchmarkError, OSError) as exc:
        print(f"biasgate: {exc}", file=sys.stderr)
        return 2
    return 0


def _row(name: str, replies: Iterable[LabelledReply]) -> list[str]:
    counts = count_readings(replies)
    choices, others = counts["choice"], counts["none"]
    n_choices, n_others = sum(choices.values()), sum(others.values())
    n_same, n_another, n_read = choices["the same"], choices["another"], others["an option"]
    shares = [_share(n_same, n_choices), _share(n_read, n_others)]
    return [name, str(n_choices), str(n_same), shares[0], str(n_another), str(n_others), str(n_read), shares[1]]


def _share(count: int, of: int) -> str:
    interval = wilson_interval(count, of)
    return "undefined" if interval is None else f"{count / of:.3f} ({interval.lower:.3f} to {interval.upper:.3f})"


def _misreading(reply: LabelledReply) -> str:
    return f"{reply.suite}: {reply.text!r} is {_named(reply.label)}, read as {_named(option_read(reply))}"


def _named(label: str | float | None) -> str:
    return "none" if label is None else f"{label:g}" if isinstance(label, float) else label
