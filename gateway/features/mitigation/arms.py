"""Compares two arms of a policy on the measurements of their exchanges, on [0, 1]; pure, and held as a few sums.
Each unit's arm was drawn by itself with a known probability, so the difference of the means has bounds that hold at all
times at once (`benchmarks.lab.metrics.sequential_comparison`). A unit is an exchange, or a conversation, of which only
the first exchange counts. A measurement without a value counts as missing in its arm.
"""

import math
import zlib
from collections.abc import Sequence

import msgspec

from auditors.metrics.intervals import Interval
from auditors.metrics.sequential import log_sum
from auditors.types import Arm
from benchmarks.lab.metrics.sequential_comparison import (
    GapSums,
    add_assigned,
    assigned_gap,
    growth,
    growth_bounds,
    log_evidence_above,
    log_evidence_below,
)

BY_CONVERSATION = "u"
"""First character of a policy's version where arms are drawn for conversations. Others are hexadecimal."""
ID_CHARACTERS = 16
"""Hexadecimal digits at the end of an exchange's id that stand for its conversation."""
SEEN_BITS = 2**15
"""Bits at hashed places that remember conversations: half of the new ones are taken for counted after 16,384."""


class ArmSums(msgspec.Struct, frozen=True):
    """State that is remembered of an arm."""

    n: int = 0
    total: float = 0.0
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
    repeated: int = 0
    """Exchanges that were not counted, as another one of their conversation was."""
    seen: bytes = b""
    """The bits of SEEN_BITS, compressed; empty for none."""


class Difference(msgspec.Struct, frozen=True):
    """Mean of the treated less that of the control arm, on [-1, 1]."""

    value: float
    bounds: Interval
    log_evidence: float
    """Logarithm of the e-value against "there is none"."""


def new_arms(share: float) -> ArmsState:
    """Nothing seen yet. Raises ValueError for a share outside (0, 1): without two arms nothing is compared."""
    return ArmsState(share, assigned_gap(share))


def unit_of(exchange_id: str, version: str) -> str | None:
    """Return the digits for an exchange's conversation, random if unknown; None where the exchange is the unit."""
    return exchange_id[-ID_CHARACTERS:] if version.startswith(BY_CONVERSATION) else None


def add_exchange(
    state: ArmsState, arm: Arm, values: Sequence[float], n_missing: int, unit: str | None = None
) -> ArmsState:
    """Return the state with another exchange; if its conversation (`unit`, of `unit_of`) was counted, only `repeated`
    grows. Several `values` count as their mean: they share a draw. Raises ValueError for a value outside [0, 1].
    """
    if unit is not None:
        seen = _with_unit(state.seen, unit)
        if seen is None:
            return msgspec.structs.replace(state, repeated=state.repeated + 1)
        state = msgspec.structs.replace(state, seen=seen)
    own = state.treated if arm == "treated" else state.control
    own = msgspec.structs.replace(own, missing=own.missing + n_missing)
    gap = state.gap
    if values:
        mean = math.fsum(values) / len(values)
        own = msgspec.structs.replace(own, n=own.n + 1, total=own.total + mean)
        gap = add_assigned(gap, 2.0 * mean - 1.0, is_other=arm == "treated", share=state.share)
    state = msgspec.structs.replace(state, gap=gap)
    return msgspec.structs.replace(state, **{arm: own})


def _with_unit(seen: bytes, unit: str) -> bytes | None:
    """Return the bits with that of another conversation; None if it is already set."""
    bits = bytearray(zlib.decompress(seen)) if seen else bytearray(SEEN_BITS // 8)
    place, bit = divmod(int(unit, 16) % SEEN_BITS, 8)
    if bits[place] >> bit & 1:
        return None
    bits[place] |= 1 << bit
    return zlib.compress(bits, 1)


def difference(state: ArmsState, error: float) -> Difference | None:
    """Return treated less control; None until both have a value. `error`: probability that an end is ever wrong."""
    if not (state.treated.n and state.control.n):
        return None
    bounds = growth_bounds(state.gap, error, "directed")
    lower, upper = max(-1.0, bounds.lower / 2), min(1.0, bounds.upper / 2)
    value = min(upper, max(lower, growth(state.gap, "directed") / 2))
    sides = [log_evidence_above(state.gap.difference, 0.0), log_evidence_below(state.gap.difference, 0.0)]
    return Difference(value, Interval(lower, upper), log_sum(sides) - math.log(2.0))
