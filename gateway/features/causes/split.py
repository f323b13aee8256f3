"""Splits the shift of a mean, or of a gap between two means, into parts of judge, model, traffic and application, by
ratios of sums in six cells: THEN (exchanges of before, as judged then), AGAIN (the same answers, judged today), ANEW
(new answers of today's model, judged today), SINCE (exchanges since the alarm), CROSSED_BEFORE and CROSSED_SINCE
(prompts of each side under the conditions of the other). judge = AGAIN - THEN, model = ANEW - AGAIN; SINCE - ANEW is
split over strata of conditions (Kitagawa 1955): shares of strata and, in the stratum whose conditions differ, half of
what changes conditions before prompts and half of what does so after (Shapley). A part of a gap is the group's less
the others', and a conversation that is deleted leaves both. Intervals: delete-a-conversation jackknife, Student's t
(Satterthwaite), plus half a conversation that moves by a step, the least difference of scores, so that equal scores
have an interval (after Agresti & Min 2005).
"""

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from auditors.streams.gaps import Block, add
from auditors.streams.scales import GAP_SUFFIX, scale_of
from gateway.features.causes.store import LEAST_ASKED, MOST_SINCE, PartName, Row, Work

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

THEN, AGAIN, ANEW, CROSSED_BEFORE, SINCE, CROSSED_SINCE = range(6)
PARTS: tuple[PartName, ...] = ("judge", "model", "traffic", "application")
CROSSED = 0
"""Stratum of the exchanges whose conditions are not found on both sides."""
LEAST_SHARED = 5
"""Exchanges that each side needs under the same conditions to make a stratum of their own."""

CLOSE_TO_CHANGE = 30
"""Audits before the change that are left out: the detector sets the change after untypical values."""
SHARPNESS = 6.0
"""Further audits left out: this times variance / shift^2, over which the estimated place of a change is uncertain."""


class Side(NamedTuple):
    """The exchanges of before, or of since, n of them."""

    conversations: Sequence[str]
    """Conversation of each, under the same name on both sides."""
    fingerprints: Sequence[str]
    """Conditions of each."""
    weights: Floats
    """Inverse of each inclusion probability, (n,)."""
    scores: Floats
    """Scores on 0..1, NaN without one: (n, 4) for THEN to CROSSED_BEFORE, or (n, 2) for SINCE and CROSSED_SINCE."""
    rest: Floats | None = None
    """The same exchanges' scores of the other groups, of a gap; given on both sides or on none."""

    @property
    def means(self) -> list[Floats]:
        return [self.scores] if self.rest is None else [self.scores, self.rest]


class Part(NamedTuple):
    """A part of the shift on the scale of the scores, with its 95 % interval."""

    name: PartName
    value: float
    lower: float
    upper: float


class Split(NamedTuple):
    """The shift from THEN to SINCE, and its parts, in the order of PARTS; their sum is the shift."""

    shift: float
    parts: list[Part]


def strata_of(before: Sequence[str], since: Sequence[str]) -> dict[str, int]:
    """Return the stratum of each fingerprint: CROSSED, or a number of its own where both sides have LEAST_SHARED."""
    n_before, n_since = Counter(before), Counter(since)
    shared = [name for name in sorted(n_before) if min(n_before[name], n_since[name]) >= LEAST_SHARED]
    return dict.fromkeys([*before, *since], CROSSED) | {name: number for number, name in enumerate(shared, 1)}


