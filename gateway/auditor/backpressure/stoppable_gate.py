"""A server's limiter as one suite run sees it: a request that waits for a slot when the run is stopped is not sent."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from auditors.clients.pacing import Turn
from gateway.auditor.backpressure.limiter import ConcurrencyLimiter
from gateway.auditor.backpressure.running import Ticket


class StoppableGate:
    """The `auditors.clients.pacing.Gate` of a single run."""

    def __init__(self, limiter: ConcurrencyLimiter, stop: asyncio.Event, stopped: Callable[[], Exception]) -> None:
        """`stopped` makes what a request is ended with that waits when `stop` is set."""
        self._limiter = limiter
        self._stop = stop
        self._stopped = stopped

    @asynccontextmanager
    async def slot(self, turn: Turn) -> AsyncIterator[None]:
        """See `auditors.clients.pacing.Gate`. Raises what `stopped` makes."""
        if turn.evictions and self._stop.is_set():
            raise self._stopped()
        ticket = self._limiter.try_acquire(turn) or await self._acquire_unless_stopped(turn)
        async with self._limiter.holding(ticket):
            yield

    def on_overload(self) -> None:
        self._limiter.on_overload()

    async def _acquire_unless_stopped(self, turn: Turn) -> Ticket:
        acquiring = asyncio.create_task(self._limiter.acquire(turn))
        stopping = asyncio.create_task(self._stop.wait())
        is_acquired = False
        try:
            await asyncio.wait({acquiring, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not acquiring.done():
                raise self._stopped()
            is_acquired = True
            return acquiring.result()
        finally:
            stopping.cancel()
            if not is_acquired and not acquiring.cancel():  # cancelled although it had its slot by now
                self._limiter.release(acquiring.result())
