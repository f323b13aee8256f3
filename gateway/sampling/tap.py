"""The sampling tap: decides which exchanges are copied, buffers the copies, hands them on, counts every loss.

It never waits and never raises towards the relay. Counts are plain dictionaries on one event loop. Under pressure it
lowers the rate it samples at, and records that rate, instead of dropping copies at random.
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
from typing import Literal

from auditors.types import Exchange
from gateway.config.schema import SamplingConfig
from gateway.errors import StoreError
from gateway.proxy.types import Sampled
from gateway.sampling.decision import HmacSampler, is_probe
from gateway.sampling.strata import UNCLASSIFIED, Strata
from gateway.sampling.writer.sink import ExchangeSink
from gateway.store import exchanges
from gateway.store.database import Database
from gateway.store.deliveries import Delivery

logger = logging.getLogger(__name__)

_FILTERED = (UNCLASSIFIED, "filtered")
_OPTED_OUT = (UNCLASSIFIED, "opted_out")
OPTED_IN = "opted_in"
"""Stratum of requests that ask to be audited, and may: at rate 1, lowered as every other is."""
_OPTED_IN_OUT = (OPTED_IN, "sampled_out")

BATCH_EXCHANGES = 256
"""Handed on together at most, and as soon as so many wait: what a batch costs beside its copies is worth about 20."""
BATCH_SECONDS = 0.5
BATCH_BYTES = 1024 * 1024
"""Of bodies in one batch, unless a single copy is larger: encoding more would hold up the relay for milliseconds."""
BUFFER_BYTES = 128 * 1024 * 1024
"""All waiting copies together, whatever their number."""
MAX_RETRY_SECONDS = 5.0
BACKLOG_SECONDS = 5.0
"""Between two queries of how much waits for the auditors."""
SMALLEST_FACTOR = 2.0**-10


class SamplingTap:
    """A `gateway.proxy.types.Tap` over a store. Call `start` once the event loop runs and `stop` to flush."""

    def __init__(self, config: SamplingConfig, secret: bytes, database: Database, sink: ExchangeSink) -> None:
        self._factor = 1.0
        self.reconfigure(config)
        self.outcomes: Counter[tuple[str, str]] = Counter()
        """(stratum, outcome) to requests of this process since its start; "queued" once it is in the database."""
        self._secret = secret
        self._sampler = HmacSampler(secret)
        self._database = database
        self._sink = sink
        self._sender = uuid.uuid4().hex
        self._deliveries = itertools.count(1)
        self._buffer: deque[Exchange] = deque()
        self._buffered_bytes = 0
        self._unwritten: Counter[tuple[str, str]] = Counter()
        self._full_batch = asyncio.Event()
        self._ending = asyncio.Event()
        self._writer: asyncio.Task[None] | None = None
        self._polled_at = -math.inf

    def reconfigure(self, config: SamplingConfig) -> None:
        """Decides by other rates from now on, lowered as those were; copies keep the probability they came with."""
        self.max_copy_bytes = config.max_copy_bytes
        self._strata = Strata(config)
        self._strata.scale(self._factor)
        self._capacity = config.buffer_exchanges
        self._max_backlog = config.max_backlog

    @property
    def pending(self) -> int:
        """Copies that wait to be written."""
        return len(self._buffer)

    @property
    def counts(self) -> dict[str, int]:
        """Requests of this process by outcome; "queued" ones are in the database."""
        totals: Counter[str] = Counter()
        for (_, outcome), count in self.outcomes.items():
            totals[outcome] += count
        return dict(totals)

    @property
    def pressure(self) -> float:
        """Factor on every rate: 1 while the buffer is at most half full, then halved with every further tenth."""
        fill = max(len(self._buffer) / self._capacity, self._buffered_bytes / BUFFER_BYTES)
        return 1.0 if fill <= 0.5 else 0.5 ** (int(10 * fill) - 4)

    @property
    def rates(self) -> dict[str, float]:
        """The rate that holds now, by stratum."""
        return {stratum: rate * self.pressure for stratum, rate in self._strata.rates.items()}

    def decide(
        self,
        *,
        request_id: str,
        eligible: bool,
        body: bytes,
        opt: str | None,
        may_opt: bool,
        tag: str | None,
        model: str | None = None,
        route: str = "",
    ) -> Sampled | None:
        if not eligible:
            verdict = _FILTERED
        elif may_opt and opt == "off":
            verdict = _OPTED_OUT
        elif may_opt and opt == "on":
            # Whoever asks to be audited has to wait as well: copies that the buffer cannot hold are lost at random.
            probability = self.pressure * self._factor
            if self._sampler.draw(request_id) < probability:
                return Sampled(OPTED_IN, probability)
            verdict = _OPTED_IN_OUT
        else:
            strata = self._strata
            drawn = self._sampler.draw(request_id)
            is_tagged = tag is not None and tag in strata.tags
            # Pressure only lowers rates: what is out at the largest one is out, whatever the buffer holds.
            pressure = self.pressure if drawn < strata.largest or is_tagged else 1.0
            if drawn >= strata.largest * pressure and not is_tagged:
                verdict = strata.sampled_out
            else:
                stratum = strata.of(body, tag, model, route)
                probability = strata.rates[stratum] * pressure
                if drawn < probability:
                    return Sampled(stratum, probability)
                verdict = (stratum, "sampled_out")
        self.outcomes[verdict] += 1
        self._unwritten[verdict] += 1
        return None

    def is_probe(self, request_id: str, mark: str, body: bytes) -> bool:
        return is_probe(self._secret, request_id, mark, body)

    def offer(self, exchange: Exchange) -> None:
        size = _size(exchange)
        if len(self._buffer) >= self._capacity or self._buffered_bytes + size > BUFFER_BYTES:
            self._count(exchange.stratum, "failed")
            return
        self._buffer.append(exchange)
        self._buffered_bytes += size
        if len(self._buffer) >= BATCH_EXCHANGES:
            self._full_batch.set()

    def drop(self, stratum: str, outcome: Literal["filtered", "truncated"]) -> None:
        self._count(stratum, outcome)

    async def start(self) -> None:
        """Begins to hand on what is offered."""
        self._writer = asyncio.create_task(self._write_until_stopped(), name="tap-writer")

    async def stop(self, timeout_seconds: float = 5.0) -> None:
        """Writes what is left. What the store does not take in time is counted as failed and logged."""
        self._ending.set()
        self._full_batch.set()
        if self._writer is not None:
            await asyncio.wait([self._writer], timeout=timeout_seconds)
            self._writer.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._writer
            await self._sink.close()
        lost = len(self._buffer)
        for exchange in self._buffer:
            self._count(exchange.stratum, "failed")
        self._buffer.clear()
        self._buffered_bytes = 0
        if lost:
            logger.error("%d sampled exchanges were lost: the store did not take them before the end", lost)

    def _count(self, stratum: str, outcome: str) -> None:
        self.outcomes[stratum, outcome] += 1
        self._unwritten[stratum, outcome] += 1

    async def _write_until_stopped(self) -> None:
        while not (self._ending.is_set() and not self._buffer and not self._unwritten):
            if not self._ending.is_set():
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._full_batch.wait(), BATCH_SECONDS)
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
        delivery = Delivery(self._sender, next(self._deliveries), time.time())
        queued = Counter((exchange.stratum, "queued") for exchange in batch)
        try:
            await self._retry_until_done(lambda: self._sink.write(batch, decided + queued, delivery))
        except Exception:  # a batch that can never be stored must not hold up those behind it
            logger.exception("%d sampled exchanges were refused by the store and are lost", len(batch))
            self._forget(batch)
            self._unwritten += decided
            for exchange in batch:
                self._count(exchange.stratum, "failed")
            return
        self._forget(batch)
        self.outcomes += queued

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
        with contextlib.suppress(StoreError):  # then nothing is written either, and the buffer's pressure speaks
            self.adapt_to_backlog(await exchanges.count_waiting(self._database, at_most=self._max_backlog + 1))

    def adapt_to_backlog(self, waiting: int) -> None:
        """Halves every rate while more exchanges wait than auditors should leave, and doubles it again once half do."""
        if waiting > self._max_backlog:
            factor = max(self._factor / 2, SMALLEST_FACTOR)
        elif waiting <= self._max_backlog / 2:
            factor = min(self._factor * 2, 1.0)
        else:
            return
        if factor != self._factor:
            amount = f"over {self._max_backlog}" if waiting > self._max_backlog else waiting
            logger.warning("%s exchanges wait for an audit: sampling at %g of the configured rates", amount, factor)
            self._factor = factor
            self._strata.scale(factor)

    def _forget(self, batch: list[Exchange]) -> None:
        for exchange in batch:
            self._buffer.popleft()
            self._buffered_bytes -= _size(exchange)

    async def _retry_until_done(self, write: Callable[[], Awaitable[None]]) -> None:
        """Tries until the store takes it; meanwhile copies pile up, and the pressure lowers the rate."""
        pause = BATCH_SECONDS
        while True:
            try:
                return await write()
            except StoreError as exc:
                logger.warning("sampled exchanges wait, %d so far: %s", len(self._buffer), exc)
            await asyncio.sleep(pause)
            pause = min(2 * pause, MAX_RETRY_SECONDS)


def _size(exchange: Exchange) -> int:
    return len(exchange.request_body) + len(exchange.response_body)
