"""The way of an exchange that others recorded, from any door: joined, drawn, stored and counted; then its sender hears.

The gateway draws from what it is sent as it does from what it relays, by HMAC of an id, at its own rates; the inclusion
probability is that times the sender's. The id follows from the sender's own (`received.exchange_id`), so whoever sends
an exchange again changes nothing. What is answered with success is in the store.
"""

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import msgspec

from auditors.types import Exchange
from gateway.config.schema import IngestConfig
from gateway.errors import BusyError, StoreError
from gateway.ingest.private import private
from gateway.ingest.reading import Reading
from gateway.ingest.received import Door, Outcome, Part, Received, Sent, completed, exchange_of, merged
from gateway.live.turns import in_turns
from gateway.proxy.admission import Client
from gateway.proxy.data_plane import DataPlane
from gateway.proxy.types import AUDITABLE_ENDPOINTS, Sampled
from gateway.sampling.strata import UNCLASSIFIED
from gateway.sampling.tap import BATCH_BYTES, BATCH_EXCHANGES, BUFFER_BYTES, SamplingTap
from gateway.sampling.writer.sink import ExchangeSink
from gateway.store import ingested
from gateway.store.database import Database
from gateway.store.ingested import DUPLICATE, StoredPart
from gateway.telemetry.worker_stats import WorkerStats
from gateway.ticks import next_tick

logger = logging.getLogger(__name__)

MOST_SKEW_SECONDS = 3600.0
"""A time that lies farther from ours is replaced by ours: retention and waiting go by it."""
SWEEP_SECONDS = 5.0
SWEEP_AT_ONCE = 200
DECIDED_AT_ONCE = 16
"""Between two turns of the event loop; each may search its text for identity terms."""
REQUESTS_AT_ONCE = 64
"""That are being read or wait for the writer; more are told to come again."""
OBJECTS_PER_BYTE = 4
"""What a body takes as objects while it is read, in times of itself."""
MOST_RESERVED = BUFFER_BYTES // 2
MOST_PARTS = 256
"""Kept of one exchange; each that comes is read with those before it."""
NOT_AUDITABLE = (UNCLASSIFIED, "not_auditable")

FULL = "too much that was sent waits to be stored: send it again in a moment"

_parts = msgspec.json.Decoder(Part)


