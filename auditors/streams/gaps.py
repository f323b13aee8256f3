"""The gap between a group and the other groups of its axis, block by block, as values for a drift detector.
A block is the fewest successive audits in which both sides have a score: d = mean of the group - mean of the others,
taken as (d + 1) / 2. Given constant conditional means each block has the gap as its conditional mean, whatever the
shares of the groups, and no score of a later block is known when an earlier one counts: that keeps the detector's
promise without independence. Left-over scores would find gaps sooner, and break it.
An exchange that scores both sides is a block of its own. Unequal probabilities (q of `state`): weighted means within a
block, which counts with the product of its sides' mean inverse probabilities (the inverse itself when paired) over the
largest it could be; then E[weight * (d - gap)] = 0 when exchanges are sampled independently.
A missing score counts, for the bounds, as a block with the worst difference. That is enough: with a share p of a side
missing its mean is off by p / (1 - p) at most, and so many blocks a block move the bound as much.
A block names, without effect, the exchanges farthest up and down from the mean of their side over earlier blocks.
"""

import math
from collections.abc import Sequence

import msgspec

from auditors.metrics.intervals import require_finite

ALIKE = 1e-9
"""Difference below which scores count as equal, since sums round."""


class Extreme(msgspec.Struct, frozen=True, array_like=True):
    """A score on [0, 1] and the exchange that it is of."""

    y: float
    exchange_id: str

    def __post_init__(self) -> None:
        require_finite(self, self.y)


class Side(msgspec.Struct, frozen=True, array_like=True):
    """Sums over the exchanges of a side: of the open block, or of all closed blocks."""

    n: int = 0
    inverse: float = 0.0
    """Sum of 1 / p."""
    weighted: float = 0.0
    """Sum of y / p."""
    highest: Extreme | None = None
    """Highest score of the open block, the newest if several are equal; None if no exchange was named."""
    lowest: Extreme | None = None

    def __post_init__(self) -> None:
        require_finite(self, self.inverse + self.weighted)

    def add(self, y: float, probability: float, exchange_id: str = "") -> "Side":
        highest, lowest = self.highest, self.lowest
        if exchange_id and (highest is None or y >= highest.y):
            highest = Extreme(y, exchange_id)
        if exchange_id and (lowest is None or y <= lowest.y):
            lowest = Extreme(y, exchange_id)
        return Side(self.n + 1, self.inverse + 1.0 / probability, self.weighted + y / probability, highest, lowest)

    def and_before(self, past: "Side") -> "Side":
        """The sums of both, without names."""
        return Side(past.n + self.n, past.inverse + self.inverse, past.weighted + self.weighted)

    @property
    def mean(self) -> float:
        return self.weighted / self.inverse


class Block(msgspec.Struct, frozen=True):
    """The open block of a gap stream, and the smallest probabilities so far."""

    group: Side = Side()
    others: Side = Side()
    group_least: float = 1.0
    others_least: float = 1.0
    paired_least: float = 1.0
    group_past: Side = Side()
    """All scores of the closed blocks: what is usual on this side."""
    others_past: Side = Side()

    def __post_init__(self) -> None:
        require_finite(self, self.group_least + self.others_least + self.paired_least)


class Difference(msgspec.Struct, frozen=True):
    """One closed block."""

    y: float
    """(d + 1) / 2, in [0, 1]."""
    weight: float
    """Weight in (0, 1]."""
    n_exchanges: int
    rising_id: str = ""
    """The exchange of the block that speaks most for a larger difference; empty when none was named."""
    falling_id: str = ""


def add(
    block: Block, group: Sequence[float], others: Sequence[float], probability: float, exchange_id: str = ""
) -> tuple[Block, Difference | None]:
    """The block after an exchange, and its difference when that closed it. `group`, `others`: scores in [0, 1], several
    count as their mean; `exchange_id`: "" names nothing. Raises ValueError for a probability that is not positive.
    """
    _check(probability)
    if group and others:
        return _paired(block, _mean(group), _mean(others), probability, exchange_id)
    if group:
        side, floor = block.group.add(_mean(group), probability, exchange_id), min(block.group_least, probability)
        block = msgspec.structs.replace(block, group=side, group_least=floor)
    elif others:
        side, floor = block.others.add(_mean(others), probability, exchange_id), min(block.others_least, probability)
        block = msgspec.structs.replace(block, others=side, others_least=floor)
    if not (block.group.n and block.others.n):
        return block, None
    inverse = block.group.inverse / block.group.n * block.others.inverse / block.others.n
    weight = block.group_least * block.others_least * inverse
    d, n = block.group.mean - block.others.mean, block.group.n + block.others.n
    closed = _difference(d, weight, n, _spoke(block, 1.0, exchange_id), _spoke(block, -1.0, exchange_id))
    group_past, others_past = block.group.and_before(block.group_past), block.others.and_before(block.others_past)
    return msgspec.structs.replace(afresh(block), group_past=group_past, others_past=others_past), closed


def miss(block: Block, probability: float, *, has_group: bool, has_others: bool) -> tuple[Block, float]:
    """The block after an exchange without a score, and its weight in (0, 1] for the bounds: the largest of a block it
    could close. `probability`: of reaching the auditor over the factor of its moment (ValueError unless positive);
    `has_group`, `has_others`: what it concerns.
    """
    _check(probability)
    name = "paired_least" if has_group and has_others else "group_least" if has_group else "others_least"
    floor = min(getattr(block, name), probability)
    return msgspec.structs.replace(block, **{name: floor}), floor / probability


def afresh(block: Block) -> Block:
    """The block without its scores: the next one begins now."""
    return msgspec.structs.replace(block, group=Side(), others=Side())


def _paired(block: Block, group: float, rest: float, probability: float, exchange_id: str) -> tuple[Block, Difference]:
    floor = min(block.paired_least, probability)
    closed = _difference(group - rest, floor / probability, 1, exchange_id, exchange_id)
    group_past, others_past = block.group_past.add(group, probability), block.others_past.add(rest, probability)
    after = msgspec.structs.replace(block, paired_least=floor, group_past=group_past, others_past=others_past)
    return after, closed


def _spoke(block: Block, sign: float, last: str) -> str:
    """The exchange of a full block that speaks most for a larger (1) or smaller (-1) difference; else the last."""
    group = block.group.highest if sign > 0.0 else block.group.lowest
    rest = block.others.lowest if sign > 0.0 else block.others.highest
    if group is None or rest is None:  # a block that was open before exchanges were named
        return last
    usual_group = block.group_past.mean if block.group_past.n else block.others.mean
    usual_others = block.others_past.mean if block.others_past.n else block.group.mean
    lead = sign * ((group.y - usual_group) - (usual_others - rest.y))
    if abs(lead) <= ALIKE:
        return last
    return group.exchange_id if lead > 0.0 else rest.exchange_id


def _check(probability: float) -> None:
    if not 0.0 < probability < math.inf:
        raise ValueError(f"inclusion probability {probability} is not positive")


def _difference(d: float, weight: float, n_exchanges: int, rising_id: str, falling_id: str) -> Difference:
    y = min(1.0, max(0.0, (d + 1.0) / 2.0))
    return Difference(y, min(1.0, weight), n_exchanges, rising_id, falling_id)


def _mean(scores: Sequence[float]) -> float:
    return sum(scores) / len(scores)