def split(before: Side, since: Side, confidence_level: float = 0.95) -> Split:
    """Return the parts of the shift. Raises ValueError for a cell without scores or < 2 conversations a side."""
    strata = strata_of(before.fingerprints, since.fingerprints)
    codes = {name: code for code, name in enumerate(dict.fromkeys([*before.conversations, *since.conversations]))}
    n_means = 1 if before.rest is None else 2
    totals = np.zeros((len(codes), n_means, 6, len(set(strata.values()) | {CROSSED}), 2))
    for rows, first in ((before, THEN), (since, SINCE)):
        at = np.array([codes[name] for name in rows.conversations], dtype=np.intp)
        stratum = np.array([strata[name] for name in rows.fingerprints], dtype=np.intp)
        for number, columns in enumerate(rows.means):
            for cell, scores in enumerate(columns.T, first):
                has = ~np.isnan(scores)
                np.add.at(totals[:, number, cell, :, 0], (at[has], stratum[has]), rows.weights[has])
                np.add.at(totals[:, number, cell, :, 1], (at[has], stratum[has]), (rows.weights * scores)[has])
    whole = totals.sum(axis=0)
    weight = totals[..., 0][:, :, [ANEW, SINCE]].sum(axis=3).reshape(len(codes), -1).T  # before, since; by mean
    filled = whole[..., 0][:, [THEN, AGAIN, ANEW, SINCE]].sum(axis=2) > 0.0
    if not filled.all() or ((weight > 0.0).sum(axis=1) < 2).any():
        raise ValueError("a mean has no score, or a side fewer than two conversations")
    values = _parts(whole)
    effects = _parts(whole - totals) - values  # (conversations, parts)
    levels = np.unique(np.round(np.concatenate([each.ravel() for each in (*before.means, *since.means)]), 6))
    steps = np.diff(levels[~np.isnan(levels)])
    step = float(steps.min()) if len(steps) else 1.0
    n = weight.sum(axis=1) ** 2 / (weight**2).sum(axis=1)  # Kish's effective number of conversations, by side and mean
    share = weight / weight.sum(axis=1, keepdims=True)
    lies = np.maximum(share.sum(axis=0), 1e-300)
    belongs = np.where(share.sum(axis=0) > 0.0, share / lies, np.eye(len(share))[:, :1])  # it may lie in several
    variances = np.einsum("sc,cp->sp", belongs, effects**2) * ((n - 1.0) / n)[:, np.newaxis]
    added = (step / (n + 2.0)) ** 2
    parts = []
    for number, name in enumerate(PARTS):
        value = float(values[number])
        if not effects[:, number].any() and name == "application" and value == 0.0:
            parts.append(Part(name, 0.0, 0.0, 0.0))  # the same conditions throughout: nothing is estimated
            continue
        extra = float(added.sum()) / 2.0 if name in ("traffic", "application") else float(added[::2].sum())
        variance = float(variances[:, number].sum())
        denominator = float((variances[:, number] ** 2 / np.maximum(n - 1.0, 1.0)).sum())
        freedom = variance**2 / denominator if denominator > 0.0 else float(n.min()) - 1.0
        reach = float(stdtrit(max(1.0, freedom), (1.0 + confidence_level) / 2.0)) * float(np.sqrt(variance + extra))
        parts.append(Part(name, value, value - reach, value + reach))
    return Split(float(values.sum()), parts)


def _parts(totals: Floats) -> Floats:
    """Return the parts (..., 4) from sums (..., 1 or 2 means, 6, strata, 2) of weights and of weighted scores."""
    w, wy = totals[..., 0], totals[..., 1]
    with np.errstate(invalid="ignore", divide="ignore"):
        overall = wy.sum(axis=-1) / w.sum(axis=-1)
        means = np.where(w > 1e-9, wy / w, np.nan)  # what is left of a sum may be rounding
        shares = w[..., [ANEW, SINCE], :] / w[..., [ANEW, SINCE], :].sum(axis=-1, keepdims=True)
    anew = np.where(np.isnan(means[..., ANEW, :]), means[..., SINCE, :], means[..., ANEW, :])
    since = np.where(np.isnan(means[..., SINCE, :]), anew, means[..., SINCE, :])
    of_mix = np.nan_to_num((shares[..., 1, :] - shares[..., 0, :]) * (anew + since) / 2.0).sum(axis=-1)
    half = shares.sum(axis=-2) / 2.0
    within = np.nan_to_num(half * (since - anew)).sum(axis=-1)
    first = means[..., CROSSED_BEFORE, CROSSED] - anew[..., CROSSED]
    last = since[..., CROSSED] - means[..., CROSSED_SINCE, CROSSED]
    both = np.stack([first, last])
    n_known = (~np.isnan(both)).sum(axis=0)
    of_conditions = half[..., CROSSED] * np.nansum(both, axis=0) / np.maximum(n_known, 1)
    judge, model = overall[..., AGAIN] - overall[..., THEN], overall[..., ANEW] - overall[..., AGAIN]
    parts: Floats = np.stack([judge, model, within - of_conditions, of_mix + of_conditions], axis=-1)
    of_series: Floats = parts[..., 0, :] - parts[..., 1:, :].sum(axis=-2)
    return of_series


def gap_blocks(group: Floats, rest: Floats, weights: Floats) -> tuple[Floats, Floats, Codes]:
    """Return values and weights of the blocks that a gap's detector sees, and the audits that close them. NaN: none."""
    block, closed = Block(), [(0.0, 0.0, 0)][:0]
    for number, (of_group, of_others, weight) in enumerate(zip(group, rest, weights, strict=True)):
        sides = [[] if math.isnan(y) else [float(y)] for y in (of_group, of_others)]
        block, difference = add(block, sides[0], sides[1], 1.0 / float(weight))
        if difference is not None:
            closed.append((difference.y, difference.weight, number))
    values, shares, last = np.array(closed).reshape(-1, 3).T
    return values, shares, last.astype(np.intp)


