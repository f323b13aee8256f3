"""Shows the two arms of a policy: means, their difference with bounds, and the evidence that there is a difference."""

from typing import Literal

import msgspec

from auditors.streams.scales import UNITS, Scale, scale_of
from auditors.streams.state import StreamKey
from gateway.features.mitigation.arms import BY_CONVERSATION, ArmsState, ArmSums, difference

CONFIDENCE_LEVEL = 0.95
NO_DIFFERENCE = "no exchange with a value yet in one of the arms"


class PolicyArms(msgspec.Struct, frozen=True, kw_only=True):
    """One comparison: a metric of a group under one version of a policy."""

    policy: str
    version: str
    """Digest of what the policy says: another sentence or share begins a new comparison."""
    key: StreamKey
    state: ArmsState
    since: float
    """Unix time of the first measurement."""
    updated_at: float


class ShownArm(msgspec.Struct, frozen=True):
    """One arm."""

    n: int
    """Exchanges with a value, or conversations: see `assigned_by`."""
    n_missing: int
    """Measurements without one: refusals, failures, replies that could not be read."""
    mean: float | None
    """Mean, in the metric's own unit."""


class PolicyEffect(msgspec.Struct, frozen=True, kw_only=True):
    """The effect of a policy on one metric of a group."""

    policy: str
    version: str
    """Version of the policy: another sentence or share begins a new comparison."""
    share: float
    """Probability of the treated arm."""
    assigned_by: Literal["conversation", "request"]
    """Unit that arms are drawn for. Of a conversation the first exchange that was measured counts."""
    n_repeated: int
    """Exchanges that do not count, as another one of their conversation does."""
    auditor: str
    metric: str
    axis: str
    group: str
    model: str
    instrument: str
    range: tuple[float, float]
    unit: str | None
    """Unit of means, difference and bounds, e.g. "log2(seconds)"; null where the metric has its own."""
    treated: ShownArm
    control: ShownArm
    difference: float | None
    """Mean of the treated less that of the control arm, in the metric's own unit."""
    lower: float | None
    upper: float | None
    """Its bounds, which hold at all times at once."""
    confidence_level: float = CONFIDENCE_LEVEL
    log_evidence: float | None
    """Logarithm of the e-value against "no difference": at 3.0 the 5 % level is reached, however often one looked."""
    reason: str | None
    """Why the difference is missing."""
    since: float
    updated_at: float


def effect_of(arms: PolicyArms) -> PolicyEffect:
    scale, state = scale_of(arms.key.metric), arms.state
    estimate = difference(state, (1.0 - CONFIDENCE_LEVEL) / 2)
    width = scale.high - scale.low
    return PolicyEffect(
        policy=arms.policy,
        version=arms.version,
        share=state.share,
        assigned_by="conversation" if arms.version.startswith(BY_CONVERSATION) else "request",
        n_repeated=state.repeated,
        auditor=arms.key.auditor,
        metric=arms.key.metric,
        axis=arms.key.axis,
        group=arms.key.group,
        model=arms.key.model,
        instrument=arms.key.instrument,
        range=scale.shown,
        unit=UNITS.get(arms.key.metric),
        treated=_show_arm(state.treated, scale),
        control=_show_arm(state.control, scale),
        difference=None if estimate is None else width * estimate.value,
        lower=None if estimate is None else width * estimate.bounds.lower,
        upper=None if estimate is None else width * estimate.bounds.upper,
        log_evidence=None if estimate is None else estimate.log_evidence,
        reason=NO_DIFFERENCE if estimate is None else None,
        since=arms.since,
        updated_at=arms.updated_at,
    )


def _show_arm(sums: ArmSums, scale: Scale) -> ShownArm:
    mean = sums.mean
    return ShownArm(sums.n, sums.missing, None if mean is None else scale.low + (scale.high - scale.low) * mean)
