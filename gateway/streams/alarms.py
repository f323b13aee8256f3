"""Actions of people on a stream: acknowledge its alarm, or start it again. Both are put on record."""

import time
from typing import Any

import msgspec

from auditors.streams import state as live
from auditors.streams.drift import DriftSettings
from auditors.streams.state import StreamState
from gateway.errors import ConflictError
from gateway.store import acknowledgements, damaged_streams, streams
from gateway.store.acknowledgements import Acknowledgement
from gateway.store.database import Connection, Database
from gateway.store.streams import Stream
from gateway.streams.detectors import shown_detector
from gateway.streams.updates import others_of, write


async def acknowledge(
    database: Database,
    stream_id: str,
    settings: DriftSettings,
    *,
    by: str,
    reason: str,
    accept_new_level: bool = False,
    client: str | None = None,
) -> Stream | None:
    """Lower the alarm, start the detector again and put it on record, in a single transaction; return the stream, or
    None. `accept_new_level`: False keeps the reference, True makes the next audits the window of a new one. Raises
    ConflictError when no alarm stands: evidence would be lost.
    """
    async with database.begin() as connection:
        locked = await streams.lock(connection, [stream_id])
        if not locked:
            return None
        [stream] = locked
        if stream.state.damaged:
            raise ConflictError(
                f'the stream "{stream_id}" is damaged: POST /live/streams/{stream_id}/restart starts it again'
            )
        if stream.state.detector is None or not stream.state.alarm:
            raise ConflictError(f'no alarm of the stream "{stream_id}" stands: GET /live/alarms lists those that do')
        entry = Acknowledgement(
            at=time.time(), stream=stream_id, by=by, reason=reason, accept_new_level=accept_new_level, client=client
        )
        state = live.acknowledge(stream.state, accept_new_level=accept_new_level)
        return await _record(connection, settings, stream, entry, state=state)


async def restart(
    database: Database, stream_id: str, settings: DriftSettings, *, by: str, reason: str, client: str | None = None
) -> Stream | None:
    """Start a stream again with the next audit, on record; return it, None without it. Measurements stay."""
    async with database.begin() as connection:
        locked = await streams.lock(connection, [stream_id])
        if not locked:
            return None
        [stream] = locked
        at = time.time()
        entry = Acknowledgement(
            at=at, stream=stream_id, by=by, reason=f"started again: {reason}", accept_new_level=True, client=client
        )
        await damaged_streams.forget(connection, stream_id)
        return await _record(connection, settings, stream, entry, state=StreamState(), updated_at=at)


async def _record(
    connection: Connection, settings: DriftSettings, stream: Stream, entry: Acknowledgement, **changes: Any
) -> Stream:
    """Puts the action on record with the alarm as it was, and writes the stream with these changes and no alarm."""
    n_streams = (await others_of(connection, settings)).n_streams
    shown = msgspec.json.encode(shown_detector(stream, settings, n_streams))
    await acknowledgements.add(connection, stream, entry, shown)
    lowered = msgspec.structs.replace(
        stream, alarm_since=None, alarm_exchange_id=None, acknowledged_at=entry.at, **changes
    )
    await write(connection, [lowered], settings, n_streams)
    return lowered
