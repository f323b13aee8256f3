"""Slots that are shared fairly between keys: exchanges of a key that take long do not hold up those of another."""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class FairSlots:
    """A semaphore whose free slots go to the key with the fewest, then the longest unserved; no key takes the last."""

    def __init__(self, n_slots: int, *, are_shared: bool) -> None:
        self._n_free = n_slots
        self._most_of_a_key = n_slots - 1 if are_shared and n_slots > 1 else n_slots
        self._held = Counter[str | None]()
        self._waiting: OrderedDict[str | None, deque[asyncio.Future[None]]] = OrderedDict()

    @asynccontextmanager
    async def slot(self, key: str | None) -> AsyncIterator[None]:
        """Holds a slot for an exchange of this key; waits for one."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, deque()).append(turn)
        self._hand_out()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._give_back(key)
            raise
        try:
            yield
        finally:
            self._give_back(key)

    def _give_back(self, key: str | None) -> None:
        self._n_free += 1
        self._held[key] -= 1
        if not self._held[key]:
            del self._held[key]
        self._hand_out()

    def _hand_out(self) -> None:
        while self._n_free:
            able = [key for key in self._waiting if self._held[key] < self._most_of_a_key]
            if not able:
                return
            key = min(able, key=lambda key: self._held[key])  # the first of equals
            turns = self._waiting.pop(key)
            turn = turns.popleft()
            if turns:
                self._waiting[key] = turns  # behind the others
            if not turn.cancelled():
                turn.set_result(None)
                self._n_free -= 1
                self._held[key] += 1
