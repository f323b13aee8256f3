"""The sampling tap: decides which exchanges are copied, buffers the copies, hands them on, counts every loss. It never
waits and never raises towards the relay. Under pressure it lowers the rate and records that, instead of dropping copies
at random. A journal keeps what is in no store yet (`gateway.sampling.writer.journal`).
"""

import asyncio
import contextlib
import itertools
import logging
import math
import time
import uuid
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Literal

from auditors.types import Exchange
from gateway.config.schema import SamplingConfig
from gateway.errors import StoreError
from gateway.proxy.types import FilteredReason, Sampled, SamplingRequest
from gateway.sampling.decision import HmacSampler, is_probe
from gateway.sampling.key_shares import KeyShares, ShareBoard
from gateway.sampling.strata import OPTED_IN, UNCLASSIFIED, Strata
from gateway.sampling.writer.journal import Journal, Leftover, counts_for, entries_of
from gateway.sampling.writer.sink import ExchangeSink
from gateway.store import exchanges, store_metadata
from gateway.store.database import Database
from gateway.store.deliveries import Delivery
from gateway.store.ledger import Deltas
from gateway.store.sqlite_file import LOCKED
from gateway.ticks import next_tick, until_tick

logger = logging.getLogger(__name__)

_FILTERED = (UNCLASSIFIED, "filtered")
_OPTED_OUT = (UNCLASSIFIED, "opted_out")
_OPTED_IN_OUT = (OPTED_IN, "sampled_out")

BATCH_EXCHANGES = 256
"""Most exchanges handed on together, as soon as so many wait: a batch costs as much as about 20 copies."""
BATCH_SECONDS = 0.5
BATCH_BYTES = 1024 * 1024
"""Bytes of bodies in a batch, unless a copy is larger: encoding more would hold up the relay."""
BUFFER_BYTES = 128 * 1024 * 1024
"""All copies together, those that are still being made and those that wait to be written, whatever their number."""
MAX_RETRY_SECONDS = 5.0
STALL_SECONDS = 15.0
"""Seconds that a store may take for a batch when the end has come."""
SPARE_SECONDS = 5.0
"""Seconds that the sink may take for a batch when the end has come, before the spare sink is asked."""
BACKLOG_SECONDS = 5.0
"""Between two queries of how much waits for the auditors."""
COUNTED_BACKLOG = 1_000_000
"""No larger backlog is counted to its end."""
REFUSED_SECONDS = 3.0
"""A writer that is being restarted is silent for less."""
SHARES_SECONDS = 1.0
"""Between two looks at what the other workers draw of each key."""
SMALLEST_BUFFER_FACTOR = 1 / 64
"""Factor on every rate while the buffer is full, as far as `sampling.min_rate` lets it fall."""


