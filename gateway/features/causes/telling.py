"""Tells the parts of an alarm's shift from the work on it."""

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from auditors.streams.scales import scale_of
from gateway.features.causes.split import CROSSED, Side, split, strata_of
from gateway.features.causes.work import LEAST_ASKED, MOST_SINCE, Row, Work

MOST_CROSSED = 60
"""Exchanges of each side that are asked under conditions of the other, where these are not the same."""


def to_cross(work: Work) -> tuple[list[Row], list[Row]]:
    """Return the rows of before and of since whose conditions the other side has too little of, to be crossed."""
    before, since = work.answered, work.since
    strata = strata_of([row.fingerprint for row in before], [row.fingerprint for row in since])
    apart = [[row for row in side if strata[row.fingerprint] == CROSSED] for side in (before, since)]
    if not all(apart):
        return [], []
    return apart[0][:MOST_CROSSED], apart[1][:MOST_CROSSED]


def judged(work: Work) -> Work:
    """Return the work with its parts, once there is enough to tell them."""
    n_before, n_since = sum(not row.is_beside for row in work.answered), len(work.since)
    sides = to_cross(work)
    is_crossed = all(row.is_crossed for side in sides for row in side)
    if n_before < LEAST_ASKED:
        left = f"{n_before} of the {LEAST_ASKED} exchanges that are needed of before were asked again"
        return work.pending(left) if work.waiting else work.give_up(f"only {left}{work.left_out()}")
    if n_since < LEAST_ASKED:
        return work.pending(f"{n_since} of the {LEAST_ASKED} exchanges that are needed since the alarm were audited")
    if any(not any(row.is_crossed for row in side) for side in sides if side):
        return work.pending("the conditions of the application changed, and are still to be exchanged")
    try:
        parts = split(
            _side(work.answered, work.since, ("then", "again", "anew", "crossed")),
            _side(work.since, work.answered, ("then", "crossed")),
        )
    except ValueError as exc:
        return work.pending(str(exc))
    scale = scale_of(work.metric)
    width = scale.high - scale.low
    return msgspec.structs.replace(
        work,
        status="told",
        reason=None,
        shift=width * parts.shift,
        parts=[(part.name, width * part.value, width * part.lower, width * part.upper) for part in parts.parts],
        is_over=not work.waiting and n_since >= MOST_SINCE and is_crossed,
    )


def _side(rows: Sequence[Row], opposite: Sequence[Row], columns: Sequence[str]) -> Side:
    """Return one side for `split`. Two first turns never share a conversation, whatever their words."""
    later = {row.opening for row in (*rows, *opposite) if not row.is_first}
    scores = [[getattr(row, name) for name in columns] for row in rows]
    return Side(
        [row.id if row.is_first and row.opening not in later else row.opening for row in rows],
        [row.fingerprint for row in rows],
        np.array([row.weight for row in rows]),
        np.array([[math.nan if score is None else score for score in line] for line in scores]),
    )
