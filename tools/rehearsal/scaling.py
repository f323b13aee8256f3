"""How many exchanges auditors settle over one PostgreSQL, and what they wait for.

`python -m tools.rehearsal.scaling [--auditors 1,2,4] [--exchanges N] [--commit-delay MICROSECONDS]`.

All exchanges concern the same streams, and the judge answers at once: the transactions are what is left. A commit
delay makes each commit take so much longer, as a slow disk does, so that time and not processors is what lacks.
"""

import argparse
import asyncio
import contextlib
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psycopg
from psycopg import sql

from gateway.jobs import open_queue
from gateway.sampling.writer.direct import AUDIT_TASK, IDS_PER_JOB
from gateway.store import counters, exchanges, ledger
from gateway.store.database import Database
from tests.support.integration.auditing import PROMPT, REPLY
from tests.support.postgres import Scratch
from tests.support.processes import BIASGATE, free_port, running
from tests.support.store.made import exchange
from tools.rehearsal.judge import MODEL

PATIENCE_SECONDS = 300.0
LOOK_SECONDS = 0.05
TICKS = os.sysconf("SC_CLK_TCK")
BACKENDS = "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
WAITS = (
    "SELECT coalesce(wait_event_type || ':' || wait_event, 'running') FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid() AND state <> 'idle'"
)


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One number of auditors."""

    auditors: int
    rate: float
    """Exchanges settled a second."""
    auditor_ms: float
    """Processor time of the auditors for an exchange."""
    database_ms: float
    """The same of PostgreSQL's processes."""
    judge_ms: float
    lock_share: float
    """Of the moments at which a session of the auditors was busy, those in which it waited for a row's lock."""
    waits: Counter[str]


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far."""
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS
    return 0.0


def _config(home: Path, url: str, upstream: str, port: int) -> Path:
    path = home / f"auditor-{port}.toml"
    path.write_text(
        f'[server]\nauditor_metrics_port = {port}\n[store]\nurl = "{url}"\n'
        f'[[upstreams]]\nname = "u"\nbase_url = "{upstream}"\n'
        f'[auditors.judge]\nmodel = "{MODEL}"\nmax_concurrency = 64\n[auditors.embedding]\nenabled = false\n'
        "[auditors.refusal]\nenabled = false\n[audits]\nmax_concurrency = 64\n"
    )
    return path


@contextlib.contextmanager
def instant_judge(home: Path) -> Iterator[tuple[str, int]]:
    """Its base URL and its process."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    argv = [sys.executable, "-m", "tools.rehearsal.judge", "127.0.0.1", str(port)]
    with running(argv, ready_url=f"{url}/v1/models", log=home / "judge.log") as process:
        yield url, process.pid


@contextlib.contextmanager
def auditors(home: Path, url: str, upstream: str, count: int) -> Iterator[list[int]]:
    """So many auditor processes over one store; their process ids."""
    with contextlib.ExitStack() as stack:
        found = []
        for _ in range(count):
            port = free_port()
            argv = [*BIASGATE, "auditor", "--config", str(_config(home, url, upstream, port))]
            ready = f"http://127.0.0.1:{port}/livez"
            found.append(stack.enter_context(running(argv, ready_url=ready, log=home / f"auditor-{port}.log")).pid)
        yield found


async def put(database: Database, count: int) -> list[list[str]]:
    """Stores so many exchanges about women and men as the writer does; their ids, by job."""
    jobs = []
    for _ in range(0, count, IDS_PER_JOB):
        content = {"request_body": PROMPT, "response_body": REPLY, "served_model": MODEL}
        batch = [exchange(request_id="r", **content) for _ in range(IDS_PER_JOB)]
        await exchanges.insert_batch(database, batch, {("other", "queued"): len(batch)})
        jobs.append([one.id for one in batch])
    return jobs


class Watch:
    """What the sessions of a database wait for, and the processor time of their processes."""

    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True) if url.startswith("postgresql") else None
        self._before: dict[int, float] = {}
        self._spent: dict[int, float] = {}
        self.waits = Counter[str]()
        self.look()
        self._before = dict(self._spent)
        self.waits.clear()

    def look(self) -> None:
        if self._connection is not None:
            self.waits.update(event for (event,) in self._connection.execute(WAITS))
            for (pid,) in self._connection.execute(BACKENDS):
                self._spent[pid] = cpu_seconds(pid)

    @property
    def seconds(self) -> float:
        return sum(spent - self._before.get(pid, 0.0) for pid, spent in self._spent.items())

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()


