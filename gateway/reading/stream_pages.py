"""Pages of live streams: the JSON that an auditor wrote into the store is joined, and little of it is read."""

import math
from collections.abc import Collection, Iterable
from functools import partial

import msgspec

from auditors.nearest_identity import DISTANCE, SCORE
from auditors.streams import moves
from auditors.streams.calibration import Pair
from auditors.streams.drift import DriftSettings
from auditors.streams.state import StreamKey
from gateway.reading.alarms import Alarm, alarm_of, by_change, by_measure, exchanges_link
from gateway.reading.process import EncodedPage
from gateway.store import calibrations, judge_passes, labels, replicas, served, streams, windows
from gateway.store.calibrations import Kept
from gateway.store.database import Database
from gateway.store.judge_passes import Drifted
from gateway.store.served import ModelHistory
from gateway.store.streams import Row, Selection, Stream
from gateway.store.windows import Window, WindowSums
from gateway.streams.detectors import Detectors, ShownDetector, shown_detector
from gateway.streams.estimates import (
    CalibrationUsed,
    LiveEstimate,
    ReplicaEstimate,
    estimate_of,
    window_estimate_of,
    with_calibration,
    with_labels,
    with_most_normal,
)
from gateway.turns import in_turns

LOADED_AT_ONCE = 100
"""States, or the labels of so many streams, read in one step."""
NOT_NOTED = "nothing was noted of this model by then: an auditor asks every upstream what it serves twice a minute"

_estimates = msgspec.json.Decoder(LiveEstimate)
_detectors = msgspec.json.Decoder(ShownDetector)


async def read_estimates(database: Database, selection: Selection) -> EncodedPage[LiveEstimate]:
    """Over all audits since each stream began, with what people's labels say of those that have any."""
    page = await streams.page(database, "estimate", selection)
    labelled = await labels.labelled(database)
    calibrated = await calibrations.streams_of(database, await calibrations.newest(database))
    flagged = await judge_passes.streams_of(database, await judge_passes.drifted(database))
    looked_into = labelled | calibrated.keys() | flagged.keys()
    written = {row.id: row.text for row in page.rows if row.text is None or row.id in looked_into}
    opened: dict[str, bytes] = {}
    for ids in _portions(written):
        pairs = await labels.pairs(database, ids) if labelled.intersection(ids) else {}
        for encoded in await in_turns(
            partial(_opened, written, pairs, calibrated, flagged), await streams.load(database, ids)
        ):
            opened |= encoded
    return EncodedPage.join(list[LiveEstimate], page.total, [opened.get(row.id) or _bytes(row) for row in page.rows])


async def read_window_estimates(
    database: Database, selection: Selection, window: Window, window_text: str
) -> EncodedPage[LiveEstimate]:
    """Over the audits of a window, written as it was asked for."""
    listed = await streams.heads(database, selection)
    page = listed[selection.offset : selection.offset + selection.limit]
    scored = {_axis_series_of(stream.key) for stream in page if stream.key.metric == SCORE and not stream.key.group}
    beside = [stream for stream in listed if stream.key.metric == DISTANCE and _axis_series_of(stream.key) in scored]
    needed = list({stream.id: stream for stream in (*page, *beside)}.values())
    # A window of N audits is read stream by stream; a window of time over all streams is faster without their ids.
    are_few = window.audits is not None or len(needed) < len(listed) or _is_filtered(selection)
    sums = await windows.sums(database, window, _ids(needed) if are_few else None)
    windowed = await in_turns(
        lambda stream: window_estimate_of(stream, sums.get(stream.id, WindowSums()), window_text), needed
    )
    distances: dict[AxisSeries, list[LiveEstimate]] = {}
    for stream, estimate in zip(needed, windowed, strict=True):
        if estimate.metric == DISTANCE:
            distances.setdefault(_axis_series_of(stream.key), []).append(estimate)
    pairs = list(zip(page, windowed, strict=False))  # `needed` begins with the page
    return EncodedPage.join(list[LiveEstimate], len(listed), await in_turns(partial(_encoded, distances), pairs))


async def read_replica_estimates(database: Database, stream: Stream) -> list[ReplicaEstimate]:
    """One stream by the server that answered."""
    return [
        ReplicaEstimate(
            system_fingerprint=replica.system_fingerprint,
            first_at=replica.first_at,
            last_at=replica.last_at,
            estimate=window_estimate_of(stream, replica.sums, str(replicas.MOST_READ)),
        )
        for replica in await replicas.read(database, stream.id)
    ]


async def read_detectors(database: Database, selection: Selection, settings: DriftSettings) -> EncodedPage[Detectors]:
    """Return the state of the detectors: their knowledge, the changes that they would find, and those they found."""
    page = await streams.page(database, "detector", selection)
    log_threshold = settings.log_threshold(page.n_streams)
    opened: dict[str, bytes] = {}
    for ids in _portions([row.id for row in page.rows if row.text is None]):
        for stream in await streams.load(database, ids):
            opened[stream.id] = msgspec.json.encode(shown_detector(stream, settings, page.n_streams))
    standing = [row for row in page.rows if row.alarm_since is not None]
    history = await served.history(database) if standing else ModelHistory(())
    changed = await in_turns(lambda row: _with_alarm(row, opened.get(row.id) or _bytes(row), history), standing)
    opened |= dict(zip(_ids(standing), changed, strict=True))
    moved = set(await _list_moved(database, settings))
    start = b'{"log_threshold":%s,"has_moved":' % msgspec.json.encode(log_threshold)
    encoded = [
        start + (b"true," if row.id in moved else b"false,") + (opened.get(row.id) or _bytes(row))[1:]
        for row in page.rows
    ]
    return EncodedPage.join(list[Detectors], page.total, encoded)


