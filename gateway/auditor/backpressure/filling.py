"""Keeps a server full of requests of a single suite run, steered by vLLM's gauges and the time that requests take. More
requests in flight make larger batches, until they queue at the server. A run begins with one. Then, by what the server
says each second:
- its key-value cache is nearly full (then it throws running requests out and begins them again): a quarter fewer;
- more wait than an eighth of those that run: fewer by what waits beyond that eighth. So short a queue never runs dry;
- nothing waits and all that may be in flight is: twice as many, as long as the server holds no requests but ours;
- the server answers 429 or 503: half.
Where a server shows no such gauges, or holds requests of others, the time of a request decides, against that with one
in flight: twice as many, later one more, while it takes at most 1.4 times as long, and a quarter fewer above that. For
a run that asks a server directly; one next to live traffic gives way instead (`backpressure.aimd`).
"""

import asyncio
import contextlib
import math
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from statistics import median
from typing import Any

from auditors.clients.pacing import Turn
from gateway.auditor.backpressure.aimd import POLL_SECONDS
from gateway.auditor.backpressure.vllm_load import Load, LoadSource, LoadUnknownError

MOST_IN_FLIGHT = 256
"""Number of requests that a vLLM has in a batch unless told otherwise; each is a connection here."""
LEAST_IN_FLIGHT = 4
FULLEST_CACHE = 0.9
QUEUE_SHARE = 1 / 8
"""Share of the running requests that may wait."""
SLOWEST = 1.4
"""Time of a request that is put up with, as a multiple of that with one in flight: others wait about as long."""
LEAST_TIMED = 3
"""Requests whose median time is looked at; at a higher limit as many as it allows."""


class FillingLimit:
    """The rule alone: gauges and times in, a number of requests out."""

    def __init__(self, start: int = 1, most: int = MOST_IN_FLIGHT) -> None:
        self.allowed = min(start, most)
        self._most = most
        self._times = list[float]()
        self._alone = math.inf
        """Seconds of a request with nothing of ours beside it."""
        self._doubles = True
        self._is_timed = False
        """Whether times decide."""

    def on_reply(self, seconds: float, *, peak: int) -> None:
        """Take note of the time of a request that was sent under the present limit; `peak`: see `update`."""
        self._times.append(seconds)
        if len(self._times) < max(LEAST_TIMED, self.allowed):
            return
        usual = median(self._times)
        self._times.clear()
        self._alone = usual if self.allowed == 1 else min(usual, self._alone)
        if not self._is_timed:
            return
        if usual > SLOWEST * self._alone:
            self._doubles = False
            self.allowed = max(1, self.allowed * 3 // 4)
        elif peak >= self.allowed:
            self.allowed = min(2 * self.allowed if self._doubles else self.allowed + 1, self._most)

    def update(self, load: Load | None, *, peak: int) -> None:
        """Take note of a look at the server; `peak` is the most of ours in flight since the look before."""
        self._is_timed = load is None or load.running > peak
        if load is None:
            return
        beyond = load.waiting - load.running * QUEUE_SHARE
        if load.kv_usage > FULLEST_CACHE:
            self._lower(self.allowed - max(1, self.allowed // 4))
        elif beyond > 0:
            self._lower(self.allowed - max(1, int(beyond)))
        elif load.waiting == 0 and peak >= self.allowed and load.running <= peak:
            self.allowed = min(2 * self.allowed, self._most)

    def on_overload(self) -> None:
        self._lower(self.allowed // 2)

    def _lower(self, to: int) -> None:
        self.allowed = max(min(LEAST_IN_FLIGHT, self.allowed), to)


class FillingGate:
    """The `auditors.clients.pacing.Gate` of a run that asks a server directly."""

    def __init__(
        self,
        source: LoadSource,
        limit: FillingLimit,
        stop: asyncio.Event,
        stopped: Callable[[], Exception],
        *,
        poll_seconds: float = POLL_SECONDS,
    ) -> None:
        """Poll nothing until a request wants a slot. `stopped` makes the exception of requests that `stop` ends."""
        self._source = source
        self._limit = limit
        self._stop = stop
        self._stopped = stopped
        self._poll_seconds = poll_seconds
        self._in_flight = 0
        self._peak = 0
        self._waiters: deque[tuple[asyncio.Future[None], int]] = deque()
        self._polling: asyncio.Task[None] | None = None
        self._overloaded_at: float | None = None
        self._changed_at = 0.0
        """Time at which the limit was changed: requests sent before say nothing about it."""

    @property
    def allowed(self) -> int:
        """Replies that may be in flight now; the last request may go beyond by what it asks for besides one."""
        return self._limit.allowed

    @contextlib.asynccontextmanager
    async def slot(self, turn: Turn) -> AsyncIterator[None]:
        """See `auditors.clients.pacing.Gate`. Raises what `stopped` makes."""
        if self._polling is None:
            self._polling = asyncio.create_task(self._keep_polling())
        if self._waiters or self._in_flight >= self._limit.allowed:
            await self._wait(turn.replies)
        else:
            self._take(turn.replies)
        began = time.monotonic()
        try:
            if self._stop.is_set():
                raise self._stopped()
            yield
            if began >= self._changed_at:
                self._limit_by(self._limit.on_reply, time.monotonic() - began, peak=max(self._peak, self._in_flight))
        finally:
            self._give_back(turn.replies)

    def on_overload(self) -> None:
        """See `auditors.clients.pacing.Gate`. Answers of the same burst count once."""
        now = time.monotonic()
        if self._overloaded_at is None or now - self._overloaded_at >= self._poll_seconds:
            self._overloaded_at = now
            self._limit_by(self._limit.on_overload)

    def _limit_by(self, rule: Callable[..., None], *seen: Any, **about: int) -> None:
        before = self._limit.allowed
        rule(*seen, **about)
        if self._limit.allowed != before:
            self._changed_at = time.monotonic()

    async def aclose(self) -> None:
        if self._polling is not None:
            self._polling.cancel()
            await asyncio.gather(self._polling, return_exceptions=True)
        await self._source.aclose()

    async def _wait(self, replies: int) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append((waiter, replies))
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():  # it was admitted, and cancelled at once
                self._give_back(replies)
            raise

    def _take(self, replies: int) -> None:
        self._in_flight += replies
        self._peak = max(self._peak, self._in_flight)

    def _give_back(self, replies: int) -> None:
        self._in_flight -= replies
        self._admit()

    def _admit(self) -> None:
        while self._waiters and self._in_flight < self._limit.allowed:
            waiter, replies = self._waiters.popleft()
            if not waiter.done():
                self._take(replies)
                waiter.set_result(None)

    async def _keep_polling(self) -> None:
        while True:
            await asyncio.sleep(self._poll_seconds)
            peak, self._peak = self._peak, self._in_flight
            try:
                load = await self._source.poll()
            except LoadUnknownError:
                continue  # as many as before, until it says how it is
            self._limit_by(self._limit.update, load, peak=max(peak, self._peak))
            self._admit()
