"""Concurrency limiter of audit requests to a server, adjusted to the server's load, which is polled each second.

The limit is decided by `backpressure.aimd`; here are the waiters, the polls and the clock. A server is polled for as
long as audit requests are in flight or wait, and a moment longer to measure it without audits.
"""

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager

from auditors.clients.pacing import NEVER_SENT
from gateway.auditor.backpressure.aimd import POLL_SECONDS, AimdLimit
from gateway.auditor.backpressure.latency_budget import LatencyBudget
from gateway.auditor.backpressure.vllm_load import LoadReader, LoadUnknownError
from gateway.config.schema import AuditsConfig

logger = logging.getLogger(__name__)

IDLE_POLL_SECONDS = 10.0
"""After the last audit a server that counts tokens is polled for so long, to measure it without audits."""


class ConcurrencyLimiter:
    """The `auditors.clients.pacing.Gate` of one server; slots go to the requests that have waited longest."""

    def __init__(
        self,
        reader: LoadReader,
        settings: AuditsConfig,
        *,
        poll_seconds: float = POLL_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Polls nothing until a request wants a slot."""
        self._reader = reader
        self._limit = AimdLimit(
            max_kv_usage_ratio=settings.max_kv_usage_ratio, max_pause_seconds=settings.max_pause_seconds
        )
        self._latency = LatencyBudget(settings.live_latency_budget_ratio)
        self._poll_seconds = poll_seconds
        self._clock = clock
        self._in_flight = 0
        self._peak = 0
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._polling: asyncio.Task[None] | None = None
        self._has_polled = False
        self._idle_since = clock()
        self._held_since: float | None = None
        self._held_seconds = 0.0

    @property
    def allowed(self) -> int:
        """Requests that may be in flight now; 0 while they are held back."""
        return int(self._limit.allowed)

    @property
    def in_flight(self) -> int:
        return self._in_flight

    @property
    def live_latency_ratio(self) -> float | None:
        """Time between tokens of answers with audits in flight, in times of that without, as last known."""
        return self._latency.ratio

    def widen(self, places: int) -> None:
        """One more sender, with so many requests at once at most; negative when it ends."""
        self._limit.widen(places)
        self._admit_waiters()

    @contextlib.contextmanager
    def widened(self, places: int) -> Iterator[None]:
        """`widen` for as long as the block."""
        self.widen(places)
        try:
            yield
        finally:
            self.widen(-places)

    def held_seconds(self) -> float:
        """How long, altogether, a request has waited here: time that no audit is to be blamed for."""
        return self._held_seconds + (0.0 if self._held_since is None else self._clock() - self._held_since)

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """See `auditors.clients.pacing.Gate`."""
        await self.acquire()
        try:
            yield
        finally:
            self.release()

    def on_overload(self) -> None:
        """See `auditors.clients.pacing.Gate`."""
        self._limit.on_overload(in_flight=self._in_flight, now=self._clock())

    async def aclose(self) -> None:
        """Stops polling; no request may wait any more."""
        if self._polling is not None:
            self._polling.cancel()
            await asyncio.gather(self._polling, return_exceptions=True)
        await self._reader.aclose()

    def try_acquire(self) -> bool:
        """Takes a slot if one is free now; `release` must follow."""
        if not self._has_polled or self._waiters or not self._may_send():
            return False
        self._count(1)
        return True

    async def acquire(self) -> None:
        """Waits for a slot; `release` must follow. A CancelledError has NEVER_SENT as its argument."""
        if self.try_acquire():
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if not self._waiters:
            self._held_since = self._clock()
            if not self._in_flight:
                self._idle_since = self._held_since
        self._waiters.append(waiter)
        if self._polling is None:
            self._polling = asyncio.create_task(self._poll_regularly())
        try:
            await waiter
        except asyncio.CancelledError as exc:
            if waiter.done() and not waiter.cancelled():  # admitted and cancelled at once
                self.release()
            else:
                with contextlib.suppress(ValueError):  # removed already
                    self._waiters.remove(waiter)
                self._note_waiting()
            raise asyncio.CancelledError(NEVER_SENT) from exc

    def release(self) -> None:
        """Gives a slot back."""
        self._count(-1)
        if not self._in_flight:
            self._idle_since = self._clock()
        if self._has_polled:
            self._admit_waiters()

    def _admit_waiters(self) -> None:
        while self._waiters and self._may_send():
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                self._count(1)
        self._note_waiting()

    def _note_waiting(self) -> None:
        if not self._waiters and self._held_since is not None:
            self._held_seconds += self._clock() - self._held_since
            self._held_since = None

    def _may_send(self) -> bool:
        idle_seconds = self._clock() - self._idle_since
        is_pausing = self._latency.is_pausing
        return self._limit.may_send(in_flight=self._in_flight, idle_seconds=idle_seconds, is_pausing=is_pausing)

    def _count(self, change: int) -> None:
        self._in_flight += change
        self._peak = max(self._peak, self._in_flight)

    async def _poll_regularly(self) -> None:
        """Polls for as long as requests are in flight or wait; the first poll comes before the first request."""
        try:
            while self._in_flight or self._waiters or not self._limit.is_settled or self._polls_while_idle():
                await self._poll()
                self._has_polled = True
                self._admit_waiters()
                await asyncio.sleep(self._poll_seconds)
        finally:
            self._has_polled = False
            self._polling = None

    def _polls_while_idle(self) -> bool:
        return self._latency.is_measurable and self._clock() - self._idle_since < IDLE_POLL_SECONDS

    async def _poll(self) -> None:
        try:
            load = await self._reader.poll()
        except LoadUnknownError as exc:
            logger.debug("load not known: %s", exc)
            return
        except Exception:  # polling must outlive its own bugs: without it audits would wait for ever
            logger.exception("load of a server not known")
            return
        before, seen = self.allowed, {"in_flight": self._in_flight, "peak": self._peak}
        now = self._clock()
        latency = self._latency.update(load, **seen, allowed=self._limit.allowed, now=now)
        affordable = self._latency.affordable_share
        if self._limit.update(load, **seen, now=now, latency=latency, affordable=affordable):
            logger.info(
                "audits slow live answers down to %.2f times their latency: fewer are sent", self._latency.ratio
            )
            self._latency.start_again()
        self._peak = self._in_flight
        if before != self.allowed:
            logger.debug("%d audit requests may be in flight, %d before: %s", self.allowed, before, load)


class ConcurrencyLimiters:
    """The limiters of one auditor process, one for each server, whichever auditors send there."""

    def __init__(self, settings: AuditsConfig) -> None:
        self._settings = settings
        self._by_origin: dict[str, ConcurrencyLimiter] = {}
        self._names: dict[str, str] = {}

    def of(self, origin: str, name: str, api_key: str | None = None) -> ConcurrencyLimiter | None:
        """The limiter of a server, made when first asked for; None when `audits.adaptive_concurrency` is off.

        Args:
            origin: base URL without /v1.
            name: what to call it in the metrics; the first name of an origin stays.
            api_key: of that server.
        """
        if not self._settings.adaptive_concurrency:
            return None
        if origin not in self._by_origin:
            self._by_origin[origin] = ConcurrencyLimiter(LoadReader(origin, api_key), self._settings)
            self._names[name] = origin
        return self._by_origin[origin]

    def allowed(self) -> Mapping[str, int]:
        """Name of each server to the requests that may be in flight there now."""
        return {name: self._by_origin[origin].allowed for name, origin in self._names.items()}

    def live_latency_ratios(self) -> Mapping[str, float]:
        """Name of each server where it is known to `ConcurrencyLimiter.live_latency_ratio` there."""
        found = {name: self._by_origin[origin].live_latency_ratio for name, origin in self._names.items()}
        return {name: ratio for name, ratio in found.items() if ratio is not None}

    async def aclose(self) -> None:
        """Closes every limiter."""
        for limiter in self._by_origin.values():
            await limiter.aclose()
