"""Stores and shows the two arms of each policy: sums that move on in the measurement's own transaction."""

import hashlib
import logging
import time
from collections.abc import Sequence
from typing import Literal

import msgspec
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from auditors.streams.scales import QUALITY_SCALES, SCALES, UNITS, Scale, scale_of, scaled
from auditors.streams.state import StreamKey, stream_key
from auditors.structs import combine
from auditors.types import Arm, Exchange, Measurement
from gateway.features.mitigation.arms import (
    BY_CONVERSATION,
    ArmsState,
    ArmSums,
    add_exchange,
    difference,
    new_arms,
    unit_of,
)
from gateway.store.connections import upsert
from gateway.store.database import Database
from gateway.store.streams import key_of
from gateway.store.tables import policy_arms
from gateway.streams.recording import Measured

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
    return combine(
        PolicyEffect,
        arms,
        arms.key,
        share=state.share,
        assigned_by="conversation" if arms.version.startswith(BY_CONVERSATION) else "request",
        n_repeated=state.repeated,
        range=scale.shown,
        unit=UNITS.get(arms.key.metric),
        treated=_show_arm(state.treated, scale),
        control=_show_arm(state.control, scale),
        difference=None if estimate is None else width * estimate.value,
        lower=None if estimate is None else width * estimate.bounds.lower,
        upper=None if estimate is None else width * estimate.bounds.upper,
        log_evidence=None if estimate is None else estimate.log_evidence,
        reason=NO_DIFFERENCE if estimate is None else None,
    )


def _show_arm(sums: ArmSums, scale: Scale) -> ShownArm:
    mean = sums.mean
    return ShownArm(sums.n, sums.missing, None if mean is None else scale.low + (scale.high - scale.low) * mean)


logger = logging.getLogger(__name__)

_decoder = msgspec.json.Decoder(ArmsState)


async def update(connection: AsyncConnection, audits: Sequence[Measured]) -> None:
    """Add measurements to their policies' comparisons, in the caller's transaction; rows are locked in one order. Left
    out are policies that treat all or none, and ratios and weighed metrics: no means over exchanges.
    """
    new: dict[str, dict[str, object]] = {}
    added: dict[str, list[tuple[Arm, list[Measurement], str | None]]] = {}
    for exchange, measurements in audits:
        policy, share, arm = exchange.mitigation, exchange.treated_share, exchange.arm
        if not compares(exchange) or policy is None or share is None or arm is None:
            continue
        version = exchange.policy_version or ""
        keyed: dict[StreamKey, list[Measurement]] = {}
        for measurement in measurements:
            scale = SCALES.get(measurement.metric) or QUALITY_SCALES.get(measurement.metric)
            if scale is not None and not scale.is_ratio and measurement.weight == 1.0:
                keyed.setdefault(stream_key(measurement, exchange.series_model[:200]), []).append(measurement)
        for key, measured in keyed.items():
            named = msgspec.json.encode([policy, version, *msgspec.structs.astuple(key)])
            row_id = hashlib.sha256(named).hexdigest()[:32]
            new.setdefault(row_id, _row(row_id, policy, version, key, share))
            added.setdefault(row_id, []).append((arm, measured, unit_of(exchange.id, version)))
    if not added:
        return
    await connection.execute(
        upsert(connection, policy_arms).on_conflict_do_nothing(), [new[row_id] for row_id in sorted(new)]
    )
    query = sa.select(policy_arms.c.id, policy_arms.c.state).where(policy_arms.c.id.in_(list(added)))
    for row in (await connection.execute(query.order_by(policy_arms.c.id).with_for_update())).all():
        state = _read_state(row.id, row.state)
        if state is None:
            continue
        for arm, measured, unit in added[row.id]:
            values = [
                scaled(measurement.metric, measurement.value)
                for measurement in measured
                if measurement.status == "ok" and measurement.value is not None
            ]
            state = add_exchange(state, arm, values, len(measured) - len(values), unit)
        change = {"state": msgspec.json.encode(state).decode(), "updated_at": time.time()}
        await connection.execute(sa.update(policy_arms).where(policy_arms.c.id == row.id).values(change))


def _read_state(row_id: str, text: str) -> ArmsState | None:
    """The stored sums of a comparison; None, with a line in the log, where they are damaged: the audit is recorded."""
    try:
        return _decoder.decode(text)
    except (ValueError, RecursionError) as exc:
        logger.error("the stored sums of the comparison %s are damaged and left out: %s", row_id, exc)
        return None


def compares(exchange: Exchange) -> bool:
    """Return whether an exchange belongs to a comparison: its policy treats some and not all."""
    return exchange.mitigation is not None and exchange.arm is not None and 0.0 < (exchange.treated_share or 0.0) < 1.0


async def list_arms(
    database: Database,
    *,
    policy: str | None = None,
    model: str | None = None,
    axis: str | None = None,
    auditor: str | None = None,
    limit: int,
) -> list[PolicyArms]:
    """Comparisons to which all that is given applies, by policy, auditor, metric, axis, group and model."""
    columns = policy_arms.c
    filters = {columns.policy: policy, columns.model: model, columns.axis: axis, columns.auditor: auditor}
    which = [column == value for column, value in filters.items() if value is not None]
    order = (columns.policy, columns.auditor, columns.metric, columns.axis, columns.group_name, columns.model)
    query = sa.select(policy_arms).where(*which).order_by(*order, columns.since).limit(limit)
    return [
        combine(PolicyArms, row, key=key_of(row), state=state)
        for row in await database.fetch_rows(query)
        if (state := _read_state(row.id, row.state)) is not None
    ]


def _row(row_id: str, policy: str, version: str, key: StreamKey, share: float) -> dict[str, object]:
    now = time.time()
    return {
        "id": row_id,
        "policy": policy,
        "version": version,
        "auditor": key.auditor,
        "metric": key.metric,
        "axis": key.axis,
        "group_name": key.group,
        "model": key.model,
        "instrument": key.instrument[:200],
        "state": msgspec.json.encode(new_arms(share)).decode(),
        "since": now,
        "updated_at": now,
    }
