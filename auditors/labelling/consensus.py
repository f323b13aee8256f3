"""Consensus of several blind raters on a task, and the need for a third opinion.

Raters who read the same out of a task are its consensus. Where they differ, its adjudication is (protocols 2.12): until
there is one, the task has no consensus. With one rater only there is none either.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec

from auditors.labelling.forms import Reading

State = Literal["open", "agreed", "disputed", "adjudicated"]


class Consensus(msgspec.Struct, frozen=True, kw_only=True):
    """Consensus on a task."""

    state: State
    """open: fewer labels than are asked for."""
    reading: Reading | None
    """Reading on which the raters agree; None while open or disputed."""


def consensus(labels: Sequence[Reading], adjudication: Reading | None, n_asked: int) -> Consensus:
    """The consensus of the labels of different raters, of n_asked (at least 1); an adjudication decides before them."""
    if adjudication is not None:
        return Consensus(state="adjudicated", reading=adjudication)
    if len(labels) < n_asked:
        return Consensus(state="open", reading=None)
    first = labels[0]
    if all((label.status, label.value) == (first.status, first.value) for label in labels):
        return Consensus(state="agreed", reading=first)
    return Consensus(state="disputed", reading=None)
