"""Joins, draws (HMAC of an id, at the gateway's own rates), stores and counts exchanges that others recorded.
The inclusion probability is the gateway's times the sender's. The id follows from the sender's own
(`received.exchange_id`), so an exchange sent twice counts once. After an answer of success it is in the store.
"""

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec

from auditors.types import Exchange
from gateway.errors import BusyError, StoreError
from gateway.features.ingest.config import INGEST, IngestConfig
from gateway.features.ingest.reading import BodyReader
from gateway.features.ingest.received import Door, Outcome, Part, Received, Rejections, Sent, completed, exchange_of
from gateway.features.ingest.waiting_parts import TooManyWaitingError, WaitingParts
from gateway.proxy.admission import Client
from gateway.proxy.data_plane import DataPlane
from gateway.proxy.types import AUDITABLE_ENDPOINTS, Sampled, SamplingRequest
from gateway.sampling.strata import UNCLASSIFIED
from gateway.sampling.tap import BATCH_BYTES, BATCH_EXCHANGES, BUFFER_BYTES, SamplingTap
from gateway.sampling.writer.sink import ExchangeSink
from gateway.store.database import Database
from gateway.store.ingested import DUPLICATE, portions
from gateway.telemetry.worker_stats import WorkerStats
from gateway.ticks import next_tick
from gateway.turns import TURN_SECONDS, in_turns

REQUESTS_AT_ONCE = 64
"""Requests that are being read or wait for the writer; more are told to come again."""
MOST_BYTES = BUFFER_BYTES // 2
"""All requests together."""
MOST_BYTES_OF_A_KEY = MOST_BYTES // 2
"""Bytes of all requests of a single key, so that another key's find room. A request alone is read whatever its size."""
EXCHANGE_BYTES = 1536
"""Bytes that an exchange, or part of an exchange, takes as objects in addition to its texts."""

FULL = "too much that was sent waits to be stored: send it again in a moment"


class Room:
    """Memory of a single request."""

    def __init__(self, rooms: "Rooms", key: str | None) -> None:
        self._rooms = rooms
        self._key = key
        self.held = 0

    def hold(self, n_bytes: int) -> None:
        """Account for more. Raises BusyError where there is not enough memory for it."""
        n_bytes = min(n_bytes, MOST_BYTES_OF_A_KEY - self.held)
        if n_bytes > 0:
            self._rooms.reserve(self._key, n_bytes)
            self.held += n_bytes


class Rooms:
    """Memory of all requests of a worker; copies of live traffic (`tap`) share it."""

    def __init__(self, tap: SamplingTap) -> None:
        self._tap = tap
        self._n_requests = 0
        self._held: Counter[str | None] = Counter()

    @contextlib.contextmanager
    def request(self, key: str | None) -> Iterator[Room]:
        """A request that is being read, with a key of this name. Raises BusyError where there are too many."""
        if self._n_requests >= REQUESTS_AT_ONCE:
            raise BusyError(FULL)
        room = Room(self, key)
        self._n_requests += 1
        try:
            yield room
        finally:
            self._n_requests -= 1
            self._tap.release(room.held)
            self._held[key] -= room.held
            self._held = +self._held

    def reserve(self, key: str | None, n_bytes: int) -> None:
        """Reserve memory. Raises BusyError where there is not enough for so many bytes of this key."""
        if (
            self._held[key] + n_bytes > MOST_BYTES_OF_A_KEY
            or self._held.total() + n_bytes > MOST_BYTES
            or not self._tap.reserve(n_bytes)
        ):
            raise BusyError(FULL)
        self._held[key] += n_bytes


logger = logging.getLogger(__name__)

MOST_SKEW_SECONDS = 3600.0
"""A time that lies farther from ours is replaced by ours: retention and waiting go by it."""
SWEEP_SECONDS = 5.0
TAKEN_AT_ONCE = 256
"""Exchanges, or parts of them, that are joined and stored before the next ones."""
NOT_AUDITABLE = (UNCLASSIFIED, "not_auditable")