async def point(home: Path, count: int, n_exchanges: int, url: str) -> Point:
    """Pushes exchanges through so many auditors. Raises TimeoutError when they do not come to an end."""
    database = await Database.open(url)
    with instant_judge(home) as (upstream, judge), auditors(home, url, upstream, count) as pids:
        jobs = await put(database, n_exchanges)
        queue = open_queue(database)
        watch = Watch(url)
        before = {pid: cpu_seconds(pid) for pid in [*pids, judge]}
        began = time.monotonic()
        await queue.defer_many(AUDIT_TASK, [{"ids": ids} for ids in jobs])
        while left := (await ledger.counts(database)).get(("other", "queued"), 0):
            watch.look()
            if time.monotonic() - began > PATIENCE_SECONDS:
                raise TimeoutError(f"{left} of {n_exchanges} exchanges are left")
            await asyncio.sleep(LOOK_SECONDS)
        seconds = time.monotonic() - began
        spent = {pid: cpu_seconds(pid) - before[pid] for pid in before}
        watch.close()
        await queue.close()
    counted = (await counters.read(database))["exchanges", ("audited", "judge")]
    await database.close()
    if counted != n_exchanges:
        raise RuntimeError(f"{n_exchanges} exchanges were audited {counted:g} times")
    locked = sum(n for event, n in watch.waits.items() if event.startswith("Lock:"))
    return Point(
        auditors=count,
        rate=n_exchanges / seconds,
        auditor_ms=1000.0 * sum(spent[pid] for pid in pids) / n_exchanges,
        database_ms=1000.0 * watch.seconds / n_exchanges,
        judge_ms=1000.0 * spent[judge] / n_exchanges,
        lock_share=locked / max(1, sum(watch.waits.values())),
        waits=watch.waits,
    )


def prepared(scratch: Scratch, commit_delay: int) -> str:
    """URL of an empty database that is as durable as a real one, and whose commits take so many microseconds longer."""
    url = scratch.emptied(keep_tables=False)
    with psycopg.connect(url, autocommit=True) as connection:
        for setting in ("synchronous_commit = on", f"commit_delay = {commit_delay}", "commit_siblings = 0"):
            connection.execute(
                sql.SQL("ALTER DATABASE {} SET " + setting).format(sql.Identifier(url.rpartition("/")[2]))
            )
    return url


async def main(counts: list[int], n_exchanges: int, commit_delay: int, *, on_sqlite: bool) -> None:
    scratch = Scratch()
    where = "SQLite" if on_sqlite else f"PostgreSQL, commits {commit_delay / 1000:g} ms longer"
    print(f"{n_exchanges} exchanges on the same streams, {where}")
    try:
        for count in counts:
            with tempfile.TemporaryDirectory() as home:
                url = f"sqlite:///{home}/store.db" if on_sqlite else prepared(scratch, commit_delay)
                found = await point(Path(home), count, n_exchanges, url)
            print(
                f"{count} auditors: {found.rate:6.1f} exchanges/s; processor ms an exchange: auditors"
                f" {found.auditor_ms:.2f}, PostgreSQL {found.database_ms:.2f}, judge {found.judge_ms:.2f};"
                f" waiting for locks {found.lock_share:.0%}; {found.waits.most_common(4)}",
                flush=True,
            )
    finally:
        scratch.drop()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--auditors", default="1,2,4", help="default %(default)s")
    parser.add_argument("--exchanges", type=int, default=1600, help="default %(default)s")
    parser.add_argument("--commit-delay", type=int, default=0, help="microseconds, default %(default)s")
    parser.add_argument("--sqlite", action="store_true", help="one auditor on a file instead")
    asked = parser.parse_args()
    counts = [int(one) for one in asked.auditors.split(",")]
    asyncio.run(main(counts, asked.exchanges, asked.commit_delay, on_sqlite=asked.sqlite))