def quiet_before(scores: Floats, weights: Floats, change: int) -> int:
    """Return how many first audits surely precede the change: `change` or the least-squares split (Hinkley 1970)."""
    w, wy = np.cumsum(weights), np.cumsum(weights * scores)
    place = change
    if len(scores) > 2 * CLOSE_TO_CHANGE:
        rest = w[-1] - w[:-1]
        gain = w[:-1] * rest * (wy[:-1] / w[:-1] - (wy[-1] - wy[:-1]) / rest) ** 2
        place = min(change, CLOSE_TO_CHANGE + int(np.argmax(gain[CLOSE_TO_CHANGE - 1 :])))
    if not 0 < place < len(scores):
        return max(0, place - CLOSE_TO_CHANGE)
    first, last = wy[place - 1] / w[place - 1], (wy[-1] - wy[place - 1]) / (w[-1] - w[place - 1])
    shift, variance = float(last - first), float(np.average((scores[:place] - first) ** 2, weights=weights[:place]))
    unsure = SHARPNESS * variance / shift**2 if shift else math.inf
    return max(0, place - CLOSE_TO_CHANGE - int(min(unsure, place / 2)))


MOST_CROSSED = 60
"""Exchanges of each side that are asked under conditions of the other, where these are not the same; for a gap twice
as many, since it has two means."""


def to_cross(work: Work) -> tuple[list[Row], list[Row]]:
    """Return the rows of before and of since whose conditions the other side has too little of, to be crossed."""
    before, since = work.answered, work.since
    strata = strata_of([row.fingerprint for row in before], [row.fingerprint for row in since])
    apart = [[row for row in side if strata[row.fingerprint] == CROSSED] for side in (before, since)]
    if not all(apart):
        return [], []
    most = 2 * MOST_CROSSED if work.group else MOST_CROSSED
    return apart[0][:most], apart[1][:most]


def judged(work: Work) -> Work:
    """Return the work with its parts, once there is enough to tell them."""
    n_before, n_since = work.least(work.answered), work.least(work.since)
    sides = to_cross(work)
    is_crossed = all(row.is_crossed for side in sides for row in side)
    if n_before < LEAST_ASKED:
        left = f"{n_before} of the {LEAST_ASKED} exchanges that are needed of before were asked again"
        return work.pending(left) if work.waiting else work.give_up(f"only {left}{work.left_out()}")
    if n_since < LEAST_ASKED:
        return work.pending(f"{n_since} of the {LEAST_ASKED} exchanges that are needed since the alarm were audited")
    means = [[row for row in side if is_in(row)] for side in sides for is_in in work.means]
    if any(not any(row.is_crossed for row in rows) for rows in means if rows):
        return work.pending("the conditions of the application changed, and are still to be exchanged")
    try:
        before = _side(work, work.answered, work.since, ("then", "again", "anew", "crossed"))
        parts = split(before, _side(work, work.since, work.answered, ("then", "crossed")))
    except ValueError as exc:
        return work.pending(str(exc))
    scale = scale_of(work.metric.removesuffix(GAP_SUFFIX))
    width = scale.high - scale.low
    told = [(part.name, width * part.value, width * part.lower, width * part.upper) for part in parts.parts]
    is_over = not work.waiting and n_since >= MOST_SINCE and is_crossed
    shift = width * parts.shift
    return msgspec.structs.replace(work, status="told", reason=None, shift=shift, parts=told, is_over=is_over)


def _side(work: Work, rows: Sequence[Row], opposite: Sequence[Row], columns: Sequence[str]) -> Side:
    """Return one side for `split`. Two first turns never share a conversation, whatever their words."""
    later = {row.opening for row in (*rows, *opposite) if not row.is_first}
    means = [[[getattr(of, name) for name in columns] for of in each] for each in (rows, [row.rest for row in rows])]
    scores, rest = (np.array(mean, dtype=np.float64).reshape(-1, len(columns)) for mean in means)
    return Side(
        [row.id if row.is_first and row.opening not in later else row.opening for row in rows],
        [row.fingerprint for row in rows],
        np.array([row.weight for row in rows]),
        scores,
        rest if work.group else None,
    )
