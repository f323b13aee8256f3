"""Clients at work: each carries out one plan after the other and enters what it saw into the books."""

import asyncio
import time
from dataclasses import dataclass, field

from gateway.proxy.types import EndReason
from tools.soak.accounts import Accounts
from tools.soak.client import Connection, Sight
from tools.soak.front import Front, was_dropped
from tools.soak.system import LIMIT_SECONDS
from tools.soak.traffic import Plan, Traffic

PATIENCE_SECONDS = 90.0
"""No exchange may take longer, whatever happens to it: a hang is an end that nobody can explain."""
ABORT_SECONDS = 10.0
"""A departure must have reached the upstream by then, on a machine busy with the soak itself and more."""

TIE_SECONDS = 1.0
"""Around a time limit: whether it or the upstream's going came first cannot be seen from outside."""


@dataclass
class Restarts:
    """When upstreams were away: (from, until) on time.monotonic()'s clock; the last may still be open."""

    windows: list[tuple[float, float]] = field(default_factory=list)
    AFTERWARDS_SECONDS = 3.0
    """A gateway finds out about the return with its next health check."""

    def overlap(self, start: float, end: float) -> bool:
        return any(gone < end and start < back + self.AFTERWARDS_SECONDS for gone, back in self.windows)


class Driver:
    """Runs plans against the gateway on `port` until told to stop."""

    def __init__(
        self,
        port: int,
        fronts: list[Front],
        traffic: Traffic,
        accounts: Accounts,
        restarts: Restarts,
    ) -> None:
        self._port = port
        self._fronts = fronts
        self._traffic = traffic
        self._accounts = accounts
        self._restarts = restarts
        self.different: list[str] = []
        """Whole answers whose bytes are not those that the upstream sent."""
        self.repeated: list[str] = []
        """Requests that reached upstreams more often than they may."""
        self.abort_seconds: list[float] = []
        """From a client's departure to the close of its upstream connection."""
        self.ordinary_seconds: list[float] = []
        """From the first byte of an ordinary request to the last of its answer."""
        self.unnoticed: list[str] = []
        """Departures that no upstream has heard of."""

    async def work(self, until: float) -> None:
        """One client, until time.monotonic() passes `until`."""
        connection: Connection | None = None
        while time.monotonic() < until:
            plan = self._traffic.next()
            for front in self._fronts:
                front.expect(plan.request_id)
            if connection is None or not connection.is_usable:
                connection = await Connection.open(self._port)
            started, sight, seen = time.monotonic(), None, None
            try:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    seen, sight = await self._carry_out(plan, connection)
            except TimeoutError:
                connection.leave(by_reset=True)
            met_restart = self._restarts.overlap(started, time.monotonic())
            self._accounts.enter(
                plan, seen, sight, met_restart=met_restart, otherwise=self._otherwise(plan, seen, sight)
            )
            if plan.is_ordinary and not met_restart:
                self.ordinary_seconds.append(time.monotonic() - started)
            self._compare(plan, seen, sight, met_restart=met_restart)
        if connection is not None:
            connection.leave(by_reset=False)

    async def _carry_out(self, plan: Plan, connection: Connection) -> tuple[EndReason | None, Sight | None]:
        if plan.leaving is not None:
            return await self._leave(plan, connection)
        connection.send(plan.head + plan.body)
        sight = await connection.read_answer()
        return self._outcome(plan, sight), sight

    def _outcome(self, plan: Plan, sight: Sight) -> EndReason | None:
        return sight.outcome(LIMIT_SECONDS, was_dropped=was_dropped(self._fronts, plan.request_id))

    def _otherwise(self, plan: Plan, seen: EndReason | None, sight: Sight | None) -> EndReason | None:
        """How else it may have ended, when an upstream went away just as something else put an end to it."""
        if not was_dropped(self._fronts, plan.request_id):
            return None
        if seen == "client_disconnected":
            return "upstream_error"
        if sight is None or sight.code is not None or abs(sight.silence_seconds - LIMIT_SECONDS) > TIE_SECONDS:
            return None
        return "timed_out" if seen == "upstream_error" else None

    async def _leave(self, plan: Plan, connection: Connection) -> tuple[EndReason | None, Sight | None]:
        """Goes away once the gateway is known to be where the plan wants it."""
        if plan.leaving == "uploading":
            connection.send(plan.head)
            await connection.read_until(b"\r\n\r\n")  # 100 Continue: the gateway has begun
            connection.send(plan.body[: len(plan.body) // 2])
            connection.leave(by_reset=plan.by_reset)
            return "client_disconnected", None
        connection.send(plan.head + plan.body)
        arrivals = [asyncio.create_task(front.arrival(plan.request_id)) for front in self._fronts]
        ending = asyncio.create_task(connection.read_answer(at_most_body=1 if plan.leaving == "reading" else None))
        wanted = {ending} if plan.leaving == "reading" else {ending, *arrivals}
        await asyncio.wait(wanted, return_when=asyncio.FIRST_COMPLETED)
        for task in arrivals:
            task.cancel()
        if ending.done() and not ending.result().is_cut_short:
            sight = ending.result()  # something came before we could leave
            return self._outcome(plan, sight), sight
        ending.cancel()
        left_at = time.monotonic()
        connection.leave(by_reset=plan.by_reset)
        await self._note_abort(plan, left_at)
        return "client_disconnected", None

    async def _note_abort(self, plan: Plan, left_at: float) -> None:
        aborts = [asyncio.create_task(front.departure(plan.request_id)) for front in self._fronts]
        noticed, _ = await asyncio.wait(aborts, return_when=asyncio.FIRST_COMPLETED, timeout=ABORT_SECONDS)
        if noticed:
            self.abort_seconds.append(time.monotonic() - left_at)
        elif not was_dropped(self._fronts, plan.request_id):
            self.unnoticed.append(f"{plan.request_id} {plan.endpoint} {plan.leaving}")
        for task in aborts:
            task.cancel()

    def _compare(self, plan: Plan, seen: EndReason | None, sight: Sight | None, *, met_restart: bool) -> None:
        asked = [front.forget(plan.request_id) for front in self._fronts]
        times = sum(one.times for one in asked)
        # A reused connection that dies without a byte of an answer may have been closed while idle: one more try.
        allowed = 2 if plan.fault in ("reset_first", "close_first") or met_restart else 1
        if times > allowed:
            self.repeated.append(f"{plan.request_id} {plan.endpoint} fault {plan.fault} came {times} times")
        digests = [one.digest for one in asked if one.digest is not None]
        if seen == "complete" and digests and sight is not None and sight.digest not in digests:
            self.different.append(f"{plan.request_id} {plan.endpoint}: {sight.length} bytes")
