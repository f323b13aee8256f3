"""Moves the streams that a recording concerns, and writes their shown texts in the same transaction."""

import math
import time
from collections.abc import Mapping, Sequence, Set
from typing import Any

import msgspec

from auditors.nearest_identity import DISTANCE, SCORE
from auditors.streams import state as live
from auditors.streams.drift import LEAST_SHARE, DriftSettings
from auditors.streams.state import StreamKey, StreamState
from auditors.types import Measurement
from gateway.store import damaged_streams, streams
from gateway.store.database import Connection, Database
from gateway.store.streams import Family, Stream, family_of
from gateway.streams.detectors import shown_detector
from gateway.streams.estimates import LiveEstimate, estimate_of, with_most_normal
from gateway.streams.steps import Audited, Counted, OtherStreams, Part, Step, log_evidence_of

RENDERED_AT_ONCE = 200
IDENTITIES = (DISTANCE, SCORE)
"""Metrics of an axis that say together which identity is the most normal."""


async def note_damaged(database: Database, damaged: Sequence[Stream], settings: DriftSettings) -> None:
    """Puts streams aside that were found to be damaged while they were read."""
    async with database.begin() as connection:
        locked = await streams.lock(connection, [stream.id for stream in damaged])
        again = [stream for stream in locked if stream.state.damaged]
        await _put_aside(connection, again, settings, (await others_of(connection, settings)).n_streams)


async def render(database: Database, settings: DriftSettings) -> int:
    """Writes what is shown of unmoved streams that lack it, RENDERED_AT_ONCE at most; returns how many."""
    async with database.begin() as connection:
        locked = await streams.lock(connection, await streams.unrendered(connection, limit=RENDERED_AT_ONCE))
        n_streams = (await others_of(connection, settings)).n_streams
        await write(connection, [stream for stream in locked if not stream.state.damaged], settings, n_streams)
        await _put_aside(connection, [stream for stream in locked if stream.state.damaged], settings, n_streams)
    return len(locked)


async def record_judgement(
    database: Database, measurements: Sequence[Measurement], model: str, settings: DriftSettings
) -> None:
    """Move the streams of a single re-judgement of a reference set, in a single transaction."""
    async with database.begin() as connection:
        audit = Audited(found=measurements, exchange_id="", at=time.time(), model=model, probability=1.0)
        await update(connection, [audit], settings)


async def update(connection: Connection, audits: Sequence[Audited], settings: DriftSettings) -> Counted:
    """Move every stream that these audits concern, inside the caller's transaction; return how much each value weighs.
    Those are the streams of the measurements and, where groups are compared, the gap streams of their axes. A stream
    whose state is damaged, or cannot take a value that another would take, is put aside. Each moves audit by audit, in
    the order given; its row is read and written once. Rows are locked in one order, so that none deadlocks.
    """
    parts = [Part.of(audit) for audit in audits]
    keys = {key.id: key for part in parts for key, _ in part.keyed}
    counted: Counted = {}
    if not keys:
        return counted
    families = {family for part in parts for family in part.scores}
    identities = {family_of(key) for key in keys.values() if key.metric in IDENTITIES}
    await _ensure_all(connection, keys, {family_of(key) for part in parts for key in part.with_gaps})
    other_streams = await others_of(connection, settings)
    of_axes = {
        (auditor, name, axis, model, instrument)
        for auditor, _, axis, model, instrument in identities
        for name in IDENTITIES
    }
    all_families = [*families, *of_axes]
    locked = {stream.id: stream for stream in await streams.lock(connection, list(keys), all_families)}
    gaps: dict[Family, list[str]] = {}
    for stream in locked.values():
        if stream.id not in keys:
            gaps.setdefault(family_of(stream.key), []).append(stream.id)
    moved: set[str] = set()
    for part in parts:
        step = Step(part.audit, settings, other_streams, counted)
        compared = {key: scores for family, scores in part.scores.items() for key in gaps.get(family, ())}
        concerned = part.own.keys() | compared.keys()
        for stream_id in sorted(concerned):
            locked[stream_id] = step.moved(locked[stream_id], part.own.get(stream_id), compared.get(stream_id, ()))
        moved |= concerned
    damaged = [stream for stream in locked.values() if stream.state.damaged]
    sound = [stream for stream in locked.values() if not stream.state.damaged]
    await write(
        connection,
        [stream for stream in sound if stream.id in moved],
        settings,
        other_streams.n_streams,
        [stream for stream in sound if stream.id not in moved],
    )
    await _put_aside(connection, damaged, settings, other_streams.n_streams)
    return counted


