"""The circuits of all auditors; the state is in the store, which the processes read every REFRESH_SECONDS."""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

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
from gateway.clock import WallClock
from gateway.health import circuit_text
from gateway.store import circuits
from gateway.store.circuits import Circuit, Key, WaitingAudit
from gateway.store.database import Database

logger = logging.getLogger(__name__)

REFRESH_SECONDS = 1.0
RETRY_SECONDS = 2.0
"""An audit that failed under a closed circuit is due again after this pause."""

Check = Callable[[Key, str | None], Awaitable[Attempt]]
"""Audits known good exchanges so that the server of the circuit is asked; of an upstream, for this model if it can."""


class Circuits:
    """Call `refresh` regularly; `attempt` before and `must_wait` after each audit; `aclose` at the end."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._check: Check | None = None
        self._open: Mapping[Key, Circuit] = {}
        self._runs: defaultdict[Key, FailureRun] = defaultdict(FailureRun)
        self._models: dict[Key, str] = {}
        """By circuit, the model of the last exchange for which the server gave anything usable."""
        self._checks: dict[Key, asyncio.Task[None]] = {}
        self._clock = WallClock()

    async def start(self, keys: Collection[Key], check: Check) -> None:
        """Takes over the stored circuits of these keys; `check` audits known good exchanges. Raises StoreError."""
        self._check = check
        await circuits.reset_at_start(self._database, keys)
        await self.refresh()

    async def refresh(self) -> None:
        """Reads which circuits are open. Raises StoreError."""
        self._open = {circuit.key: circuit for circuit in await circuits.open_circuits(self._database)}

    def problems(self) -> dict[str, str]:
        """Auditors that cannot reach a server of theirs, and what is the matter, for /readyz."""
        texts_by_auditor: dict[str, list[str]] = {}
        for circuit in self._open.values():
            texts_by_auditor.setdefault(circuit.auditor, []).append(text_of(circuit))
        return {auditor: "; ".join(texts) for auditor, texts in texts_by_auditor.items()}

    def attempt(self, auditor: str, exchange: Exchange, servers: Sequence[str]) -> Attempt:
        is_open = (server for server in servers if Key(auditor, server) in self._open)
        return Attempt(auditor, exchange.id, time.time(), blocked_by=next(is_open, None))

    async def must_wait(self, attempt: Attempt, model: str) -> bool:
        """Act on an audit with this served model; return whether a sick server makes it wait. Raises StoreError."""
        self._follow_clock()
        for server in attempt.sound:
            key = Key(attempt.auditor, server)
            self._models[key] = model
            await self._succeeded(key)
        if attempt.was_refused and attempt.blocked_by is not None:
            await self._hold_up(attempt, attempt.blocked_by)
            return True
        waits = [await self._failed(attempt, server, fault) for server, fault in attempt.sick.items()]
        return any(waits)

    async def check_open_circuits(self) -> None:
        """Begins to audit a known good exchange for each open circuit whose pause is over. Raises StoreError."""
        now = time.time()
        for key, circuit in self._open.items():
            is_due = circuit.is_due(now) and key not in self._checks
            if is_due and await circuits.claim_health_check(self._database, key):
                self._start_check(key)

    async def aclose(self) -> None:
        checks = list(self._checks.values())
        for check in checks:
            check.cancel()
        await asyncio.gather(*checks, return_exceptions=True)

    def _follow_clock(self) -> None:
        """Move the times of successes with the wall clock; set back, all failures would seem the exchange's own."""
        if jump := self._clock.jump():
            logger.warning("the clock of this machine jumped by %.0f s", jump)
            for run in self._runs.values():
                run.shift(jump)

    def _start_check(self, key: Key) -> None:
        if key not in self._checks:
            self._checks[key] = task = asyncio.create_task(self._check_server(key))
            task.add_done_callback(lambda _: self._checks.pop(key))

    async def _check_server(self, key: Key) -> None:
        if self._check is None:
            return
        try:
            model = self._models.get(key) or await circuits.model_waiting(self._database, key)
            attempt = await self._check(key, model)
            fault = attempt.sick.get(key.server)
            if key.server in attempt.sound:
                await self._succeeded(key)
            elif fault is not None:
                await self._is_sick(key, fault)
            elif not attempt.sick:  # a known good exchange does not make this auditor ask this server
                await self._decide_by_the_row(key)
        except Exception:  # a later check may do better
            logger.exception("%s: a known good exchange cannot be audited at %s", *key)

    async def _is_sick(self, key: Key, fault: Fault) -> None:
        await (self._stay_open(key, fault) if key in self._open else self._open_circuit(key, fault))

    async def _decide_by_the_row(self, key: Key) -> None:
        """Closes an open circuit, so that exchanges try the server; opens a closed one after failures in a row."""
        fault = self._runs[key].last_fault
        if key in self._open:
            await self._succeeded(key)
        elif fault is not None:
            await self._open_circuit(key, fault)

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
        """Return whether the exchange must wait; otherwise the failure is its own, and final."""
        key = Key(attempt.auditor, server)
        waiting = await circuits.waiting_audit(self._database, attempt.exchange_id, attempt.auditor)
        earlier = None if waiting is None else Earlier(waiting.own_failures, waiting.since, waiting.failed_at)
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
        await circuits.defer_audit(self._database, audit, retry_at=now + RETRY_SECONDS)
        if self._runs[key].is_too_long and key not in self._open:
            self._start_check(key)
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
        await circuits.defer_audit(self._database, audit, retry_at=now, keep_failures=True)

    async def _open_circuit(self, key: Key, fault: Fault) -> None:
        opened = await circuits.open_circuit(self._database, key, error=fault.words, pause_seconds=FIRST_PAUSE_SECONDS)
        if opened:
            logger.warning(
                "%s: circuit of %s open after %d failures in a row and one of a known good exchange, exchanges wait; "
                "last error: %s",
                *(key.auditor, key.server, FAILURES_TO_OPEN, fault.words),
            )
        await self.refresh()

    async def _stay_open(self, key: Key, fault: Fault) -> None:
        pause = next_pause(self._open[key].pause_seconds if key in self._open else FIRST_PAUSE_SECONDS)
        await circuits.postpone_health_check(self._database, key, error=fault.words, pause_seconds=pause)
        await self.refresh()


def text_of(circuit: Circuit) -> str:
    """One line for people: since when, what waits, what was wrong last."""
    return circuit_text(circuit.opened_at, circuit.n_waiting, f"{circuit.error} ({circuit.server})")
