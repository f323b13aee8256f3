"""Concurrency limiter of audit requests to a server, adjusted to the server's load and to the live requests there.
`backpressure.aimd` decides the limit; here are the waiters, the polls and the clock. A server is polled once a second
while audit requests are in flight or wait, and a moment longer to measure it without audits. Where a gateway on this
machine shows which live requests wait for their first byte (`LiveView`), that is looked at every LOOK_SECONDS: a wait
longer than usual makes audits give way at once, any wait brings the next poll forward. Where fewer may be in flight
than are, the newest are cut off (`backpressure.running`), and no audit starts before the server can have noticed.
"""

import asyncio
import contextlib
import logging
import math
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from auditors.clients.pacing import NEVER_SENT, Turn
from gateway.auditor.backpressure.aimd import POLL_SECONDS, AimdLimit, Reason, others_wait
from gateway.auditor.backpressure.latency_budget import LatencyBudget
from gateway.auditor.backpressure.running import Evictions, Running, Ticket
from gateway.auditor.backpressure.vllm_load import Load, LoadReader, LoadSource, LoadUnknownError
from gateway.config.schema import AuditsConfig
from gateway.proxy.live_waits import Waiting
from gateway.proxy.patience import Patience
from gateway.proxy.waits_board import LOOK_SECONDS, BoardReader


class Seen(NamedTuple):
    """Live requests without their first byte."""

    waiting: int
    """Number of requests that have waited for longer than a look: the server may be asked if it has a queue."""
    overdue: int
    """Number of requests of those kinds in which a request has waited for too long."""


class LiveView:
    """Looks at one server's part of the board."""

    def __init__(self, board: BoardReader, origin: str, *, clock: Callable[[], float] = time.perf_counter) -> None:
        """`origin` is the server's base URL without /v1, as the gateway's configuration has it."""
        self._board = board
        self._origin = origin
        self._clock = clock
        self._patience = Patience()

    def look(self, *, audits: int) -> Seen | None:
        """Return the waits seen now; None if no living gateway shows this server. `audits`: in flight there."""
        now = self._clock()
        waits = (self._board.read(now) or {}).get(self._origin)
        if waits is None:
            return None
        self._patience.update(waits, audits=audits, now=now)
        waiting = _since(waits.streams, now) + _since(waits.replies, now)
        return Seen(waiting, self._patience.overdue(waits, now))

    def audits_were_cut(self) -> None:
        """Whoever waits now is given time again."""
        self._patience.audits_were_cut(self._clock())


def _since(waiting: Waiting, now: float) -> int:
    return waiting.count if waiting.count and now - waiting.since >= LOOK_SECONDS else 0


logger = logging.getLogger(__name__)

IDLE_POLL_SECONDS = 10.0
"""After the last audit a server that counts tokens is polled for so long, to measure it without audits."""
URGENT_POLL_SECONDS = 0.1
"""Seconds between two polls while live requests wait along with audits,"""
POLLING_SHARE = 0.1
"""unless polling would then take more than this share of the time: a busy vLLM may need long to show its page."""


