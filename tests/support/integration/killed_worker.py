"""kill -9 of a worker, or of a whole gateway, under load: what was answered, and what the ledger knows of it later."""

import asyncio
import contextlib
import os
import signal
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from gateway.store import ledger
from gateway.store.database import Database
from tests.support.integration.scripted_upstream import reply, scripted_upstream
from tests.support.integration.serving import children_of, is_alive, serving
from tests.support.integration.streaming import served_by
from tests.support.waiting import eventually

BODY = b'{"model": "m", "messages": [{"role": "user", "content": "hi"}]}'
REQUEST = (
    b"POST /v1/chat/completions HTTP/1.1\r\nhost: g\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
    % (len(BODY), BODY)
)


class Killed(msgspec.Struct, frozen=True):
    """One kill."""

    answered: int
    """Requests, by all workers."""
    answered_by_victim: int
    in_ledger: int
    lost_requests: int
    """Answered, and not in the ledger. What was being answered may be in it, and hide as many as were broken."""
    broken: int
    """Requests that were being answered when the worker died."""
    lost_seconds: float
    """From the victim's oldest missing answer to its last one: a process that waits for a processor gives none."""


class _Connection:
    """One client that asks again and again until its worker dies or it is told to stop."""

    def __init__(self) -> None:
        self.answered_at: list[float] = []
        self.is_broken = False
        self.port = 0
        """The client's own."""

    async def ask(self, port: int, until: asyncio.Event) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        self.port = writer.get_extra_info("sockname")[1]
        try:
            while not until.is_set():
                writer.write(REQUEST)
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
                await reader.readexactly(length)
                assert head.startswith(b"HTTP/1.1 200")
                self.answered_at.append(time.monotonic())
        except (OSError, asyncio.IncompleteReadError):
            self.is_broken = True
        finally:
            writer.close()


@contextlib.contextmanager
def _locked(database: Path, *, wanted: bool) -> Iterator[None]:
    """Nobody else writes to the store meanwhile."""
    if not wanted:
        yield
        return
    with contextlib.closing(sqlite3.connect(database, isolation_level=None, timeout=30)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            connection.execute("ROLLBACK")


async def kill_under_load(
    directory: Path,
    *,
    workers: int,
    sampling_rate: float,
    is_store_locked: bool,
    seconds: float,
    connections: int = 8,
    kills_all: bool = False,
) -> Killed:
    """Kill one worker (or all, then restart) under load with -9, go on a little, and store all that is left."""
    store = directory / "store.db"
    async with scripted_upstream(default=reply(b'{"id": "1"}')) as upstream:
        path = directory / "biasgate.toml"
        path.write_text(
            f'[store]\nurl = "sqlite:///{store}"\n[[upstreams]]\nname = "up"\nbase_url = "{upstream.base_url}"\n'
            f'models = ["m"]\n[server]\nauditor_metrics_port = 0\ndrain_seconds = 5\n'
            f"[sampling]\nrate = {sampling_rate}\n"
        )
        async with serving("gateway", "--config", str(path), "--workers", str(workers)) as running:
            port, stop = int(running.root.rpartition(":")[2]), asyncio.Event()
            clients = [_Connection() for _ in range(connections)]
            asking = [asyncio.create_task(one.ask(port, stop)) for one in clients]
            await asyncio.sleep(seconds / 2)
            children = children_of(running.process.pid)
            [writer] = children["writer"]
            victim = running.process.pid
            if workers > 1:  # one worker may have been given every connection
                ports = {one.port for one in clients}
                victim = max(children["gateway"], key=lambda pid: len(served_by(pid) & ports))
            with _locked(store, wanted=is_store_locked):
                await asyncio.sleep(seconds / 2)
                everybody = [running.process.pid, *(pid for pids in children.values() for pid in pids)]
                for pid in everybody if kills_all else [victim]:
                    os.kill(pid, signal.SIGKILL)
                await asyncio.sleep(0.3)
            stop.set()
            await asyncio.gather(*asking)
            if kills_all:
                async with serving("gateway", "--config", str(path), "--workers", str(workers)) as again:
                    await again.line("a worker died", count=workers)
            elif workers == 1:
                await eventually(lambda: not is_alive(writer), within_seconds=30)
            else:
                await running.line("a worker died")
                running.process.send_signal(signal.SIGTERM)
                await running.exit_code()
    database = await Database.open(f"sqlite:///{store}", migrate=False)
    counted = sum((await ledger.counts(database)).values())
    await database.close()
    broken = [one for one in clients if one.is_broken]
    of_victim = sorted((at for one in broken for at in one.answered_at), reverse=True)
    answered = sum(len(one.answered_at) for one in clients)
    lost = max(0, answered - counted)
    seconds = of_victim[0] - of_victim[min(lost, len(of_victim)) - 1] if lost and of_victim else 0.0
    return Killed(answered, len(of_victim), counted, lost, len(broken), seconds)
