"""The audit requests in flight at a single server, which of them are cut off, and when the server has noticed. The
newest are cut off first: they cost least to repeat. Two are left alone, though never more than one at a time: what was
let through after a pause although live requests wait, and what has been cut off MOST_EVICTIONS times.
"""

import asyncio
import math
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from auditors.clients.pacing import EvictedError, Turn
from gateway.auditor.backpressure.vllm_load import Load
from gateway.proxy.wasted_tokens import wasted_tokens

MOST_EVICTIONS = 3
CONFIRMED_WITHIN_SECONDS = 0.5
"""Seconds within which a server has ended the requests that were cut off, or will not: more may be cut off."""
FORGOTTEN_AFTER_SECONDS = 2.0
"""Seconds after which requests that were cut off count as gone: live requests have taken their place."""

EVICTED, WASTED = "audits_evicted", "audit_tokens_wasted"

Evictions = Counter[tuple[str, str]]
"""(EVICTED, reason) to requests, (WASTED, kind of token) to tokens."""


class Ticket:
    """The slot of a single attempt."""

    def __init__(self, turn: Turn, *, sent_at: float, is_spared: bool) -> None:
        self.turn = turn
        self.sent_at = sent_at
        self.is_spared = is_spared
        """It is not cut off."""
        self._is_evicted = False
        self._limit: asyncio.Timeout | None = None

    def evict(self) -> None:
        """Cuts the attempt off, whose connection is closed with it."""
        self._is_evicted = True
        self.turn.evictions += 1
        if self._limit is not None:
            self._limit.reschedule(asyncio.get_running_loop().time())

    @asynccontextmanager
    async def until_evicted(self) -> AsyncIterator[None]:
        """The time of the attempt. Raises EvictedError when it was cut off."""
        if self._is_evicted:
            raise EvictedError
        try:
            async with asyncio.timeout(None) as limit:
                self._limit = limit
                yield
        except TimeoutError:
            if limit.expired():
                raise EvictedError from None
            raise
        finally:
            self._limit = None


class Running:
    """Tickets in the order of their sending. Times are seconds of `clock`."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.evictions: Evictions = Counter()
        """Since the start."""
        self._clock = clock
        self._tickets: dict[Ticket, None] = {}
        self._closing: set[Ticket] = set()
        """Cut off, with a connection that is not closed yet."""
        self._closed = 0
        """Cut off and closed; the server has not shown that they are gone."""
        self._closed_at = self._evicted_at = -math.inf
        self._held = math.inf
        """Requests at the server, ours and others', as it last said; infinite where it says nothing."""

    def __len__(self) -> int:
        return len(self._tickets)

    @property
    def unconfirmed(self) -> int:
        """Cut off, and perhaps still running at the server."""
        if self._clock() - self._evicted_at >= FORGOTTEN_AFTER_SECONDS:
            return len(self._closing)
        return len(self._closing) + self._closed

    @property
    def is_confirming(self) -> bool:
        """Return whether requests that were cut off may yet make room: nothing more should be cut off."""
        return self.unconfirmed > 0 and self._clock() - self._evicted_at < CONFIRMED_WITHIN_SECONDS

    def add(self, turn: Turn, *, is_let_through: bool) -> Ticket:
        """One more is sent. `is_let_through`: although none should be."""
        is_due = is_let_through or turn.evictions >= MOST_EVICTIONS
        is_spared = is_due and not any(ticket.is_spared for ticket in self._tickets)
        ticket = Ticket(turn, sent_at=self._clock(), is_spared=is_spared)
        self._tickets[ticket] = None
        return ticket

    def remove(self, ticket: Ticket) -> None:
        """Its attempt has ended, in whatever way."""
        if ticket in self._closing:
            self._closing.remove(ticket)
            self._closed += 1
            self._closed_at = self._clock()
        else:
            del self._tickets[ticket]

    def evict_newest(self, keep: int, reason: str, *, seconds_per_token: float | None) -> float:
        """Cut off the newest until `keep` and the spared are left. Returns the oldest's time, 0 without any."""
        now, excess = self._clock(), max(0, len(self._tickets) - keep)
        chosen = [ticket for ticket in reversed(self._tickets) if not ticket.is_spared][:excess]
        if not chosen:
            return 0.0
        self._closed = self.unconfirmed - len(self._closing)
        self._evicted_at = now
        for ticket in chosen:
            del self._tickets[ticket]
            self._closing.add(ticket)
            ticket.evict()
            wasted = wasted_tokens(ticket.turn.body, now - ticket.sent_at, seconds_per_token)
            self.evictions[EVICTED, reason] += 1
            self.evictions[WASTED, "prompt"] += wasted.prompt
            self.evictions[WASTED, "generation"] += wasted.generation
        return now - chosen[-1].sent_at

    def polled(self, load: Load | None, *, began: float) -> None:
        """The server was asked, and this is what it holds: without those that were cut off, or as before."""
        held = math.inf if load is None else load.running + load.waiting
        is_known = not self._closing and began >= self._closed_at
        if self.unconfirmed and is_known and (load is None or held <= self._held - self._closed):
            self._closed = 0
        if not self.unconfirmed:
            self._held = held
