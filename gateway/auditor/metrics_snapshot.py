"""Reads from the store what the auditor's metrics show, as one snapshot, for scrapes, and otherwise seldom."""

import asyncio
import logging
import time
from collections.abc import Sequence

import msgspec

from auditors.streams.drift import DriftSettings
from benchmarks.run import result as results
from benchmarks.run.result import Result
from gateway.auditor.metrics import AuditorMetrics, Snapshot, data_kind, thinking_of
from gateway.auditor.part import AuditorPart
from gateway.auditor.scheduling import due_times
from gateway.errors import StoreError
from gateway.store import catalogue, circuits, counters, exchanges, runs, schedules, streams
from gateway.store.database import Database
from gateway.store.runs import Run
from gateway.store.streams import Stream
from gateway.streams import updates

LOADED_AT_ONCE = 200
"""Streams read in one step."""


def exported(finished: Sequence[Run]) -> list[Run]:
    """The newest run of each suite, model, mode and thinking that may share one series. The labels do not say the
    protocol, so only runs of the default one count: no mitigation, examples, part of the data, other temperature, own
    fields or prompts. Embedded items are shown only until there is a run on the published data.
    """
    chosen: dict[tuple[str, str, str, str], Run] = {}
    for run in sorted(finished, key=_precedence):
        options = run.options
        changes = [options.get(name) for name in ("few_shot", "subset", "axes", "temperature", "extra_body", "prompts")]
        is_plain = options.get("mitigation", "none") == "none" and not any(changes)
        if run.protocol == "corrected" and is_plain:
            chosen[run.suite, run.model, run.mode, thinking_of(run)] = run
    return list(chosen.values())


def _precedence(run: Run) -> tuple[bool, float]:
    return data_kind(run) == "canonical", run.finished_at or 0.0


def _version(stream: Stream | None) -> tuple[float, float | None] | None:
    return None if stream is None else (stream.updated_at, stream.acknowledged_at)


class SnapshotReader:
    """Remembers the estimates of finished runs, which never change, and streams until they do; reads the rest again."""

    def __init__(
        self, database: Database, settings: DriftSettings | None = None, parts: Sequence[AuditorPart] = ()
    ) -> None:
        self._parts = parts
        self._database = database
        self._settings = settings or DriftSettings()
        self._streams: dict[str, Stream] = {}
        self._listed: Sequence[Stream] = ()
        self._stamp: tuple[object, ...] | None = None
        self._results: dict[str, Result] = {}

    async def read(self) -> Snapshot:
        queue_size, oldest = await exchanges.backlog(self._database)
        finished = await runs.newest_done(self._database)
        known_schedules = await schedules.list_schedules(self._database)
        known_suites = await catalogue.read(self._database) if known_schedules else []
        return Snapshot(
            streams=await self._streams_now(),
            counters=await counters.read(self._database),
            queue_size=queue_size,
            oldest_seconds=max(0.0, time.time() - oldest) if oldest is not None else 0.0,
            circuits=await circuits.open_circuits(self._database),
            waiting=await circuits.count_waiting(self._database),
            read_at=time.time(),
            finished_runs=finished,
            due_times=due_times(known_schedules, finished, known_suites),
            exported_runs=[(run, result) for run in exported(finished) if (result := await self._of(run))],
            families=[family for part in self._parts for family in await part.families()],
            active_runs=await runs.list_runs(self._database, status="running"),
        )

    async def _streams_now(self) -> Sequence[Stream]:
        stamp = await streams.stamp(self._database)
        if stamp == self._stamp:
            return self._listed
        versions = await streams.versions(self._database)
        changed = [key for key, version in versions.items() if version != _version(self._streams.get(key))]
        for first in range(0, len(changed), LOADED_AT_ONCE):
            loaded = await streams.load(self._database, changed[first : first + LOADED_AT_ONCE])
            self._streams |= {stream.id: stream for stream in loaded}
            if damaged := [stream for stream in loaded if stream.state.damaged]:
                await updates.note_damaged(self._database, damaged, self._settings)
        self._stamp, self._listed = stamp, [self._streams[key] for key in versions if key in self._streams]
        return self._listed

    async def _of(self, run: Run) -> Result | None:
        if run.id not in self._results:
            whole = await runs.get(self._database, run.id)
            if whole is None or not whole.result:
                return None
            result = results.decode(whole.result.encode())
            self._results[run.id] = msgspec.structs.replace(result, rank_resamples=[])
        return self._results[run.id]


logger = logging.getLogger(__name__)

OLDEST_SECONDS = 1.0
"""A scrape finds metrics that are not older than this,"""
PATIENCE_SECONDS = 2.0
"""or waits for so long at most, and then gets those there are: the store may be away."""


class MetricsRenewal:
    """One renewal at a time."""

    def __init__(self, reader: SnapshotReader, metrics: AuditorMetrics) -> None:
        self._reader = reader
        self._metrics = metrics
        self._renewing: asyncio.Task[None] | None = None
        self._renewed_at: float | None = None

    async def now(self) -> None:
        """Returns when the metrics are those of the store, or when it has been logged why they are not."""
        await asyncio.shield(self._task())

    async def for_a_scrape(self) -> None:
        """Makes the metrics recent. Never raises."""
        if self._renewed_at is None or time.monotonic() - self._renewed_at > OLDEST_SECONDS:
            await asyncio.wait({self._task()}, timeout=PATIENCE_SECONDS)

    def _task(self) -> asyncio.Task[None]:
        if self._renewing is None or self._renewing.done():
            self._renewing = asyncio.create_task(self._renew())
        return self._renewing

    async def _renew(self) -> None:
        try:
            await self._metrics.renew(await self._reader.read())
        except StoreError as exc:
            logger.warning("%s", exc)
        else:
            self._renewed_at = time.monotonic()