class Intake:
    """One worker's. Call `start` once the event loop runs and `stop` at its end.

    Args:
        plane: the data plane in force.
        tap: decides, and bounds the memory of copies.
        sink: takes what is decided; not the tap's own, which has one batch on the way at a time.
        database: where parts wait for each other.
        stats: counts by door and outcome.
    """

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
        self.reading = Reading()
        self._n_requests = 0
        self._sweeping: asyncio.Task[None] | None = None

    @property
    def config(self) -> IngestConfig:
        """The section in force."""
        return self._plane().config.ingest

    def start(self) -> None:
        """Begins to look for parts that have waited too long."""
        self._sweeping = asyncio.create_task(self._sweep_regularly(), name="ingest-sweep")

    async def stop(self) -> None:
        if self._sweeping is not None:
            self._sweeping.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._sweeping
        await self._sink.close()

    @contextlib.contextmanager
    def one_more(self) -> Iterator[None]:
        """A request that is being read. Raises BusyError where there are too many."""
        if self._n_requests >= REQUESTS_AT_ONCE:
            raise BusyError(FULL)
        self._n_requests += 1
        try:
            yield
        finally:
            self._n_requests -= 1

    @contextlib.contextmanager
    def room_for(self, n_bytes: int) -> Iterator[None]:
        """Memory for what was sent, within that of all copies. Raises BusyError where there is none."""
        size = min(OBJECTS_PER_BYTE * n_bytes, MOST_RESERVED)
        if not self._tap.reserve(size):
            raise BusyError(FULL)
        try:
            yield
        finally:
            self._tap.release(size)

    async def take(self, sent: Sent, door: Door, client: Client) -> "Counter[Outcome]":
        """Takes what was sent; returns what became of it, once that is in the store.

        Args:
            sent: as a door read it.
            door: which.
            client: whose key it came with.

        Raises: StoreError where the store does not take it now. Some of it may be stored then; sent again, nothing
            counts twice.
        """
        rate = self.config.sampling_rate
        whole = {one.id: one for one in await in_turns(lambda one: _taken(one, client, rate), sent.whole)}
        n_repeated = len(sent.whole) - len(whole)
        by_id: dict[str, list[Part]] = {}
        for part in await in_turns(lambda part: _taken(part, client, rate), sent.parts):
            by_id.setdefault(part.id, []).append(msgspec.structs.replace(part, door=door))
        n_parts = len(by_id)
        for key in await ingested.with_many_parts(self._database, by_id.keys(), most=MOST_PARTS):
            del by_id[key]
        joined, n_waiting = await self._join(by_id)
        whole |= joined
        counts = await self._store(list(whole.values()))
        if by_id:
            await ingested.forget_parts(self._database, joined.keys() & by_id.keys())
        outcomes: Counter[Outcome] = Counter()
        outcomes["taken"] = counts.total() - counts[DUPLICATE]
        outcomes["duplicate"] = counts[DUPLICATE] + n_repeated
        outcomes["waiting"] = n_waiting
        outcomes["ignored"] = sent.n_ignored
        outcomes["rejected"] = sent.rejected.count + n_parts - len(by_id)
        self._note(door, outcomes)
        self.ignore_rates(door, sent.n_ignored_rates)
        return +outcomes

    def reject(self, door: Door) -> None:
        """Counts one thing that is not taken, and whose sender hears nothing of it."""
        self._stats.ingested(door, "rejected", 1)

    def ignore_rates(self, door: Door, count: int) -> None:
        """Counts exchanges that stated a sampling rate which does not count."""
        self._stats.ignored_rates(door, count)

    def _note(self, door: Door, outcomes: "Counter[Outcome]") -> None:
        for outcome, count in outcomes.items():
            self._stats.ingested(door, outcome, count)

    async def _join(self, by_id: dict[str, list[Part]]) -> tuple[dict[str, Received], int]:
        """The exchanges that these parts complete, and how many of the parts' exchanges wait for more."""
        found: dict[str, Received] = {}
        open_: dict[str, Part] = {}

        def join(key: str, parts: Sequence[Part]) -> None:
            part = merged(parts)
            if part.is_whole:
                found[key] = completed(part)
            else:
                open_[key] = part

        await in_turns(lambda one: join(*one), by_id.items())
        if not open_:
            return found, 0
        kept = await asyncio.to_thread(self._kept, open_.values())
        await ingested.add_parts(self._database, kept)
        known = await ingested.parts_of(self._database, open_.keys())
        await in_turns(lambda one: join(one[0], [*map(_parts.decode, one[1]), open_[one[0]]]), known.items())
        return found, len(open_.keys() - found.keys())

    def _kept(self, parts: Iterable[Part]) -> list[StoredPart]:
        redactor = self._database.texts.redactor
        return [StoredPart(part.id, msgspec.json.encode(private(part, redactor))) for part in parts]

    async def _store(self, whole: Sequence[Received]) -> "Counter[tuple[str, str]]":
        counts: Counter[tuple[str, str]] = Counter()
        batch: list[Exchange] = []
        verdicts: dict[str, tuple[str, str]] = {}
        size = 0
        for number, one in enumerate(whole):
            decided = self._decided(one)
            if isinstance(decided, Exchange):
                batch.append(decided)
                size += one.size
                verdicts[one.id] = (decided.stratum, "queued")
            else:
                verdicts[one.id] = decided
            if len(verdicts) >= BATCH_EXCHANGES or size >= BATCH_BYTES:
                counts.update(await self._write(batch, verdicts))
                batch, verdicts, size = [], {}, 0
            if number % DECIDED_AT_ONCE == DECIDED_AT_ONCE - 1:
                await asyncio.sleep(0)
        if verdicts:
            counts.update(await self._write(batch, verdicts))
        return counts

    async def _write(self, batch: list[Exchange], verdicts: dict[str, tuple[str, str]]) -> "Counter[tuple[str, str]]":
        async with self._turn:
            counts = Counter(await self._sink.ingest(batch, verdicts))
        self._tap.stored({verdict: count for verdict, count in counts.items() if verdict != DUPLICATE})
        return counts

    def _decided(self, one: Received) -> Exchange | tuple[str, str]:
        """The exchange to store, or (stratum, outcome) of one that is not."""
        verdict = self._tap.verdict(
            one.id,
            one.endpoint in AUDITABLE_ENDPOINTS and one.status == 200,
            one.request,
            one.opt,
            True,
            one.tag,
            one.model,
            one.endpoint,
            one.key_name,
        )
        if not isinstance(verdict, Sampled):
            return verdict
        if max(len(one.request), len(one.response)) > self._tap.max_copy_bytes:
            return verdict.stratum, "truncated"
        plane, now = self._plane(), time.time()
        is_near = one.at is not None and now - MOST_SKEW_SECONDS <= one.at <= now
        return exchange_of(
            one,
            stratum=verdict.stratum,
            probability=verdict.inclusion_probability,
            rate_factor=verdict.rate_factor,
            received_at=one.at if one.at is not None and is_near else now,
            upstream=_upstream(plane, one.model),
            model_label=one.model if one.model in plane.config.ingest.models else plane.model_label(one.model),
        )

    async def _sweep_regularly(self) -> None:
        while True:
            await next_tick(SWEEP_SECONDS)
            if not self.config.enabled:
                continue
            try:
                while await self.sweep() == SWEEP_AT_ONCE:
                    pass
            except StoreError as exc:
                logger.warning("parts of exchanges wait longer than they should: %s", exc)
            except Exception:
                logger.exception("parts of exchanges that have waited too long cannot be settled")

    async def sweep(self, now: float | None = None) -> int:
        """Settles exchanges whose other parts have not come within `ingest.join_seconds`; how many there were.

        One with both sides is taken as it is, under no model's name. The others are not auditable, and the ledger says
        so.
        """
        before = (time.time() if now is None else now) - self.config.join_seconds
        ids = await ingested.waited_too_long(self._database, before=before, limit=SWEEP_AT_ONCE)
        known = await ingested.parts_of(self._database, ids)
        together = {key: merged([*map(_parts.decode, bodies)]) for key, bodies in known.items()}
        ends: dict[tuple[Door, Outcome], list[str]] = {}
        for key in ids:
            part = together.get(key)
            ends.setdefault(("otlp", "no_content") if part is None else (part.door, _end_of(part)), []).append(key)
        for (door, end), keys in ends.items():
            if end == "taken":
                counts = await self._store([completed(together[key]) for key in keys])
            else:
                counts = await self._write([], dict.fromkeys(keys, NOT_AUDITABLE))
            new = counts.total() - counts[DUPLICATE]
            self._note(door, Counter({end: new, "duplicate": counts[DUPLICATE]}))
        await ingested.forget_parts(self._database, ids)
        return len(ids)


def _end_of(part: Part) -> Outcome:
    if part.may_be_audited:
        return "taken"
    return "half" if part.has_text else "no_content"


Taken = TypeVar("Taken", Received, Part)


def _taken(one: Taken, client: Client, configured_rate: float | None) -> Taken:
    """With what its key says of it, and the rate of `ingest.sampling_rate`, which holds whatever a sender states."""
    opt = (one.opt if client.may_opt else None) if client.is_audited else "off"
    rate = one.sender_rate if configured_rate is None else configured_rate
    return msgspec.structs.replace(one, opt=opt, key_name=client.name, sender_rate=rate)


def _upstream(plane: DataPlane, model: str) -> str:
    """Whom auditors ask about it; "" for nobody."""
    if plane.config.ingest.upstream is not None:
        return plane.config.ingest.upstream
    return next((upstream.name for upstream in plane.upstreams if model in upstream.models), "")
