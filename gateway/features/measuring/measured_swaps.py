"""`biasgate auditors measure swaps`: how often a swap contradicts a careful person, and what is left alone in vain."""

import argparse
import sys
from collections.abc import Sequence
from typing import Any

import msgspec

from auditors.metrics.intervals import Interval
from gateway.features.measuring.labelled_swaps import (
    PARTS,
    LabelledFileError,
    Outcome,
    labelled,
    outcome,
    read_labelled,
    tally,
)
from gateway.terminal.tables import aligned


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
    head = [
        "part",
        "texts",
        "swaps",
        "contradictions",
        "share, 95 % interval",
        "swappable",
        "swapped",
        "share, 95 % interval",
    ]
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
    return [
        part,
        str(counts.n),
        str(counts.n_swaps),
        str(counts.n_contradictions),
        _share(counts.n_contradictions, counts.n_swaps, counts.contradictions),
        str(counts.n_swappable),
        str(counts.n_swapped),
        _share(counts.n_swapped, counts.n_swappable, counts.swapped),
    ]


def _share(count: int, of: int, interval: Interval | None) -> str:
    return "undefined" if interval is None else f"{count / of:.3f} ({interval.lower:.3f} to {interval.upper:.3f})"


def _as_json(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    counts = tally(outcomes)
    return {
        "n": counts.n,
        "contradictions": _json_share(counts.n_contradictions, counts.n_swaps, counts.contradictions),
        "swapped": _json_share(counts.n_swapped, counts.n_swappable, counts.swapped),
    }


def _json_share(count: int, of: int, interval: Interval | None) -> dict[str, Any]:
    if interval is None:
        return {"count": count, "of": of, "share": None, "lower": None, "upper": None}
    return {"count": count, "of": of, "share": count / of, "lower": interval.lower, "upper": interval.upper}
