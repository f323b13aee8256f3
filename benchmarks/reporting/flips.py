"""Replies of two runs that were read differently."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from auditors.types import Status
from benchmarks.reporting.compare import paired
from benchmarks.run import directory
from benchmarks.suites.protocol import UNREAD_LABELS, Observation, Reply

MOST_SHOWN = 200
MOST_CHARACTERS = 2_000
"""Most characters of a question or a reply on the page; the run directories have the whole text."""


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """One run's reply."""

    reading: str
    text: str


class Flip(msgspec.Struct, frozen=True, kw_only=True):
    """A pair of replies to an item that were read differently."""

    item_id: str
    sample: int
    axis: str
    groups: tuple[str, ...]
    question: str
    a: Side
    b: Side


def flipped(path_a: Path, path_b: Path) -> tuple[list[Flip], int]:
    """Return the first MOST_SHOWN flips in run A's order, and the number of all; in mode exact, of likeliest values."""
    return flipped_between(directory.observations(path_a), directory.observations(path_b))


def flipped_between(first: Sequence[Observation], second: Sequence[Observation]) -> tuple[list[Flip], int]:
    """Return the same as `flipped`, for the observations of two runs."""
    left, right, _ = paired(first, second)
    changed = [(a, b) for a, b in zip(left, right, strict=True) if read_as(a.reply) != read_as(b.reply)]
    flips = [
        Flip(
            item_id=a.item.item_id,
            sample=a.reply.sample,
            axis=a.item.axis,
            groups=a.item.groups,
            question=_cut("\n".join(message.text for message in a.item.messages)),
            a=_side(a.reply),
            b=_side(b.reply),
        )
        for a, b in changed[:MOST_SHOWN]
    ]
    return flips, len(changed)


def read_as(reply: Reply) -> tuple[Status, Any]:
    """Return the status of a reply, and the value that it was read as or, in mode exact, its most probable value."""
    likely = {value: p for value, p in (reply.choice_probabilities or {}).items() if value not in UNREAD_LABELS}
    value = max(likely, key=likely.__getitem__) if likely else reply.parsed
    return (reply.status, value)


def in_words(reply: Reply) -> str:
    """Return the value that a reply was read as, in the suite's words."""
    status, value = read_as(reply)
    return (status if value is None else str(value)).replace("_", " ")


def _side(reply: Reply) -> Side:
    return Side(reading=in_words(reply), text=_cut(reply.text or ""))


def _cut(text: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]} …"


def counted(flips: Sequence[Flip], n_flipped: int) -> str:
    """Return how many flips are shown, in words."""
    return f"{n_flipped:,}" if len(flips) == n_flipped else f"the first {len(flips):,} of {n_flipped:,}"
