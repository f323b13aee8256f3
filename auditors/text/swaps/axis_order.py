"""Which axis of an exchange is swapped, and for which group: decided by the exchange's id alone.

No client chooses that id, and a repeated audit asks the same question.
"""

import hashlib
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from auditors.text.swaps.lexicon import SLOTS
from auditors.text.swaps.outcome import NotSwapped

R = TypeVar("R", bound=NotSwapped)


class AxisOrder(NamedTuple):
    """In which order axes are tried, until one can be swapped."""

    axes: Sequence[str]
    choice: int
    """Of the group to swap for: see `swap`."""


def axis_order(exchange_id: str) -> AxisOrder:
    """Every axis is the first one of as many exchanges."""
    number = int.from_bytes(hashlib.blake2b(exchange_id.encode(), digest_size=8).digest())
    axes = list(SLOTS)
    first = number % len(axes)
    return AxisOrder([*axes[first:], *axes[:first]], number // len(axes))


def plainest(reasons: Sequence[R]) -> R:
    """Of the reasons of all axes, the first that is about a group that the texts name, if there is one."""
    return min(reasons, key=lambda reason: (reason.reason == "no identity term", reason.group is None))
