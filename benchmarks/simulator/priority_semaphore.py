"""A bounded number of requests answered at once; the rest wait, smallest priority number first, then by arrival."""

import asyncio
import heapq


class PrioritySemaphore:
    def __init__(self, limit: int) -> None:
        self._free = limit
        self._arrivals = 0
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []

    @property
    def free(self) -> int:
        return self._free

    async def acquire(self, priority: int) -> None:
        if self._free > 0:
            self._free -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._arrivals += 1
        heapq.heappush(self._waiting, (priority, self._arrivals, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release()  # the slot was handed over in the same moment
            raise

    def release(self) -> None:
        """Hands the slot to the next in line that still waits."""
        while self._waiting:
            _, _, turn = heapq.heappop(self._waiting)
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