class ConcurrencyLimiter:
    """The `auditors.clients.pacing.Gate` of a single server; slots go to the requests that have waited longest."""

    def __init__(
        self,
        reader: LoadSource,
        settings: AuditsConfig,
        *,
        live: LiveView | None = None,
        poll_seconds: float = POLL_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Polls nothing until a request wants a slot; `live` is what a gateway shows of the server, if one does."""
        self._reader = reader
        self._limit = AimdLimit(
            max_kv_usage_ratio=settings.max_kv_usage_ratio, max_pause_seconds=settings.max_pause_seconds
        )
        self._latency = LatencyBudget(settings.live_latency_budget_ratio)
        self._live = live
        self._poll_seconds = poll_seconds
        self._clock = clock
        self._running = Running(clock)
        self._peak = 0
        self._waiters: deque[tuple[asyncio.Future[Ticket], Turn]] = deque()
        self._polling: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[None] | None = None
        self._has_polled = False
        self._poll_soon = asyncio.Event()
        self._polled_at = self._regular_at = -math.inf
        self._last_poll_seconds = 0.0
        self._idle_since = clock()
        self._held_since: float | None = None
        self._held_seconds = 0.0
        self._load: Load | None = None
        self._seconds_per_token: float | None = None

    @property
    def allowed(self) -> int:
        """Requests that may be in flight now; 0 while they are held back."""
        return int(self._limit.allowed)

    @property
    def in_flight(self) -> int:
        return len(self._running)

    @property
    def evictions(self) -> Evictions:
        return self._running.evictions

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
        self.widen(places)
        try:
            yield
        finally:
            self.widen(-places)

    def held_seconds(self) -> float:
        """Seconds that a request has waited here altogether: time that is not to be blamed on an audit."""
        return self._held_seconds + (0.0 if self._held_since is None else self._clock() - self._held_since)

    @asynccontextmanager
    async def slot(self, turn: Turn) -> AsyncIterator[None]:
        ticket = await self.acquire(turn)
        async with self.holding(ticket):
            yield

    @asynccontextmanager
    async def holding(self, ticket: Ticket) -> AsyncIterator[None]:
        """The time in a slot that was acquired; it is released at the end. Raises EvictedError when it was cut off."""
        try:
            async with ticket.until_evicted():
                yield
        finally:
            self.release(ticket)

    def on_overload(self) -> None:
        self._limit.on_overload(in_flight=self.in_flight, now=self._clock())

    async def aclose(self) -> None:
        if self._polling is not None:
            self._polling.cancel()
            await asyncio.gather(self._polling, return_exceptions=True)
        await self._reader.aclose()

    def try_acquire(self, turn: Turn) -> Ticket | None:
        """A slot if one is free now, which `release` or `holding` must give back."""
        if not self._has_polled or self._waiters or not self._may_send():
            return None
        return self._admit(turn)

    async def acquire(self, turn: Turn) -> Ticket:
        """Waits for a slot, as `try_acquire`. A CancelledError has NEVER_SENT as its argument."""
        if ticket := self.try_acquire(turn):
            return ticket
        waiter: asyncio.Future[Ticket] = asyncio.get_running_loop().create_future()
        if not self._waiters:
            self._held_since = self._clock()
            if not self.in_flight:
                self._idle_since = self._held_since
        entry = (waiter, turn)
        if turn.evictions:
            self._waiters.appendleft(entry)  # it had its turn before whoever waits
        else:
            self._waiters.append(entry)
        if self._polling is None:
            self._polling = asyncio.create_task(self._poll_regularly())
        try:
            return await waiter
        except asyncio.CancelledError as exc:
            if waiter.done() and not waiter.cancelled():  # admitted and cancelled at once
                self.release(waiter.result())
            else:
                with contextlib.suppress(ValueError):  # removed already
                    self._waiters.remove(entry)
                self._note_waiting()
            raise asyncio.CancelledError(NEVER_SENT) from exc

    def release(self, ticket: Ticket) -> None:
        self._running.remove(ticket)
        if not self.in_flight:
            self._idle_since = self._clock()
        if self._has_polled:
            self._admit_waiters()

    def _admit(self, turn: Turn) -> Ticket:
        is_let_through = self._limit.allowed < self._in_flight_there + 1 or self._latency.is_pausing
        ticket = self._running.add(turn, is_let_through=is_let_through)
        self._peak = max(self._peak, self.in_flight)
        return ticket

    def _admit_waiters(self) -> None:
        while self._waiters and self._may_send():
            waiter, turn = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(self._admit(turn))
        self._note_waiting()

    def _note_waiting(self) -> None:
        if not self._waiters and self._held_since is not None:
            self._held_seconds += self._clock() - self._held_since
            self._held_since = None

    @property
    def _in_flight_there(self) -> int:
        """Ours at the server, those among them that were cut off and may still run."""
        return self.in_flight + self._running.unconfirmed

    def _may_send(self) -> bool:
        idle_seconds = self._clock() - self._idle_since
        is_pausing = self._latency.is_pausing
        return self._limit.may_send(in_flight=self._in_flight_there, idle_seconds=idle_seconds, is_pausing=is_pausing)

    async def _poll_regularly(self) -> None:
        """Polls for as long as requests are in flight or wait; the first poll comes before the first request."""
        if self._live is not None:
            self._look(self._live)  # while none of ours is in flight: what live requests usually wait
            self._looking = asyncio.create_task(self._look_regularly(self._live))
        try:
            while self.in_flight or self._waiters or not self._limit.is_settled or self._polls_while_idle():
                await self._poll()
                self._has_polled = True
                self._admit_waiters()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._poll_soon.wait(), self._poll_seconds)
                self._poll_soon.clear()
        finally:
            self._has_polled = False
            self._polling = None
            if self._looking is not None:
                self._looking.cancel()
                self._looking = None

    async def _look_regularly(self, live: LiveView) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                self._look(live)
            except Exception:  # as in _poll
                logger.exception("looking at what live requests wait for failed")

    def _look(self, live: LiveView) -> None:
        """Give way to live requests that have waited for too long, and ask the server if any has waited at all."""
        seen = live.look(audits=self._in_flight_there)
        if seen is None:
            return
        if seen.overdue and not self._running.is_confirming:
            self._limit.on_live_waiting(in_flight=self.in_flight, waiting=seen.overdue)
            self._evict("live_waiting")
        now = self._clock()
        pause = max(URGENT_POLL_SECONDS, self._last_poll_seconds / POLLING_SHARE)
        if seen.waiting and self.in_flight and now - self._polled_at >= pause:
            self._poll_soon.set()

    def _evict(self, reason: Reason) -> None:
        if self._running.is_confirming:
            return
        ran = self._running.evict_newest(self.allowed, reason, seconds_per_token=self._seconds_per_token)
        if not ran:
            return
        if self._live is not None:
            self._live.audits_were_cut()
        self._held_seconds += ran  # no audit is to be blamed for the time that this took from it
        logger.info("%d audit requests may be in flight: newer ones are cut off (%s)", self.allowed, reason)

    def _polls_while_idle(self) -> bool:
        return self._latency.is_measurable and self._clock() - self._idle_since < IDLE_POLL_SECONDS

    async def _poll(self) -> None:
        self._polled_at = began = self._clock()
        try:
            load = await self._reader.poll()
        except LoadUnknownError as exc:
            logger.debug("load not known: %s", exc)
            return
        except Exception:  # polling must outlive its own bugs: without it audits would wait for ever
            logger.exception("load of a server not known")
            return
        finally:
            self._last_poll_seconds = self._clock() - began
        now = self._clock()
        self._running.polled(load, began=began)
        self._learn_pace(load)
        peak = max(self._peak, self._in_flight_there)  # what was cut off may be there yet
        if others_wait(load, peak):
            if self._running.is_confirming:
                return  # room is being made already
        elif now - self._regular_at < self._poll_seconds:
            return  # brought forward: calm is counted, and time between tokens compared, at the usual pace
        self._regular_at = began
        before, seen = self.allowed, {"in_flight": self.in_flight, "peak": peak}
        latency = self._latency.update(load, **seen, allowed=self._limit.allowed, now=now)
        affordable = self._latency.affordable_share
        reason = self._limit.update(load, **seen, now=now, latency=latency, affordable=affordable)
        if reason == "live_latency":
            logger.info(
                "audits slow live answers down to %.2f times their latency: fewer are sent", self._latency.ratio
            )
            self._latency.start_again()
        if reason is not None:
            self._evict(reason)
        self._peak = self.in_flight
        if before != self.allowed:
            logger.debug("%d audit requests may be in flight, %d before: %s", self.allowed, before, load)

    def _learn_pace(self, load: Load | None) -> None:
        before, self._load = self._load, load
        if load is not None and before is not None and load.tokens > before.tokens:
            self._seconds_per_token = (load.token_seconds - before.token_seconds) / (load.tokens - before.tokens)


class ConcurrencyLimiters:
    """The limiters of a single auditor process, a limiter for each server, for all auditors that send there."""

    def __init__(self, settings: AuditsConfig, metrics_dir: Path | None = None) -> None:
        """`metrics_dir`: where gateways of this machine show what waits."""
        self._settings = settings
        self._board = BoardReader(metrics_dir) if metrics_dir is not None else None
        self._by_origin: dict[str, ConcurrencyLimiter] = {}
        self._by_name: dict[str, ConcurrencyLimiter] = {}

    def of(self, origin: str, name: str, api_key: str | None = None) -> ConcurrencyLimiter | None:
        """The limiter of an origin (URL without /v1); None when switched off. Metrics show its first `name`."""
        if not self._settings.adaptive_concurrency:
            return None
        if origin not in self._by_origin:
            live = LiveView(self._board, origin) if self._board is not None else None
            self._by_origin[origin] = ConcurrencyLimiter(LoadReader(origin, api_key), self._settings, live=live)
            self._by_name[name] = self._by_origin[origin]
        return self._by_origin[origin]

    def allowed(self) -> Mapping[str, int]:
        """Name of each server to the requests that may be in flight there now."""
        return {name: limiter.allowed for name, limiter in self._by_name.items()}

    def live_latency_ratios(self) -> Mapping[str, float]:
        """Name of each server where it is known to `ConcurrencyLimiter.live_latency_ratio` there."""
        ratios = ((name, limiter.live_latency_ratio) for name, limiter in self._by_name.items())
        return {name: ratio for name, ratio in ratios if ratio is not None}

    def evictions(self) -> Mapping[str, Evictions]:
        """Name of each server to `ConcurrencyLimiter.evictions` there."""
        return {name: limiter.evictions for name, limiter in self._by_name.items()}

    async def aclose(self) -> None:
        for limiter in self._by_origin.values():
            await limiter.aclose()
        if self._board is not None:
            self._board.close()