class Intake:
    """One worker's intake; `start` it once the event loop runs, `stop` it at its end. `sink`: not the tap's own."""

    def __init__(
        self,
        plane: Callable[[], DataPlane],
        tap: SamplingTap,
        sink: ExchangeSink,
        database: Database,
        stats: WorkerStats,
    ) -> None:
        self._plane = plane
        self._tap = tap
        self._sink = sink
        self._database = database
        self._stats = stats
        self._turn = asyncio.Lock()
        self.reading = BodyReader()
        self.rooms = Rooms(tap)
        self._parts = WaitingParts(database, lambda: self.config)
        self._sweeping: asyncio.Task[None] | None = None

    @property
    def config(self) -> IngestConfig:
        return INGEST.of(self._plane().config)

    def start(self) -> None:
        """Begins to look for parts that have waited too long."""
        self._sweeping = asyncio.create_task(self._sweep_regularly(), name="ingest-sweep")

    async def stop(self) -> None:
        if self._sweeping is not None:
            self._sweeping.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._sweeping
        await self._sink.close()

    async def take(self, sent: Sent, door: Door, client: Client) -> "Counter[Outcome]":
        """Takes what was sent; returns the counts by outcome. Raises StoreError or TooManyWaitingError: send again."""
        rate = self.config.sampling_rate
        outcomes: Counter[Outcome] = Counter()
        n_refused = 0
        for some in portions(sent.whole, TAKEN_AT_ONCE):
            whole = await in_turns(lambda received: _apply_key(received, client, rate), some)
            outcomes += await self._take_whole(whole, door)
        for parts in portions(sent.parts, TAKEN_AT_ONCE):
            new = await in_turns(lambda part: msgspec.structs.replace(_apply_key(part, client, rate), door=door), parts)
            more, n_more_refused = await self._take_parts(new, door, sent.rejected)
            outcomes += more
            n_refused += n_more_refused
        if n_refused:
            raise TooManyWaitingError(client.name, self.config)
        rest: Counter[Outcome] = Counter({"ignored": sent.n_ignored, "rejected": sent.rejected.count})
        self.note(door, rest)
        self.ignore_rates(door, sent.n_ignored_rates)
        return +(outcomes + rest)

    async def _take_whole(self, whole: Sequence[Received], door: Door) -> "Counter[Outcome]":
        by_id: dict[str, Received] = {}
        for received in whole:
            by_id.setdefault(received.id, received)
        counts = await self._store([*by_id.values()])
        n_repeated = counts[DUPLICATE] + len(whole) - len(by_id)
        outcomes: Counter[Outcome] = Counter({"taken": counts.total() - counts[DUPLICATE], "duplicate": n_repeated})
        self.note(door, outcomes)
        return outcomes

    async def _take_parts(
        self, parts: Sequence[Part], door: Door, rejected: Rejections
    ) -> tuple["Counter[Outcome]", int]:
        """Keeps the parts and takes exchanges that they complete; returns counts by outcome, and parts not kept."""
        outcomes: Counter[Outcome] = Counter()

        async def take(whole: Sequence[Received]) -> None:
            outcomes.update(await self._take_whole(whole, door))

        added = await self._parts.add(parts, rejected, take)
        more: Counter[Outcome] = Counter({"duplicate": added.n_duplicates, "waiting": added.n_waiting})
        self.note(door, more)
        return outcomes + more, added.n_refused

    def ignore_rates(self, door: Door, count: int) -> None:
        """Counts exchanges that stated a sampling rate which does not count."""
        self._stats.ignored_rates(door, count)

    def note(self, door: Door, outcomes: Mapping[Outcome, int]) -> None:
        """Counts things that were sent."""
        for outcome, count in outcomes.items():
            self._stats.ingested(door, outcome, count)

    async def _store(self, whole: Sequence[Received]) -> "Counter[tuple[str, str]]":
        counts: Counter[tuple[str, str]] = Counter()
        batch: list[Exchange] = []
        verdicts: dict[str, tuple[str, str]] = {}
        size, until = 0, time.perf_counter() + TURN_SECONDS
        for received in whole:
            decided = self._decided(received)
            if isinstance(decided, Exchange):
                batch.append(decided)
                size += received.size
                verdicts[received.id] = (decided.stratum, "queued")
            else:
                verdicts[received.id] = decided
            if len(verdicts) >= BATCH_EXCHANGES or size >= BATCH_BYTES:
                counts.update(await self._write(batch, verdicts))
                batch, verdicts, size = [], {}, 0
            if time.perf_counter() >= until:  # each may search its text for identity terms
                await asyncio.sleep(0)
                until = time.perf_counter() + TURN_SECONDS
        if verdicts:
            counts.update(await self._write(batch, verdicts))
        return counts

    async def _write(self, batch: list[Exchange], verdicts: dict[str, tuple[str, str]]) -> "Counter[tuple[str, str]]":
        async with self._turn:
            counts = Counter(await self._sink.ingest(batch, verdicts))
        self._tap.stored({verdict: count for verdict, count in counts.items() if verdict != DUPLICATE})
        return counts

    def _decided(self, received: Received) -> Exchange | tuple[str, str]:
        """Return the exchange to store, or (stratum, outcome) where it is not stored."""
        verdict = self._tap.verdict(
            SamplingRequest(
                received.id,
                eligible=received.endpoint in AUDITABLE_ENDPOINTS and received.status == 200,
                body=received.request,
                opt=received.opt,
                may_opt=True,
                tag=received.tag,
                model=received.model,
                route=received.endpoint,
                key_name=received.key_name,
            )
        )
        if not isinstance(verdict, Sampled):
            return verdict
        if max(len(received.request), len(received.response)) > self._tap.max_copy_bytes:
            return verdict.stratum, "truncated"
        plane, now = self._plane(), time.time()
        is_near = received.at is not None and now - MOST_SKEW_SECONDS <= received.at <= now
        return exchange_of(
            received,
            stratum=verdict.stratum,
            probability=verdict.inclusion_probability,
            rate_factor=verdict.rate_factor,
            received_at=received.at if received.at is not None and is_near else now,
            upstream=_upstream(plane, received.model),
            model_label=received.model if received.model in self.config.models else plane.model_label(received.model),
        )

    async def _sweep_regularly(self) -> None:
        while True:
            await next_tick(SWEEP_SECONDS)
            if not self.config.enabled:
                continue
            try:
                await self.sweep()
            except StoreError as exc:
                logger.warning("parts of exchanges wait longer than they should: %s", exc)
            except Exception:
                logger.exception("parts of exchanges that have waited too long cannot be settled")

    async def sweep(self, now: float | None = None) -> int:
        """Settles exchanges that waited for `ingest.join_seconds` and returns their number; halves: not auditable."""
        before = (time.time() if now is None else now) - self.config.join_seconds
        return await self._parts.settle(before, self._settle)

    async def _settle(self, exchanges: Mapping[str, Part | None]) -> None:
        ends: dict[tuple[Door, Outcome], list[str]] = {}
        for key, part in exchanges.items():
            ends.setdefault(("otlp", "no_content") if part is None else (part.door, _end_of(part)), []).append(key)
        for (door, end), keys in ends.items():
            if end == "taken":
                parts = [part for key in keys if (part := exchanges[key]) is not None]
                counts = await self._store(await in_turns(completed, parts))
            else:
                counts = await self._write([], dict.fromkeys(keys, NOT_AUDITABLE))
            new = counts.total() - counts[DUPLICATE]
            self.note(door, Counter({end: new, "duplicate": counts[DUPLICATE]}))


def _end_of(part: Part) -> Outcome:
    if part.may_be_audited:
        return "taken"
    return "half" if part.has_text else "no_content"


Taken = TypeVar("Taken", bound=Part)


def _apply_key(part: Taken, client: Client, configured_rate: float | None) -> Taken:
    """Apply the settings of its key, and the rate of `ingest.sampling_rate`, which holds whatever a sender states."""
    opt = (part.opt if client.may_opt else None) if client.is_audited else "off"
    rate = part.sender_rate if configured_rate is None else configured_rate
    return msgspec.structs.replace(part, opt=opt, key_name=client.name, sender_rate=rate)


def _upstream(plane: DataPlane, model: str) -> str:
    if (upstream := INGEST.of(plane.config).upstream) is not None:
        return upstream
    return next((upstream.name for upstream in plane.upstreams if model in upstream.models), "")
