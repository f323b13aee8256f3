"""Stopping a run once its headline number is known well enough (`--precision`), with intervals that hold all the same.

Items are asked in the order in which `--limit` takes them: whole sets, every axis by its share. At looks fixed
beforehand, each GROWTH times the items of the last, the headline number is formed; the run stops at the first look at
which its interval is narrow enough. Every number of the result has the interval of that look, at a level so much higher
that those of all looks hold at once (`auditors.metrics.significance`): whatever made the run stop, 95 % cover.

Sets, not whole clusters, are added: an interval comes from the differences between clusters in any case, and a few
items of every cluster tell more than all items of a few. What clusters have in common makes the looks more alike than
the level supposes, so it errs on the wide side (measured: tests/benchmarks/run/test_precision.py).
"""

import math
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from auditors.metrics.significance import repeated_level
from auditors.types import Estimate
from benchmarks.run.plan import Plan
from benchmarks.run.selection import beginnings
from benchmarks.suites.common.estimation import CellKey
from benchmarks.suites.protocol import Scale

GROWTH = 1.5
"""Of the items from look to look: closer looks stop sooner and need wider intervals, which about cancels out."""
FEWEST = 60
"""Items before the first look."""


class Precision(msgspec.Struct, frozen=True, kw_only=True):
    """How far the headline number of a run was to be known, and where the run stopped."""

    demanded: float
    """Half the width of its interval at most, as a share of the largest value of its scale."""
    demanded_in_unit: float
    """The same in the number's own unit."""
    metric: str
    found: float | None
    """Half the width of its interval, in the number's own unit; None: it has no interval."""
    is_reached: bool
    n_planned: int
    """Items that would have been asked at most."""
    n_asked: int
    looks: int
    """Looks taken; all of `looks_planned` where everything was asked."""
    looks_planned: int
    level_of_a_look: float
    """Of the interval of each look, so that those of all looks hold with the confidence level of the estimates."""

    @property
    def words(self) -> str:
        """One line for the reader."""
        known = "no interval" if self.found is None else f"known to ±{self.found:.3g}"
        demanded = f"±{self.demanded_in_unit:.3g}"
        if self.is_reached and self.n_asked == self.n_planned:
            return (
                f"precision: {self.metric} {known}, {demanded} was asked for: reached with all {self.n_asked:,} items"
            )
        if self.is_reached:
            asked = f"after {self.n_asked:,} of {self.n_planned:,} items (look {self.looks} of {self.looks_planned})"
            return f"precision: {self.metric} {known}, {demanded} was asked for: stopped {asked}"
        return f"precision: {self.metric} {known}, {demanded} was not reached: all {self.n_asked:,} items were asked"


class Looks(msgspec.Struct, frozen=True):
    """The looks of a plan: what is asked up to each, the last being the plan itself."""

    plans: Sequence[Plan]
    level: float
    """Of the interval of each look."""

    def after(self, answered: Iterable[str]) -> Iterator[tuple[int, Plan]]:
        """The looks still to be taken, with their numbers from 1: those before an item that was asked are past."""
        asked, first = set(answered), 0
        for n, plan in enumerate(self.plans):
            first = n
            asked.difference_update(item.item_id for item in plan.items)
            if not asked:
                break
        return ((n + 1, self.plans[n]) for n in range(first, len(self.plans)))

    def found(self, number: int, estimates: Sequence[Estimate]) -> Precision:
        """What a look saw; the estimates are those of its own level."""
        last = self.plans[-1]
        suite, demanded = last.suite, last.options.precision
        if demanded is None:
            raise ValueError("the plan demands no precision")
        half = half_width(suite.headline, estimates)
        unit = demanded * largest(suite.scales[suite.headline.metric])
        return Precision(
            demanded=demanded,
            demanded_in_unit=unit,
            metric=suite.headline.metric,
            found=half,
            is_reached=half is not None and half <= unit,
            n_planned=len(last.items),
            n_asked=len(self.plans[number - 1].items),
            looks=number,
            looks_planned=len(self.plans),
            level_of_a_look=self.level,
        )


def looks_of(plan: Plan) -> Looks:
    """The looks of a plan; one where it has few items."""
    n = len(plan.items)
    most = n_looks(n)
    sizes = [round(n / GROWTH**before) for before in range(most - 1, 0, -1)]
    parts = beginnings(plan.items, sizes, plan.options.seed) if sizes else []
    plans = [msgspec.structs.replace(plan, items=part) for part in parts]
    return Looks([*plans, plan], repeated_level(most, GROWTH))


def n_looks(n_items: int) -> int:
    """How often a run of so many items is looked at, at most."""
    return 1 + max(0, math.floor(math.log(max(1, n_items) / FEWEST) / math.log(GROWTH)))


def half_width(headline: CellKey, estimates: Iterable[Estimate]) -> float | None:
    """Half the width of the headline number's interval, in its unit; None where it has none."""
    for one in estimates:
        if (one.metric, one.axis, one.group, one.reference, one.subset) == headline:
            return None if one.lower is None or one.upper is None else (one.upper - one.lower) / 2
    return None


def largest(scale: Scale) -> float:
    """The largest value of a scale, whatever its sign: 100 of a percentage, 1 of a share or a correlation."""
    return max(abs(scale.low), abs(scale.high))
