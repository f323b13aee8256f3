"""`biasgate auditors measure swaps`: how often a swap contradicts a careful person, and what is left alone in vain.
The rules were tried on "development"; "held-out" was written after them by the same hand, and kinds of errors that it
showed at first were mended since (docs/evidence/swaps.md). A label is the text about the other group, or null.
"""

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from auditors.metrics.intervals import wilson_interval
from auditors.text.swaps.lexicon import SLOTS
from auditors.text.swaps.outcome import Swapped
from auditors.text.swaps.swap import swap
from gateway.features.measuring.measured_choices import SHARE, share_cell
from gateway.terminal.tables import aligned

PARTS = {"development": "swaps_development.jsonl", "held-out": "swaps_held_out.jsonl"}


class LabelledSwap(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A text with what a careful person says of it."""

    text: str
    swapped: str | list[str] | None
    """The text about the other group, all spellings of it that are right, or None for a text to leave alone."""
    axis: str = "gender"
    target: str | None = None
    """Group to swap towards; None where the axis has two."""

    @property
    def accepted(self) -> list[str]:
        """Every text that a swap may give."""
        return [self.swapped] if isinstance(self.swapped, str) else self.swapped or []


class LabelledFileError(ValueError):
    """A file of labelled texts cannot be read."""


class Outcome(msgspec.Struct, frozen=True):
    """A labelled text with its swap."""

    label: LabelledSwap
    swapped: str | None
    reason: str | None

    @property
    def is_contradiction(self) -> bool:
        """Return whether a swap was made that a careful person does not make."""
        return self.swapped is not None and self.swapped not in self.label.accepted

    @property
    def is_missed(self) -> bool:
        return self.swapped is None and bool(self.label.accepted)


@dataclass(frozen=True)
class Tally:
    """Counts over labelled texts."""

    n: int
    n_swaps: int
    n_contradictions: int
    n_swappable: int
    n_swapped: int
    """Swappable texts that were swapped as labelled."""


def labelled(part: str) -> list[LabelledSwap]:
    """All texts of a part, in the order of its file."""
    return read_labelled(Path(__file__).with_name(PARTS[part]))


def read_labelled(path: Path) -> list[LabelledSwap]:
    """Read labelled texts, a JSON object a line. Raises LabelledFileError with the line, OSError."""
    return list(_read_lines(path.read_text(encoding="utf-8-sig")))


def _read_lines(text: str) -> Iterator[LabelledSwap]:
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            label = msgspec.json.decode(line, type=LabelledSwap)
        except msgspec.DecodeError as error:
            raise LabelledFileError(f"line {number}: {error}") from error
        if label.axis not in SLOTS:
            raise LabelledFileError(f'line {number}: "{label.axis}" is not an axis; known: {", ".join(SLOTS)}')
        yield label


def outcome(label: LabelledSwap) -> Outcome:
    """Swap a labelled text."""
    result = swap([label.text], label.axis, target=label.target)
    if isinstance(result, Swapped):
        return Outcome(label, result.texts[0], None)
    return Outcome(label, None, result.reason)


def tally(outcomes: Iterable[Outcome]) -> Tally:
    """Count outcomes."""
    outcomes = list(outcomes)
    swappable = [each for each in outcomes if each.label.accepted]
    return Tally(
        n=len(outcomes),
        n_swaps=sum(each.swapped is not None for each in outcomes),
        n_contradictions=sum(each.is_contradiction for each in outcomes),
        n_swappable=len(swappable),
        n_swapped=sum(not each.is_missed and not each.is_contradiction for each in swappable),
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the measure of each part, or of the user's file."""
    try:
        if arguments.file is not None:
            texts = {"file": read_labelled(arguments.file)}
        else:
            texts = {part: labelled(part) for part in ([arguments.part] if arguments.part else PARTS)}
    except (LabelledFileError, OSError) as error:
        print(f"biasgate: {arguments.file}: {error}", file=sys.stderr)
        return 2
    outcomes = {part: [outcome(label) for label in labels] for part, labels in texts.items()}
    if arguments.json:
        print(
            msgspec.json.format(msgspec.json.encode({part: _as_json(each) for part, each in outcomes.items()})).decode()
        )
        return 0
    head = ["part", "texts", "swaps", "contradictions", SHARE, "swappable", "swapped", SHARE]
    print(aligned([head, *(_row(part, each) for part, each in outcomes.items())]))
    if arguments.wrong:
        for each in (
            each for of_part in outcomes.values() for each in of_part if each.is_missed or each.is_contradiction
        ):
            became = f"left alone: {each.reason}" if each.swapped is None else repr(each.swapped)
            print(f"{'missed' if each.is_missed else 'contradiction'}: {each.label.text!r}: {became}")
    return 0


def _row(part: str, outcomes: Sequence[Outcome]) -> list[str]:
    counts = tally(outcomes)
    contradictions = [str(counts.n_contradictions), share_cell(counts.n_contradictions, counts.n_swaps)]
    swapped = [str(counts.n_swapped), share_cell(counts.n_swapped, counts.n_swappable)]
    return [part, str(counts.n), str(counts.n_swaps), *contradictions, str(counts.n_swappable), *swapped]


def _as_json(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    counts = tally(outcomes)
    return {
        "n": counts.n,
        "contradictions": _json_share(counts.n_contradictions, counts.n_swaps),
        "swapped": _json_share(counts.n_swapped, counts.n_swappable),
    }


def _json_share(count: int, of: int) -> dict[str, Any]:
    interval = wilson_interval(count, of)
    if interval is None:
        return {"count": count, "of": of, "share": None, "lower": None, "upper": None}
    return {"count": count, "of": of, "share": count / of, "lower": interval.lower, "upper": interval.upper}