class _Evidence(msgspec.Struct, frozen=True):
    """The part of a stored `ShownDetector` that says whether its stream moved; the whole takes four times as long."""

    stream: str
    log_e_value: float | None


_evidence = msgspec.json.Decoder(_Evidence)


async def _list_moved(database: Database, settings: DriftSettings) -> list[str]:
    """Return the streams that moved, at the settings' false discovery rate, the clearest first, of the whole store."""
    rate = settings.false_discovery_rate
    evident = await in_turns(_evidence.decode, await streams.evident(database, -math.log(rate)))
    log_e_values = {part.stream: part.log_e_value for part in evident if part.log_e_value is not None}
    return moves.moved(log_e_values, await streams.count(database), rate)


async def read_moved(database: Database, settings: DriftSettings) -> list[ShownDetector]:
    """Return the detectors of the streams that moved, the clearest first."""
    stored = await streams.evident(database, -math.log(settings.false_discovery_rate))
    by_id = {detector.stream: detector for detector in await in_turns(_detectors.decode, stored)}
    return [by_id[stream] for stream in await _list_moved(database, settings)]


async def read_alarms(database: Database, selection: Selection, settings: DriftSettings) -> EncodedPage[Alarm]:
    whole = msgspec.structs.replace(selection, alarmed=True, limit=streams.MOST, offset=0)
    page = await streams.page(database, "detector", whole)
    log_threshold = settings.log_threshold(page.n_streams)
    alarm_by_id: dict[str, Alarm] = {}
    for ids in _portions(_ids(page.rows)):
        for alarm in await in_turns(partial(alarm_of, log_threshold=log_threshold), await streams.load(database, ids)):
            alarm_by_id[alarm.stream] = alarm
    standing = [alarm_by_id[row.id] for row in page.rows if row.id in alarm_by_id]
    changes = [change for listed in await in_turns(by_change, by_measure(standing)) for change in listed]
    together = {alarm.stream: [other.stream for other in change] for change in changes for alarm in change}
    shown = [
        msgspec.structs.replace(alarm, same_change=together[alarm.stream])
        for alarm in standing[selection.offset : selection.offset + selection.limit]
    ]
    return EncodedPage.join(list[Alarm], page.total, await in_turns(msgspec.json.encode, shown))


AxisSeries = tuple[str | None, ...]


def _is_filtered(selection: Selection) -> bool:
    return any((selection.model, selection.axis, selection.auditor))


def _axis_series_of(key: StreamKey) -> AxisSeries:
    return key.auditor, key.axis, key.model, key.instrument


def _encoded(distances: dict[AxisSeries, list[LiveEstimate]], pair: tuple[Stream, LiveEstimate]) -> bytes:
    stream, estimate = pair
    if estimate.metric == SCORE and estimate.group is None:
        estimate = with_most_normal(estimate, distances.get(_axis_series_of(stream.key), []))
    return msgspec.json.encode(estimate)


def _opened(
    written: dict[str, str | None],
    pairs: dict[str, list[Pair]],
    calibrated: dict[str, Kept],
    flagged: dict[str, Drifted],
    stream: Stream,
) -> dict[str, bytes]:
    if stream.state.damaged:
        return {stream.id: msgspec.json.encode(estimate_of(stream))}
    text = written[stream.id]
    estimate = estimate_of(stream) if text is None else _estimates.decode(text)
    if stream.id in pairs and stream.key.is_sampling_known:
        estimate = with_labels(estimate, stream, pairs[stream.id])
    if stream.id in calibrated and stream.key.is_sampling_known:
        calibration = calibrated[stream.id]
        used = CalibrationUsed(digest=calibration.digest, n=calibration.validation.n, created_at=calibration.created_at)
        since = flagged[stream.id].since if stream.id in flagged else None
        estimate = with_calibration(
            estimate, stream, calibration.validation.rates, calibration.validation.threshold, used, since
        )
    if stream.id in flagged and flagged[stream.id].stands:
        estimate = msgspec.structs.replace(estimate, judge_drifted_since=flagged[stream.id].since)
    return {stream.id: msgspec.json.encode(estimate)}


def _with_alarm(row: Row, text: bytes, history: ModelHistory) -> bytes:
    detector = _detectors.decode(text)
    reasons = dict(detector.reasons)
    before = None if detector.since is None else history.at(row.model, detector.since)
    after = history.at(row.model, float("inf"))
    link = exchanges_link(
        detector.auditor, detector.axis, [*detector.exchange_ids, *filter(None, [row.alarm_exchange_id])]
    )
    fields = {"fingerprint_before": before, "fingerprint_after": after, "exchanges": link}
    fields["exchange_id"] = row.alarm_exchange_id
    why = {"exchanges": "all of them were deleted", "exchange_id": "it was deleted"}
    for name, value in fields.items():
        reasons.pop(name, None)
        if value is None:
            reasons[name] = why.get(name, NOT_NOTED)
    if detector.since is None:
        reasons["fingerprint_before"] = "it is not known since when"
    return msgspec.json.encode(
        msgspec.structs.replace(detector, **fields, alarm_since=row.alarm_since, reasons=reasons)
    )


def _portions(ids: Collection[str]) -> Iterable[list[str]]:
    listed = list(ids)
    return (listed[first : first + LOADED_AT_ONCE] for first in range(0, len(listed), LOADED_AT_ONCE))


def _ids(rows: Iterable[Stream | Row]) -> list[str]:
    return [row.id for row in rows]


def _bytes(row: Row) -> bytes:
    return (row.text or "null").encode()
