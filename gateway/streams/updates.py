"""What is recorded moves the streams that it concerns, and what is shown of them is written in the same transaction."""

import math
import time
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

import msgspec

from auditors.nearest_identity import DISTANCE, SCORE
from auditors.streams import state as live
from auditors.streams.drift import DriftSettings
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
        locked = await streams.lock(connection, [one.id for one in damaged])
        again = [stream for stream in locked if stream.state.damaged]
        await _put_aside(connection, again, settings, (await others_of(connection, settings)).n_streams)


async def render(database: Database, settings: DriftSettings) -> int:
    """Writes what is shown of streams that have not moved since this version began to keep it; how many there were.

    At most RENDERED_AT_ONCE a call.
    """
    async with database.begin() as connection:
        found = await streams.lock(connection, await streams.unrendered(connection, limit=RENDERED_AT_ONCE))
        n_streams = (await others_of(connection, settings)).n_streams
        await write(connection, [stream for stream in found if not stream.state.damaged], settings, n_streams)
        await _put_aside(connection, [stream for stream in found if stream.state.damaged], settings, n_streams)
    return len(found)


async def record_judgement(
    database: Database, found: Sequence[Measurement], model: str, settings: DriftSettings
) -> None:
    """Moves the streams of one re-judgement of a reference set, in one transaction."""
    async with database.begin() as connection:
        audit = Audited(found=found, exchange_id="", at=time.time(), model=model, probability=1.0)
        await update(connection, [audit], settings)


async def update(connection: Connection, audits: Sequence[Audited], settings: DriftSettings) -> Counted:
    """Moves every stream that these audits concern, inside the caller's transaction; how much each value weighs.

    A stream whose state is damaged, or cannot take a value that another would take, is put aside, and the others move.
    Those are the streams of the measurements themselves and, where groups are compared, the gap streams of their axes.
    Each moves by one audit after the other, in the order given; its row is read and written once. Rows are locked in
    one order, so that none deadlocks.
    """
    parts = [Part.of(audit) for audit in audits]
    keys = {key.id: key for part in parts for key, _ in part.keyed}
    counted: Counted = {}
    if not keys:
        return counted
    families = {family for part in parts for family in part.scores}
    identities = {family_of(key) for key in keys.values() if key.metric in IDENTITIES}
    await _ensure_all(connection, keys, {family_of(key) for part in parts for key in part.with_gaps})
    others = await others_of(connection, settings)
    wanted = [*families, *_with_their_scores(identities)]
    locked = {stream.id: stream for stream in await streams.lock(connection, list(keys), wanted)}
    gaps: dict[Family, list[str]] = {}
    for stream in locked.values():
        if stream.id not in keys:
            gaps.setdefault(family_of(stream.key), []).append(stream.id)
    moved: set[str] = set()
    for part in parts:
        step = Step(part.audit, settings, others, counted)
        compared = {key: scores for family, scores in part.scores.items() for key in gaps.get(family, ())}
        concerned = part.own.keys() | compared.keys()
        for one in sorted(concerned):
            locked[one] = step.moved(locked[one], part.own.get(one), compared.get(one, ()))
        moved |= concerned
    damaged = [stream for stream in locked.values() if stream.state.damaged]
    sound = [stream for stream in locked.values() if not stream.state.damaged]
    await write(
        connection,
        [stream for stream in sound if stream.id in moved],
        settings,
        others.n_streams,
        [stream for stream in sound if stream.id not in moved],
    )
    await _put_aside(connection, damaged, settings, others.n_streams)
    return counted


async def others_of(connection: Connection, settings: DriftSettings) -> OtherStreams:
    """Count the streams of the store and, where the threshold takes it, read the evidence of each."""
    count = await streams.count_within(connection)
    if settings.multiplicity == "each":
        return OtherStreams(count, None)
    evidence = await streams.evidence(connection)
    return OtherStreams(count, {key: value for key, value in evidence.items() if math.isfinite(value)})


async def _ensure_all(connection: Connection, keys: Mapping[str, StreamKey], families: Set[Family]) -> None:
    """Rows of these streams, and gap streams of every group of these families as soon as a family has two groups."""
    gap_of = {family_of(live.gap_key(key)): key for key in keys.values() if family_of(key) in families}
    known = await streams.groups_of(connection, [*keys], [*families, *gap_of])
    if not keys.keys() <= known.keys():
        await streams.insert_missing(connection, [key for key in keys.values() if key.id not in known])
        known = await streams.groups_of(connection, [*keys], [*families, *gap_of])
    needed: dict[str, StreamKey] = {}
    groups: dict[Family, list[str]] = {}
    for family, group in known.values():
        groups.setdefault(family, []).append(group)
    for key in gap_of.values():
        found = groups.get(family_of(key), [])
        if len(found) > 1:
            gaps = [live.gap_key(msgspec.structs.replace(key, group=group)) for group in found if group]
            needed |= {gap.id: gap for gap in gaps}
    await streams.insert_missing(connection, [needed[new] for new in needed.keys() - known.keys()])


async def write(
    connection: Connection,
    moved: Sequence[Stream],
    settings: DriftSettings,
    n_streams: int,
    beside: Sequence[Stream] = (),
) -> None:
    """Puts streams back, with what is shown of them.

    `connection`: the transaction that has locked them. `beside`: distances and scores of axes that have not moved, but
    whose others have.
    """
    if not moved:
        return
    shown = _shown(moved, beside)
    rows = [
        {
            "row": stream.id,
            "state": _json(stream.state),
            "updated_at": stream.updated_at,
            "alarm_since": stream.alarm_since,
            "alarm_exchange_id": stream.alarm_exchange_id,
            "acknowledged_at": stream.acknowledged_at,
            "log_evidence": log_evidence_of(stream.state),
            "estimate": _json(shown[stream.id]),
            "detector": _json(shown_detector(stream, settings, n_streams)),
        }
        for stream in moved
    ]
    await streams.save(connection, rows)
    rendered = [one.id for one in beside if one.id in shown]
    await streams.save(connection, [{"row": one, "estimate": _json(shown[one])} for one in rendered])


async def _put_aside(
    connection: Connection, damaged: Sequence[Stream], settings: DriftSettings, n_streams: int
) -> None:
    """Puts damaged streams on record, once, and shows them as damaged; what is stored of them is kept.

    A state that was sound and cannot take another value is marked as damaged, so that nothing is added to it later.
    """
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


def _shown(moved: Sequence[Stream], beside: Sequence[Stream]) -> dict[str, LiveEstimate]:
    """The estimates of what moved, and of the scores beside it, with the most normal identity of each axis."""
    shown = {stream.id: estimate_of(stream) for stream in moved}
    distances: dict[Family, list[LiveEstimate]] = {}
    scores = []
    for stream in (*moved, *beside):
        if stream.key.metric == DISTANCE:
            distances.setdefault(family_of(stream.key), []).append(shown.get(stream.id) or estimate_of(stream))
        elif stream.key.metric == SCORE and not stream.key.group:
            scores.append(stream)
    for stream in scores:
        found = distances.get(family_of(msgspec.structs.replace(stream.key, metric=DISTANCE)), [])
        shown[stream.id] = with_most_normal(shown.get(stream.id) or estimate_of(stream), found)
    return shown


def _with_their_scores(families: Iterable[Family]) -> set[Family]:
    """The families of distances and of scores of the same axes."""
    return {
        (auditor, metric, axis, model, instrument)
        for auditor, _, axis, model, instrument in families
        for metric in IDENTITIES
    }


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