async def others_of(connection: Connection, settings: DriftSettings) -> OtherStreams:
    """Count the streams of the store, and read the evidence of those that have enough of it to count."""
    least = settings.log_threshold() + math.log(LEAST_SHARE)
    return OtherStreams(await streams.count_within(connection), await streams.evidence(connection, least))


async def _ensure_all(connection: Connection, keys: Mapping[str, StreamKey], families: Set[Family]) -> None:
    """Rows of these streams, and gap streams of every group of these families as soon as a family has two groups."""
    gap_of = {family_of(live.gap_key(key)): key for key in keys.values() if family_of(key) in families}
    stored_groups = await streams.groups_of(connection, [*keys], [*families, *gap_of])
    if not keys.keys() <= stored_groups.keys():
        await streams.insert_missing(connection, [key for key in keys.values() if key.id not in stored_groups])
        stored_groups = await streams.groups_of(connection, [*keys], [*families, *gap_of])
    needed: dict[str, StreamKey] = {}
    groups: dict[Family, list[str]] = {}
    for family, group in stored_groups.values():
        groups.setdefault(family, []).append(group)
    for key in gap_of.values():
        group_names = groups.get(family_of(key), [])
        if len(group_names) > 1:
            gaps = [live.gap_key(msgspec.structs.replace(key, group=group)) for group in group_names if group]
            needed |= {gap.id: gap for gap in gaps}
    await streams.insert_missing(connection, [needed[new] for new in needed.keys() - stored_groups.keys()])


async def write(
    connection: Connection,
    moved: Sequence[Stream],
    settings: DriftSettings,
    n_streams: int,
    beside: Sequence[Stream] = (),
) -> None:
    """Put locked streams back, with their texts. `beside`: distances and scores of unmoved axes of these models."""
    if not moved:
        return
    estimates = _estimate_streams(moved, beside)
    rows = [
        {
            "row": stream.id,
            "state": _json(stream.state),
            "updated_at": stream.updated_at,
            "alarm_since": stream.alarm_since,
            "alarm_exchange_id": stream.alarm_exchange_id,
            "acknowledged_at": stream.acknowledged_at,
            "log_evidence": log_evidence_of(stream.state),
            "estimate": _json(estimates[stream.id]),
            "detector": _json(shown_detector(stream, settings, n_streams)),
        }
        for stream in moved
    ]
    await streams.save(connection, rows)
    rendered = [stream.id for stream in beside if stream.id in estimates]
    await streams.save(
        connection, [{"row": stream_id, "estimate": _json(estimates[stream_id])} for stream_id in rendered]
    )


async def _put_aside(
    connection: Connection, damaged: Sequence[Stream], settings: DriftSettings, n_streams: int
) -> None:
    """Record damaged streams, once, shown as damaged, as stored. A sound state that takes no value is marked."""
    new = await damaged_streams.note(connection, damaged) if damaged else []
    for stream in new:
        values: dict[str, Any] = {
            "row": stream.id,
            "updated_at": time.time(),
            "log_evidence": None,
            "estimate": _json(estimate_of(stream)),
            "detector": _json(shown_detector(stream, settings, n_streams)),
        }
        if msgspec.structs.replace(stream.state, damaged=None) != StreamState():
            values["state"] = _json(stream.state)
        await streams.save(connection, [values])


def _estimate_streams(moved: Sequence[Stream], beside: Sequence[Stream]) -> dict[str, LiveEstimate]:
    estimates = {stream.id: estimate_of(stream) for stream in moved}
    distances: dict[Family, list[LiveEstimate]] = {}
    scores = []
    for stream in (*moved, *beside):
        if stream.key.metric == DISTANCE:
            distances.setdefault(family_of(stream.key), []).append(estimates.get(stream.id) or estimate_of(stream))
        elif stream.key.metric == SCORE and not stream.key.group:
            scores.append(stream)
    for stream in scores:
        axis_distances = distances.get(family_of(msgspec.structs.replace(stream.key, metric=DISTANCE)), [])
        estimates[stream.id] = with_most_normal(estimates.get(stream.id) or estimate_of(stream), axis_distances)
    return estimates


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
