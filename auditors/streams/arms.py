"""Two arms of one policy, compared on the measurements of their exchanges; pure, and held as a few sums.

The arm of each exchange was drawn by itself, with a known probability, so the difference of the means has bounds that
hold at all times at once, whatever the traffic does (`auditors.metrics.sequential_comparison`). Values are on [0, 1].
What has no value counts as missing in its arm: where a policy makes more of them, the two means are of other exchanges.
"""

import math
from collections.abc import Sequence

import msgspec

from auditors.metrics.intervals import Interval
from auditors.metrics.sequential import log_sum
from auditors.metrics.sequential_comparison import (
    GapSums,
    add_assigned,
    assigned_gap,
    growth,
    growth_bounds,
    log_evidence_above,
    log_evidence_below,
)
from auditors.types import Arm


class ArmSums(msgspec.Struct, frozen=True):
    """What is remembered of one arm."""

    n: int = 0
    total: float = 0.0
    """Sum of the values."""
    missing: int = 0
    """Measurements that should have had a value and have none."""

    @property
    def mean(self) -> float | None:
        return self.total / self.n if self.n else None


class ArmsState(msgspec.Struct, frozen=True):
    """Everything that is remembered of a comparison."""

    share: float
    """Probability of the treated arm, in (0, 1)."""
    gap: GapSums
    treated: ArmSums = ArmSums()
    control: ArmSums = ArmSums()


class Difference(msgspec.Struct, frozen=True):
    """Mean of the treated less that of the control arm, on [-1, 1]."""

    value: float
    bounds: Interval
    log_evidence: float
    """Logarithm of the e-value against "there is none"."""


def new_arms(share: float) -> ArmsState:
    """Nothing seen yet. Raises ValueError for a share outside (0, 1): without two arms nothing is compared."""
    return ArmsState(share, assigned_gap(share))


def add_exchange(state: ArmsState, arm: Arm, values: Sequence[float], n_missing: int) -> ArmsState:
    """The state with one more exchange.

    Args:
        state: before it.
        arm: in which it was.
        values: what was measured of it, on [0, 1]; several count as their mean, as they share one draw.
        n_missing: measurements of it that have no value.

    Raises: ValueError for a value outside [0, 1].
    """
    own = state.treated if arm == "treated" else state.control
    own = msgspec.structs.replace(own, missing=own.missing + n_missing)
    gap = state.gap
    if values:
        mean = math.fsum(values) / len(values)
        own = msgspec.structs.replace(own, n=own.n + 1, total=own.total + mean)
        gap = add_assigned(gap, 2.0 * mean - 1.0, is_other=arm == "treated", share=state.share)
    state = msgspec.structs.replace(state, gap=gap)
    return msgspec.structs.replace(state, **{arm: own})


def difference(state: ArmsState, error: float) -> Difference | None:
    """How far the treated arm is above the control arm; None until both have a value.

    `error`: each end of the bounds is ever wrong, over all looks, with at most this probability.
    """
    if not (state.treated.n and state.control.n):
        return None
    bounds = growth_bounds(state.gap, error, "directed")
    lower, upper = max(-1.0, bounds.lower / 2), min(1.0, bounds.upper / 2)
    value = min(upper, max(lower, growth(state.gap, "directed") / 2))
    sides = [log_evidence_above(state.gap.difference, 0.0), log_evidence_below(state.gap.difference, 0.0)]
    return Difference(value, Interval(lower, upper), log_sum(sides) - math.log(2.0))
