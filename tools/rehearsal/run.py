"""Several gateways and auditors over one PostgreSQL, faults one after the other, and the accounts after each."""

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, LiteralString

import msgspec
import psycopg

from tools.rehearsal.judge import MODEL
from tools.rehearsal.members import CABLE_PORT, Member, Postgres, biasgate, distance
from tools.rehearsal.places import Place
from tools.rehearsal.traffic import Traffic, flowing

SETTLED_SECONDS = 180.0
LACKING_TIMES = 120
"""Looks, half a second apart, after which what is not in the ledger is lost."""
MODEL_PORT, GATEWAY_PORT, METRICS_PORT = 8090, 18080, 19090
ACCOUNTS = {
    "audits of an exchange": "SELECT count(*) FROM exchange_audits",
    "exchanges audited": "SELECT count(*) FROM exchanges WHERE state = 'audited'",
    "audited in the ledger": "SELECT coalesce(sum(count), 0) FROM ledger WHERE outcome = 'audited'",
    "audited in the counters": "SELECT coalesce(sum(value), 0) FROM counters WHERE name = 'exchanges'",
}
"""Four ways to count the same."""
LEDGER = "SELECT outcome, sum(count) FROM ledger GROUP BY outcome"
MEASURED = "SELECT stream, count(*) FROM measurements WHERE stream IS NOT NULL GROUP BY stream"
SUMMED = "SELECT key, (state::json -> 'sums' ->> 'n')::int FROM streams WHERE metric NOT LIKE '%_gap'"


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one fault."""

    fault: str
    answered: int
    """Requests that clients have whole answers to, since the start."""
    in_ledger: int
    failed: int
    """Copies that died with the worker that held them: counted, and audited by nobody."""
    lost: int
    """Answers that no account knows."""
    doubled: int
    """Differences between accounts that count the same."""
    settled_seconds: float
    """From the end of the traffic until nothing is queued."""
    rate: float
    """Requests answered a second."""

    def __str__(self) -> str:
        return (
            f"| {self.fault} | {self.rate:.0f} | {self.answered} | {self.in_ledger} | {self.failed} | {self.lost} |"
            f" {self.doubled} | {self.settled_seconds:.1f} |"
        )


HEADER = "| fault | answers/s | answered | in the ledger | died with a worker | lost | doubled | settled after, s |"


class System:
    """All parts, and the clients."""

    def __init__(
        self,
        places: Mapping[str, Place],
        home: Path,
        *,
        gateways: int,
        auditors: int,
        rate: float,
        milliseconds: float = 0.0,
    ) -> None:
        """`places` has "postgres", "model", "gateway 1", "auditor 1" and so on, and "cable" where the store is to be
        far away: by so many milliseconds, one way.
        """
        self.places = places
        self.postgres = Postgres(places["postgres"], home)
        self._store_url = self.postgres.url
        self.cable: Member | None = None
        if milliseconds:
            self.cable = distance(places["cable"], self.postgres, milliseconds, home)
            self._store_url = self.postgres.url_at(places["cable"].address, CABLE_PORT)
        model = places["model"]
        argv = [sys.executable, "-m", "tools.rehearsal.judge", model.address, str(MODEL_PORT)]
        upstream = f"http://{model.address}:{MODEL_PORT}"
        self.model = Member("model", model, argv, ready_url=f"{upstream}/v1/models", home=home, environ={})
        self.gateways, self.auditors, listening = [], [], []
        for number in range(1, gateways + 1):
            name = f"gateway {number}"
            place, port = places[name], GATEWAY_PORT + number
            config = self._config(home, name, upstream, f'host = "{place.address}"\nport = {port}\nworkers = 2\n')
            self.gateways.append(biasgate(name, place, ["gateway"], config, port, home))
            listening.append((place.address, port))
        for number in range(1, auditors + 1):
            name = f"auditor {number}"
            place, port = places[name], METRICS_PORT + number
            config = self._config(home, name, upstream, f'host = "{place.address}"\nauditor_metrics_port = {port}\n')
            self.auditors.append(biasgate(name, place, ["auditor"], config, port, home))
        self.traffic = Traffic(listening, rate)

    @property
    def members(self) -> list[Member]:
        return [*self.gateways, *self.auditors]

    async def outcome(self, fault: str, strike: Callable[[], Awaitable[None]], *, after_seconds: float) -> Outcome:
        """Traffic, the fault after some seconds of it, as many seconds more, and then the accounts.

        Raises TimeoutError when exchanges stay queued.
        """
        before, began = self.traffic.answered, time.monotonic()
        async with flowing(self.traffic):
            await asyncio.sleep(after_seconds)
            await strike()
            await asyncio.sleep(after_seconds)
            seconds = time.monotonic() - began
        rate = (self.traffic.answered - before) / seconds
        for member in self.members:
            await member.ready()
        began = time.monotonic()
        ledger = await self._settled()
        settled_seconds = time.monotonic() - began
        total = sum(ledger.values())
        return Outcome(
            fault=fault,
            answered=self.traffic.answered,
            in_ledger=total,
            failed=ledger.get("failed", 0),
            lost=max(0, self.traffic.answered - total) + sum(ledger.get(name, 0) for name in ("expired", "truncated")),
            doubled=max(0, total - self.traffic.answered - self.traffic.broken) + await self._differences(),
            settled_seconds=settled_seconds,
            rate=rate,
        )

    async def _settled(self) -> dict[str, int]:
        """The ledger, once nothing is queued and it has stood still.

        For long, if it has fewer than were answered: a gateway that was cut off may come back late.
        """
        deadline, last, still = time.monotonic() + SETTLED_SECONDS, dict[str, int](), 0
        while time.monotonic() < deadline:
            found = {
                str(name): int(n) for name, n in await self._rows("SELECT outcome, sum(count) FROM ledger GROUP BY 1")
            }
            is_still = found == last and not found.get("queued")
            still, last = still + 1 if is_still else 0, found
            if still >= (3 if sum(found.values()) >= self.traffic.answered else LACKING_TIMES):
                return found
            await asyncio.sleep(0.5)
        raise TimeoutError(f"the ledger does not come to rest: {last}")

    async def _differences(self) -> int:
        counted = [int((await self._rows(query))[0][0]) for query in ACCOUNTS.values()]
        measured, summed = dict(await self._rows(MEASURED)), dict(await self._rows(SUMMED))
        streams: int = sum(abs(measured.get(key, 0) - summed.get(key, 0)) for key in measured.keys() | summed.keys())
        return max(counted) - min(counted) + streams

    async def _rows(self, query: LiteralString) -> list[tuple[Any, ...]]:
        async with await psycopg.AsyncConnection.connect(self.postgres.url, connect_timeout=5) as connection:
            return await (await connection.execute(query)).fetchall()

    def _config(self, home: Path, name: str, upstream: str, server: str) -> Path:
        path = home / f"{name}.toml"
        path.write_text(
            f'[server]\nallow_open = true\ndrain_seconds = 5\n{server}[store]\nurl = "{self._store_url}"\n'
            f'[[upstreams]]\nname = "u"\nbase_url = "{upstream}"\n'
            '[sampling]\nrate = 1.0\nsecret_env = "REHEARSAL_SECRET"\n[audits]\nmax_concurrency = 64\n'
            f'[auditors.judge]\nmodel = "{MODEL}"\nmax_concurrency = 64\n[auditors.embedding]\nenabled = false\n'
            "[auditors.refusal]\nenabled = false\n"
        )
        return path


@asynccontextmanager
async def running(system: System, *, tree: Path | None = None) -> AsyncIterator[None]:
    """Everything started and ready, with the code of another checkout if one is given, until the block ends."""
    try:
        await asyncio.to_thread(system.postgres.make)
        system.postgres.start()
        await system.postgres.ready()
        if system.cable is not None:
            system.cable.start()
        system.model.start()
        await system.model.ready()
        for member in system.members:
            member.tree = tree or member.tree
            member.start()
        for one in system.members:
            await one.ready()
        yield
    finally:
        cables = [] if system.cable is None else [system.cable]
        for one in [*system.members, system.model, *cables]:
            with contextlib.suppress(Exception):
                one.kill()
        system.postgres.kill()


async def killed(member: Member) -> None:
    """kill -9, and started again as a supervisor does."""
    member.kill()
    member.start()
    await member.ready()


async def orphaned(member: Member) -> None:
    """kill -9 of a gateway's supervisor alone, which is started again."""
    member.kill_parent()
    await asyncio.sleep(1.0)  # its workers give back the port
    member.start()
    await member.ready()


async def bereft(member: Member, child: str) -> None:
    """kill -9 of a worker or the writer, which the supervisor starts again."""
    member.kill_child(child)
    await asyncio.sleep(2.0)
    await member.ready()


async def restarted(postgres: Postgres) -> None:
    await postgres.restart()
    await postgres.ready()


async def crashed(postgres: Postgres) -> None:
    """kill -9 of the server and all its sessions."""
    postgres.kill()
    postgres.start()
    await postgres.ready()


async def upgraded(members: list[Member], tree: Path) -> None:
    """One after the other is stopped and started with other code; both kinds work side by side meanwhile."""
    for member in members:
        await member.stop()
        member.tree = tree
        member.start()
        await member.ready()


async def parted(places: list[Place], seconds: float) -> None:
    """Nothing reaches these machines, and nothing comes from them, for a while."""
    for place in places:
        place.cut()
    await asyncio.sleep(seconds)
    for one in places:
        one.join()
