"""The gate before a server: how many audit requests may be in flight there, looked at once a second.

What is allowed is decided by `gateway.auditing.giving_way`; here are those who wait, the looks, and the clock. A server
is looked at for as long as somebody sends or is held back, and a moment longer to know it without audits.
"""

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager

from auditors.pacing import NEVER_SENT
from gateway.auditing.giving_way import LOOK_SECONDS, Controller
from gateway.auditing.live_latency import LiveLatency
from gateway.auditing.server_load import LoadReader, LoadUnknownError
from gateway.config import AuditsConfig

logger = logging.getLogger(__name__)

LINGER_SECONDS = 10.0
"""After the last audit a server that counts tokens is looked at for so long, to know it without audits."""


class Allowance:
    """The gate (`auditors.pacing.Gate`) before one server; first come, first served."""

    def __init__(
        self,
        reader: LoadReader,
        settings: AuditsConfig,
        *,
        look_seconds: float = LOOK_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Looks at nothing until somebody wants to send."""
        self._reader = reader
        self._controller = Controller(
            max_kv_usage_ratio=settings.max_kv_usage_ratio, max_pause_seconds=settings.max_pause_seconds
        )
        self._latency = LiveLatency(settings.live_latency_budget_ratio)
        self._look_seconds = look_seconds
        self._clock = clock
        self._in_flight = 0
        self._peak = 0
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._watching: asyncio.Task[None] | None = None
        self._has_looked = False
        self._idle_since = clock()
        self._held_since: float | None = None
        self._held_seconds = 0.0

    @property
    def allowed(self) -> int:
        """Requests that may be in flight now; 0 while they are held back."""
        return int(self._controller.allowed)

    @property
    def in_flight(self) -> int:
        return self._in_flight

    @property
    def live_latency_ratio(self) -> float | None:
        """Time between tokens of answers with audits in flight, in times of that without, as last known."""
        return self._latency.ratio

    def widen(self, places: int) -> None:
        """Somebody else sends here from now on, so many requests at once at most; negative when it ends."""
        self._controller.widen(places)
        self._let_through()

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
    async def turn(self) -> AsyncIterator[None]:
        """See `auditors.pacing.Gate`."""
        await self.enter()
        try:
            yield
        finally:
            self.leave()

    def turned_away(self) -> None:
        """See `auditors.pacing.Gate`."""
        self._controller.turned_away(in_flight=self._in_flight, now=self._clock())

    async def aclose(self) -> None:
        """Stops looking; nobody may wait any more."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        await self._reader.aclose()

    def try_enter(self) -> bool:
        """Takes a turn if there is one now; `leave` must follow."""
        if not self._has_looked or self._waiters or not self._may_send():
            return False
        self._count(1)
        return True

    async def enter(self) -> None:
        """Waits for a turn; `leave` must follow. A CancelledError says NEVER_SENT."""
        if self.try_enter():
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if not self._waiters:
            self._held_since = self._clock()
            if not self._in_flight:
                self._idle_since = self._held_since
        self._waiters.append(waiter)
        if self._watching is None:
            self._watching = asyncio.create_task(self._watch())
        try:
            await waiter
        except asyncio.CancelledError as exc:
            if waiter.done() and not waiter.cancelled():  # let through and called off at once
                self.leave()
            else:
                with contextlib.suppress(ValueError):  # passed over already
                    self._waiters.remove(waiter)
                self._note_waiting()
            raise asyncio.CancelledError(NEVER_SENT) from exc

    def leave(self) -> None:
        """A turn is over."""
        self._count(-1)
        if not self._in_flight:
            self._idle_since = self._clock()
        if self._has_looked:
            self._let_through()

    def _let_through(self) -> None:
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
        return self._controller.may_send(in_flight=self._in_flight, idle_seconds=idle_seconds, is_pausing=is_pausing)

    def _count(self, change: int) -> None:
        self._in_flight += change
        self._peak = max(self._peak, self._in_flight)

    async def _watch(self) -> None:
        """Looks for as long as somebody sends or is held back; the first look comes before the first request."""
        try:
            while self._in_flight or self._waiters or not self._controller.is_settled or self._lingers():
                await self._look()
                self._has_looked = True
                self._let_through()
                await asyncio.sleep(self._look_seconds)
        finally:
            self._has_looked = False
            self._watching = None

    def _lingers(self) -> bool:
        return self._latency.is_measurable and self._clock() - self._idle_since < LINGER_SECONDS

    async def _look(self) -> None:
        try:
            load = await self._reader.read()
        except LoadUnknownError as exc:
            logger.debug("load not known: %s", exc)
            return
        except Exception:  # the watch must outlive its own bugs: without it audits would wait for ever
            logger.exception("load of a server not known")
            return
        before, seen = self.allowed, {"in_flight": self._in_flight, "peak": self._peak}
        now = self._clock()
        latency = self._latency.look(load, **seen, allowed=self._controller.allowed, now=now)
        affordable = self._latency.affordable_share
        if self._controller.look(load, **seen, now=now, latency=latency, affordable=affordable):
            logger.info(
                "audits slow live answers down to %.2f times their latency: fewer are sent", self._latency.ratio
            )
            self._latency.start_again()
        self._peak = self._in_flight
        if before != self.allowed:
            logger.debug("%d audit requests may be in flight, %d before: %s", self.allowed, before, load)


class Allowances:
    """The gates of one auditor process, one for each server, whoever sends there."""

    def __init__(self, settings: AuditsConfig) -> None:
        self._settings = settings
        self._by_origin: dict[str, Allowance] = {}
        self._names: dict[str, str] = {}

    def of(self, origin: str, name: str, api_key: str | None = None) -> Allowance | None:
        """The gate before a server, made when first asked for; None when `audits.adaptive_concurrency` is off.

        Args:
            origin: base URL without /v1.
            name: what to call it in the metrics; the first name of an origin stays.
            api_key: of that server.
        """
        if not self._settings.adaptive_concurrency:
            return None
        if origin not in self._by_origin:
            self._by_origin[origin] = Allowance(LoadReader(origin, api_key), self._settings)
            self._names[name] = origin
        return self._by_origin[origin]

    def allowed(self) -> Mapping[str, int]:
        """Name of each server to the requests that may be in flight there now."""
        return {name: self._by_origin[origin].allowed for name, origin in self._names.items()}

    def live_latency_ratios(self) -> Mapping[str, float]:
        """Name of each server where it is known to `Allowance.live_latency_ratio` there."""
        found = {name: self._by_origin[origin].live_latency_ratio for name, origin in self._names.items()}
        return {name: ratio for name, ratio in found.items() if ratio is not None}

    async def aclose(self) -> None:
        """Closes every gate."""
        for allowance in self._by_origin.values():
            await allowance.aclose()