class SamplingTap:
    """A `Tap` over a store, started in the event loop. `directory`: shared with the writer; None for a lone process.
    `open_spare_sink`: opens the sink that stores the last copies if `sink` stalls.
    """

    def __init__(
        self,
        config: SamplingConfig,
        secret: bytes,
        database: Database,
        sink: ExchangeSink,
        directory: Path | None = None,
        open_spare_sink: Callable[[], ExchangeSink] | None = None,
    ) -> None:
        self._factor = self._scaled_to = self._logged_factor = 1.0
        self._buffer: deque[Exchange] = deque()
        self._buffered_bytes = self._reserved_bytes = 0
        self._is_overflowing = False
        self._shares = KeyShares(config.max_share_per_key)
        self.reconfigure(config)
        self.outcomes: Counter[tuple[str, str]] = Counter()
        """(stratum, outcome) to requests of this process since its start; "queued" once it is in the database."""
        self.filtered: Counter[str] = Counter()
        """Why requests of this process were filtered, since its start."""
        self._secret = secret
        self._sampler = HmacSampler(secret)
        self._database = database
        self._sink = sink
        self._open_spare_sink = open_spare_sink
        self._sender = uuid.uuid4().hex
        self._delivered = 0
        self._unwritten: Counter[tuple[str, str]] = Counter()
        self._in_flight: Counter[tuple[str, str]] = Counter()
        self._waiting_copies: Counter[str] = Counter()
        """By stratum, but for those of the delivery that is in flight."""
        self._directory = directory
        self._journal: Journal | None = None
        self._board: ShareBoard | None = None
        self._regular: list[asyncio.Task[None]] = []
        self._full_batch = asyncio.Event()
        self._ending = asyncio.Event()
        self._writer: asyncio.Task[None] | None = None
        self._polled_at = -math.inf
        self._refusal: str | None = None
        """Why the store did not take the delivery that is being tried."""
        self._refused_since = math.inf

    def reconfigure(self, config: SamplingConfig) -> None:
        """Decides by other rates from now on, lowered as those were; copies keep the probability they came with."""
        self.max_copy_bytes = config.max_copy_bytes
        self._strata = Strata(config)
        self._scaled_to = 1.0
        self._capacity = config.buffer_exchanges
        self._max_backlog = config.max_backlog
        self._shares.largest_share = config.max_share_per_key
        self._adapt()

    @property
    def pending(self) -> int:
        """Copies that wait to be written."""
        return len(self._buffer)

    @property
    def store_problem(self) -> str | None:
        """Why the store has taken nothing for REFUSED_SECONDS; None while it does, or is only locked."""
        is_short = time.monotonic() - self._refused_since < REFUSED_SECONDS
        return None if is_short or LOCKED in (self._refusal or "") else self._refusal

    @property
    def counts(self) -> dict[str, int]:
        """Requests of this process by outcome; "queued" ones are in the database."""
        totals: Counter[str] = Counter()
        for (_, outcome), count in self.outcomes.items():
            totals[outcome] += count
        return dict(totals)

    @property
    def buffer_factor(self) -> float:
        """Factor on every rate: 1 while the buffer is at most half full, SMALLEST_BUFFER_FACTOR when it is full."""
        held = self._buffered_bytes + self._reserved_bytes
        fill = max(len(self._buffer) / self._capacity, held / BUFFER_BYTES)
        return 1.0 if fill <= 0.5 else 1.0 - min(1.0, 2.0 * fill - 1.0) * (1.0 - SMALLEST_BUFFER_FACTOR)

    @property
    def rates(self) -> dict[str, float]:
        """The rate that holds now, by stratum; those of a key with more than its share are lower."""
        return dict(self._strata.rates)

    def decide(self, request: SamplingRequest) -> Sampled | None:
        verdict = self.verdict(request)
        if isinstance(verdict, Sampled):
            return verdict
        self._count(verdict)
        if verdict is _FILTERED:
            self.filtered["endpoint"] += 1
        return None

    def verdict(self, request: SamplingRequest) -> Sampled | tuple[str, str]:
        """Decide as `decide` does; in place of None return the (stratum, outcome), which the caller has to count."""
        opt = request.opt if request.may_opt else None
        if not request.eligible:
            return _FILTERED
        if opt == "off":
            return _OPTED_OUT
        strata, drawn = self._strata, self._sampler.draw(request.exchange_id)
        if opt == "on":
            # Who asks to be audited has to wait as well: copies that the buffer cannot hold are lost at random.
            sampled = self._within_share(OPTED_IN, strata.opted_in_rate, drawn, request.key_name)
            return _OPTED_IN_OUT if sampled is None else sampled
        tag = request.tag
        if drawn >= strata.largest and (tag is None or tag not in strata.tags):
            return strata.sampled_out
        stratum = strata.of(request.body, tag, request.model, request.route)
        rate = strata.rates[stratum]
        return self._within_share(stratum, rate, drawn, request.key_name) or (stratum, "sampled_out")

    def stored(self, counts: Deltas) -> None:
        """Notes what stands in the ledger already: of exchanges that others recorded."""
        self.outcomes.update(counts)
        self.filtered["recorded"] += sum(n for (_, outcome), n in counts.items() if outcome == "filtered")

    def _within_share(self, stratum: str, rate: float, drawn: float, key_name: str | None) -> Sampled | None:
        if drawn >= rate:
            return None
        shares = self._shares
        least = shares.least  # drawing may renew it
        probability = rate * shares.draw(key_name or "")
        return Sampled(stratum, probability, self._strata.factor * least) if drawn < probability else None

    def is_probe(self, request_id: str, mark: str, body: bytes) -> bool:
        return is_probe(self._secret, request_id, mark, body)

    def reserve(self, size: int) -> bool:
        if self._buffered_bytes + self._reserved_bytes + size > BUFFER_BYTES:
            return False
        self._reserved_bytes += size
        if self._buffered_bytes + self._reserved_bytes > BUFFER_BYTES // 2:
            self._adapt()
        return True

    def release(self, size: int) -> None:
        self._reserved_bytes -= size
        if self._scaled_to != self._factor:
            self._adapt()

    def offer(self, exchange: Exchange) -> None:
        size = _size(exchange)
        held = self._buffered_bytes + self._reserved_bytes
        if len(self._buffer) >= self._capacity or held + size > BUFFER_BYTES:
            self._count((exchange.stratum, "failed"))
            if not self._is_overflowing:
                self._is_overflowing = True
                logger.error(
                    "%d copies wait to be stored, and no rate may fall further: more are lost and counted as failed",
                    len(self._buffer),
                )
            return
        self._buffer.append(exchange)
        self._buffered_bytes += size
        self._waiting_copies[exchange.stratum] += 1
        self._note((exchange.stratum, "failed"))
        self._adapt()
        if len(self._buffer) >= BATCH_EXCHANGES:
            self._full_batch.set()

    def drop(self, stratum: str, outcome: Literal["filtered", "truncated", "failed"]) -> None:
        self._count((stratum, outcome))

    def filtered_for(self, reason: FilteredReason) -> None:
        self.filtered[reason] += 1

    async def start(self) -> None:
        if self._directory is not None:
            try:
                counts_for(self._directory, store_metadata.identity(self._database.user_salt))
                self._journal = Journal(self._directory, self._sender)
            except OSError as exc:  # a full disk is no reason to serve nobody
                logger.warning("no journal of counts can be written, so kill -9 of this worker loses counts: %s", exc)
            self._renew_journal()
            with contextlib.suppress(OSError):  # then each worker holds to the shares of what it draws itself
                self._board = ShareBoard(self._directory)
                self._regular.append(asyncio.create_task(self._compare_shares(self._board)))
        self._writer = asyncio.create_task(self._write_until_stopped(), name="tap-writer")

    async def stop(self, stall_seconds: float = STALL_SECONDS) -> None:
        """Write the exchanges left, as long as the store takes any; others are counted as failed and logged."""
        self._ending.set()
        self._full_batch.set()
        if self._writer is not None:
            if self._open_spare_sink is not None and not await self._is_written(self._writer, SPARE_SECONDS):
                logger.warning("the sink stalls at the end: this worker stores its %d copies itself", self.pending)
                stalled, self._sink = self._sink, self._open_spare_sink()
                await stalled.close()  # ends the try under way; the same delivery is repeated and counts once
            await self._is_written(self._writer, stall_seconds)
            self._writer.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._writer
            await self._sink.close()
        for task in self._regular:
            task.cancel()
        if self._board is not None:
            self._board.close()
        if self._journal is not None:
            self._journal.write(self._leftover())
            self._journal.close(is_settled=not (self._buffer or self._unwritten or self._in_flight))
            self._journal = None
        lost = len(self._buffer)
        for exchange in self._buffer:
            self._count((exchange.stratum, "failed"))
        self._buffer.clear()
        self._buffered_bytes = 0
        self._waiting_copies.clear()
        self._adapt()
        if lost:
            logger.error("%d sampled exchanges were lost: the store did not take them before the end", lost)

    async def _is_written(self, writer: asyncio.Task[None], stall_seconds: float) -> bool:
        """Wait until all copies are written; return False when none was for `stall_seconds`."""
        left = math.inf
        while not writer.done() and len(self._buffer) < left:
            left = len(self._buffer)
            await asyncio.wait([writer], timeout=stall_seconds)
        return writer.done()

    def _count(self, pair: tuple[str, str]) -> None:
        self.outcomes[pair] += 1
        self._unwritten[pair] += 1
        self._note(pair)

    def _note(self, pair: tuple[str, str]) -> None:
        """Keeps in the journal what was counted just now; a copy counts as failed until it is stored."""
        journal = self._journal
        if journal is not None and not journal.count(pair):
            journal.write(self._leftover())

    def _renew_journal(self) -> None:
        if self._journal is not None:
            self._journal.write(self._leftover())

    async def _write_until_stopped(self) -> None:
        while not (self._ending.is_set() and not self._buffer and not self._unwritten):
            if not self._ending.is_set():
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._full_batch.wait(), until_tick(BATCH_SECONDS))
            self._full_batch.clear()
            await self._write_batch()
            await self._poll_backlog()
            if len(self._buffer) >= BATCH_EXCHANGES:
                self._full_batch.set()

    async def _write_batch(self) -> None:
        batch = self._next_batch()
        decided = self._unwritten
        if not batch and not decided:
            return
        self._unwritten = Counter()
        self._delivered += 1
        delivery = Delivery(self._sender, self._delivered, time.time())
        strata = Counter(exchange.stratum for exchange in batch)
        queued = Counter({(stratum, "queued"): count for stratum, count in strata.items()})
        failed = Counter({(stratum, "failed"): count for stratum, count in strata.items()})
        self._waiting_copies -= strata
        self._in_flight = decided + failed
        self._renew_journal()
        try:
            moved = await self._retry_until_done(lambda: self._sink.write(batch, decided + queued, delivery))
        except Exception:  # a batch that can never be stored must not hold up those behind it
            logger.exception("%d sampled exchanges were refused by the store and are lost", len(batch))
            self._forget(batch)
            self._in_flight = Counter()
            self._unwritten += decided + failed
            self.outcomes += failed
            self._renew_journal()
            return
        self._forget(batch)
        queued.update(moved)  # copies that the writer could not store
        self._in_flight = Counter()
        self._renew_journal()
        self.outcomes += queued

    def _leftover(self) -> Leftover:
        waiting = self._unwritten.copy()
        for stratum, count in self._waiting_copies.items():
            waiting[stratum, "failed"] += count
        return Leftover(self._sender, self._delivered, entries_of(self._in_flight), entries_of(waiting))

    async def _compare_shares(self, board: ShareBoard) -> None:
        while True:
            if self._shares.largest_share < 1.0:
                with contextlib.suppress(OSError):
                    self._shares.elsewhere = board.exchange(self._shares.rates(), time.monotonic())
            await next_tick(SHARES_SECONDS)

    def _next_batch(self) -> list[Exchange]:
        """The oldest copies; they stay in the buffer until they are known to be stored."""
        size = 0
        batch: list[Exchange] = []
        for exchange in itertools.islice(self._buffer, BATCH_EXCHANGES):
            size += _size(exchange)
            if batch and size > BATCH_BYTES:
                break
            batch.append(exchange)
        return batch

    async def _poll_backlog(self) -> None:
        now = time.monotonic()
        if self._ending.is_set() or now - self._polled_at < BACKLOG_SECONDS:
            return
        self._polled_at = now
        with contextlib.suppress(StoreError):  # then nothing is written either, and the full buffer lowers the rate
            # Above this no rate falls any further.
            most = self._max_backlog / max(self._strata.lowest_factor, 1e-9) + 1
            at_most = int(min(most, max(COUNTED_BACKLOG, self._max_backlog + 1)))
            self.adapt_to_backlog(await exchanges.count_waiting(self._database, at_most=at_most))

    def adapt_to_backlog(self, waiting: int) -> None:
        """Lowers every rate in proportion to what waits for the auditors beyond what they may leave."""
        factor = min(1.0, self._max_backlog / waiting) if waiting else 1.0
        self._factor = factor
        self._adapt()
        logged, lowered = self._logged_factor, max(factor, self._strata.lowest_factor)
        if lowered <= 0.75 * logged or lowered >= 1.5 * logged or (lowered == 1.0 and logged < 1.0):
            self._logged_factor = lowered
            logger.warning("%d exchanges wait for an audit: sampling at %.2g of the configured rates", waiting, lowered)

    def _adapt(self) -> None:
        buffer_factor = self.buffer_factor
        factor = self._factor * buffer_factor
        if factor != self._scaled_to:
            self._scaled_to = factor
            self._strata.scale(factor)
        if buffer_factor == 1.0:
            self._is_overflowing = False

    def _forget(self, batch: list[Exchange]) -> None:
        for exchange in batch:
            self._buffer.popleft()
            self._buffered_bytes -= _size(exchange)
        self._adapt()

    async def _retry_until_done(self, write: Callable[[], Awaitable[Deltas]]) -> Deltas:
        """Tries until the store takes it; meanwhile copies pile up, and the full buffer lowers the rate."""
        pause = BATCH_SECONDS
        while True:
            try:
                written = await write()
                self._refusal, self._refused_since = None, math.inf
                return written
            except StoreError as exc:
                self._refusal, self._refused_since = str(exc), min(self._refused_since, time.monotonic())
                logger.warning("sampled exchanges wait, %d so far: %s", len(self._buffer), exc)
            await asyncio.sleep(pause)
            pause = min(2 * pause, MAX_RETRY_SECONDS)


def _size(exchange: Exchange) -> int:
    return len(exchange.request_body) + len(exchange.response_body)
