"""Chooses the axis that is swapped, and the group swapped in, by the exchange's id alone, which no client chooses."""

import hashlib
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from auditors.text.swaps.lexicon import SLOTS
from auditors.text.swaps.outcome import NotSwapped

R = TypeVar("R", bound=NotSwapped)


class AxisOrder(NamedTuple):
    """Order in which axes are tried, until a swap is possible."""

    axes: Sequence[str]
    choice: int
    """Number that chooses the group to swap for: see `swap`."""


def axis_order(exchange_id: str) -> AxisOrder:
    """Every axis is the first one of as many exchanges."""
    number = int.from_bytes(hashlib.blake2b(exchange_id.encode(), digest_size=8).digest())
    axes = list(SLOTS)
    first = number % len(axes)
    return AxisOrder([*axes[first:], *axes[:first]], number // len(axes))


def plainest(reasons: Sequence[R]) -> R:
    """Return the first axis's reason about a group that the texts name, else the plainest of the others."""
    return min(reasons, key=lambda reason: (reason.reason == "no identity term", reason.group is None))
