"""Measures how replies change by themselves: a share is asked again, judge included (`--repeat-share`), apart."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri

from auditors.metrics.clustered import clustered_share, degrees_of_freedom
from benchmarks.run.plan import Key, Plan, at_least
from benchmarks.run.result import HeadlineNoise, Repeats, ShareChanged
from benchmarks.run.score import cells
from benchmarks.suites.common.estimation import Cell
from benchmarks.suites.common.observations import never
from benchmarks.suites.protocol import Item, Observation, Reply

LEVEL = 0.95
Z = 1.959963984540054
FEWEST_TELLING = 5
"""Clusters whose repeats move the number, below which its noise has no interval."""


def repeated(plan: Plan) -> Plan:
    """Return the plan of the repeats: whole sets, the first in the order of `--limit`, as an additional sample."""
    share = plan.options.repeat_share
    if share is None:
        raise ValueError("the plan repeats nothing")
    items = at_least(plan.items, math.ceil(share * len(plan.items)), plan.options.seed)
    options = msgspec.structs.replace(plan.options, samples=plan.options.samples + 1)
    return msgspec.structs.replace(plan, items=items, options=options)


def found(plan: Plan, again: Plan, replies: Mapping[Key, Reply], checkpoint: Callable[[], None] = never) -> Repeats:
    """Return what changed between the first and last reply to each item of `again`; `checkpoint` may raise."""
    pairs = list(_pairs(again, replies, checkpoint))
    has_text = plan.options.mode != "exact"
    return Repeats(
        share=plan.options.repeat_share or 0.0,
        n_asked=len(again.items),
        n_pairs=len(pairs),
        requests=sum((pair.repeat.usage or {}).get("requests", 1) for pair in pairs),
        text=_changed(pairs, lambda a, b: a.text != b.text) if has_text else None,
        answer=_changed(pairs, lambda a, b: _answer(a) != _answer(b)),
        headline=_headline(plan, pairs),
    )


class Pair(NamedTuple):
    item: Item
    first: Reply
    repeat: Reply


def _pairs(again: Plan, replies: Mapping[Key, Reply], checkpoint: Callable[[], None]) -> "Iterator[Pair]":
    last = again.options.samples - 1
    for item in again.items:
        checkpoint()
        first, repeat = (replies.get((item.item_id, sample)) for sample in (0, last))
        if first is not None and repeat is not None and "error" not in (first.status, repeat.status):
            yield Pair(item, first, repeat)


def _answer(reply: Reply) -> object:
    return reply.status, reply.parsed, reply.choice_probabilities


def _changed(pairs: list[Pair], differ: Callable[[Reply, Reply], bool]) -> ShareChanged | None:
    if not pairs:
        return None
    names = {name: row for row, name in enumerate(dict.fromkeys(pair.item.cluster for pair in pairs))}
    sums = np.zeros((len(names), 2))
    for item, first, repeat in pairs:
        sums[names[item.cluster]] += differ(first, repeat), 1
    share = clustered_share(sums[:, 0], sums[:, 1])
    ends = None if share is None else share.interval(LEVEL)
    return ShareChanged(
        n=len(pairs),
        value=float(sums[:, 0].sum() / len(pairs)),
        lower=None if ends is None else ends.lower,
        upper=None if ends is None else ends.upper,
    )


def _headline(plan: Plan, pairs: list[Pair]) -> HeadlineNoise:
    """Return the noise of the headline number, from putting each cluster's repeats in the place of its first replies:
    pairs differ by twice the variance, clusters add up, more replies lessen it. To first order for what is not a mean.
    """
    metric = plan.suite.headline.metric
    first_cell = _cell(plan, [Observation(pair.item, pair.first) for pair in pairs])
    repeat_cell = _cell(plan, [Observation(pair.item, pair.repeat) for pair in pairs])
    if first_cell is None or repeat_cell is None:
        reason = f"noise of {metric}: unknown, no repeat is part of it"
        return HeadlineNoise(metric=metric, standard_deviation=None, reason=reason)
    moved = _moved(first_cell, repeat_cell)
    if np.isnan(moved).any() or not len(moved):
        reason = f"noise of {metric}: unknown, too few items were asked again"
        return HeadlineNoise(metric=metric, standard_deviation=None, reason=reason)
    scale = len(pairs) / (2 * len(plan.items) * plan.options.samples)
    deviation = math.sqrt(scale * float((moved**2).sum()))
    if np.count_nonzero(moved) < FEWEST_TELLING:
        reason = f"noise of {metric}: too few of its replies changed for an interval"
        return HeadlineNoise(metric=metric, standard_deviation=deviation, reason=reason)
    degrees = degrees_of_freedom(moved)
    lower, upper = (
        deviation * math.sqrt(degrees / float(chdtri(degrees, tail))) for tail in ((1 - LEVEL) / 2, (1 + LEVEL) / 2)
    )
    return HeadlineNoise(
        metric=metric, standard_deviation=deviation, lower=lower, upper=upper, difference=Z * math.sqrt(2) * deviation
    )


def _cell(plan: Plan, observations: list[Observation]) -> Cell | None:
    all_cells = cells(plan.options, plan.suite, observations) if observations else []
    return next((cell for cell in all_cells if cell.key == plan.suite.headline), None)


def _moved(first: Cell, repeat: Cell) -> NDArray[np.float64]:
    """(n_clusters,) how far the number moves when one cluster has its repeats in place of its first replies."""
    names = {name: row for row, name in enumerate(sorted({*first.clusters, *repeat.clusters}))}
    sums = np.zeros((2, len(names), first.sums.shape[1]))
    for n, cell in enumerate((first, repeat)):
        for name, row in zip(cell.clusters, cell.sums, strict=True):
            sums[n, names[name]] += row
    total = sums[0].sum(axis=0)
    return np.asarray(first.statistic(total - sums[0] + sums[1]) - first.statistic(total), dtype=np.float64)
