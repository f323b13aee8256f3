"""The circuits of all auditors: which servers are sick, what waits for them, and when one exchange is tried.

The rule is `backpressure.circuit_breaker`'s; the state is in the store, so that a restart forgets nothing and several
auditor processes agree. What one process finds out the others know within REFRESH_SECONDS. Failures in a row are
counted by each process for itself.
"""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial

from auditors.types import Exchange
from gateway.auditor.backpressure.circuit_breaker import (
    FAILURES_TO_OPEN,
    FIRST_PAUSE_SECONDS,
    Attempt,
    Earlier,
    FailureRun,
    Fault,
    next_pause,
)
from gateway.store import circuits
from gateway.store.circuits import Circuit, Key, WaitingAudit
from gateway.store.database import Database
from gateway.telemetry.health import circuit_text

logger = logging.getLogger(__name__)

REFRESH_SECONDS = 1.0
RETRY_SECONDS = 2.0
"""An audit that failed under a closed circuit is due again after this pause."""

Try = Callable[[str, Key], Awaitable[None]]
"""Audits the exchange of this id, also by this open circuit."""


class Circuits:
    """Call `refresh` regularly; `attempt` before and `must_wait` after each audit; `aclose` at the end."""

    def __init__(self, database: Database) -> None:
        """Knows of no open circuit until `refresh`."""
        self._database = database
        self._open: Mapping[Key, Circuit] = {}
        self._runs: defaultdict[Key, FailureRun] = defaultdict(FailureRun)
        self._trials: dict[Key, asyncio.Task[None]] = {}

    async def start(self, known: Collection[Key]) -> None:
        """Takes over what the store has about the circuits that there may be here."""
        await circuits.adopt(self._database, known)
        await self.refresh()

    async def refresh(self) -> None:
        """Reads which circuits are open. Raises StoreError."""
        self._open = {one.key: one for one in await circuits.open_circuits(self._database)}

    def problems(self) -> dict[str, str]:
        """Auditors that cannot reach a server of theirs, and what is the matter, for /readyz."""
        found: dict[str, list[str]] = {}
        for one in self._open.values():
            found.setdefault(one.auditor, []).append(text_of(one))
        return {auditor: "; ".join(texts) for auditor, texts in found.items()}

    def attempt(self, auditor: str, exchange: Exchange, servers: Sequence[str], tries: Key | None = None) -> Attempt:
        """An audit that begins now.

        Args:
            auditor: its name.
            exchange: what it audits.
            servers: which it may ask.
            tries: an open circuit that is tried with this exchange.
        """
        tried = tries.server if tries is not None and tries.auditor == auditor else None
        is_open = (one for one in servers if one != tried and Key(auditor, one) in self._open)
        return Attempt(auditor, exchange.id, time.time(), blocked_by=next(is_open, None), tries=tried)

    async def must_wait(self, attempt: Attempt) -> bool:
        """Draws the consequences of an audit that has ended. Raises StoreError.

        Returns: whether its result must not be recorded, because a server was sick: the exchange waits then.
        """
        for server in attempt.sound:
            await self._succeeded(Key(attempt.auditor, server))
        if attempt.was_refused and attempt.blocked_by is not None:
            await self._hold_up(attempt, attempt.blocked_by)
            return True
        waits = [await self._failed(attempt, server, fault) for server, fault in attempt.sick.items()]
        return any(waits)

    async def try_open_circuits(self, audit: Try) -> None:
        """Begins to try each open circuit whose pause is over, with one exchange that waits for it."""
        now = time.time()
        for key, circuit in self._open.items():
            if circuit.probe_at > now or key in self._trials:
                continue
            exchange_id = await circuits.to_try(self._database, key)
            if exchange_id is not None and await circuits.claim_probe(self._database, key):
                trial = asyncio.create_task(self._try(audit, exchange_id, key))
                self._trials[key] = trial
                trial.add_done_callback(partial(self._tried, key))

    async def aclose(self) -> None:
        """Ends what is being tried."""
        trials = list(self._trials.values())
        for trial in trials:
            trial.cancel()
        await asyncio.gather(*trials, return_exceptions=True)

    def _tried(self, key: Key, _: asyncio.Task[None]) -> None:
        del self._trials[key]

    async def _try(self, audit: Try, exchange_id: str, key: Key) -> None:
        try:
            await audit(exchange_id, key)
        except Exception:  # a later trial may do better
            logger.exception("%s: the open circuit of %s cannot be tried", *key)

    async def _succeeded(self, key: Key) -> None:
        self._runs[key].succeed(time.time())
        if key in self._open and (closed := await circuits.close_circuit(self._database, key)) is not None:
            opened_at, n_waiting = closed
            seconds = time.time() - opened_at
            logger.warning(
                "%s: circuit of %s closed after %.0f s, %d exchanges go on", key.auditor, key.server, seconds, n_waiting
            )
            await self.refresh()
            self._runs[key].succeed(time.time())  # later than what waited is due again: that it is well is known

    async def _failed(self, attempt: Attempt, server: str, fault: Fault) -> bool:
        """Whether the exchange must wait; otherwise the failure is its own, and final."""
        key = Key(attempt.auditor, server)
        known = await circuits.waiting_audit(self._database, attempt.exchange_id, attempt.auditor)
        earlier = None if known is None else Earlier(known.own_failures, known.since, known.failed_at)
        own_failures = self._runs[key].fail(fault, attempt.began_at, earlier)
        if own_failures is None:
            return False
        now = time.time()
        audit = WaitingAudit(
            exchange_id=attempt.exchange_id,
            auditor=attempt.auditor,
            server=server,
            error=fault.words,
            own_failures=own_failures,
            since=attempt.began_at,
            failed_at=now,
        )
        await circuits.wait(self._database, audit, retry_at=now + RETRY_SECONDS)
        if attempt.tries == server:
            await self._stay_open(key, fault)
        elif self._runs[key].is_too_long and key not in self._open:
            await self._open_circuit(key, fault)
        return True

    async def _hold_up(self, attempt: Attempt, server: str) -> None:
        now, circuit = time.time(), self._open.get(Key(attempt.auditor, server))
        audit = WaitingAudit(
            exchange_id=attempt.exchange_id,
            auditor=attempt.auditor,
            server=server,
            error=circuit.error if circuit is not None else "its circuit was open",
            own_failures=0,
            since=now,
            failed_at=None,
        )
        await circuits.wait(self._database, audit, retry_at=now, keep_failures=True)

    async def _open_circuit(self, key: Key, fault: Fault) -> None:
        opened = await circuits.open_circuit(self._database, key, error=fault.words, pause_seconds=FIRST_PAUSE_SECONDS)
        if opened:
            logger.warning(
                "%s: circuit of %s open after %d failures in a row, exchanges wait; last error: %s",
                *(key.auditor, key.server, FAILURES_TO_OPEN, fault.words),
            )
        await self.refresh()

    async def _stay_open(self, key: Key, fault: Fault) -> None:
        pause = next_pause(self._open[key].pause_seconds if key in self._open else FIRST_PAUSE_SECONDS)
        await circuits.postpone_probe(self._database, key, error=fault.words, pause_seconds=pause)
        await self.refresh()


def text_of(circuit: Circuit) -> str:
    """One line for people: since when, what waits, what was wrong last."""
    return circuit_text(circuit.opened_at, circuit.n_waiting, f"{circuit.error} ({circuit.server})")
