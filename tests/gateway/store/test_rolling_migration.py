"""The upgrade to measurements by day while the version before it writes: `git archive` of it, in its own processes."""

import asyncio
import io
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import sqlalchemy as sa

from gateway.store import exchanges, ledger, measurements, partitions
from gateway.store.database import Database
from tests.support.required import lacking
from tests.support.store.made import SETTINGS, exchange, measurement

ROOT = Path(__file__).parents[3]
BEFORE = "b07d09c"
"""The last commit without partitions."""
STORED = 200_000
"""Measurements that are there already, so that the migration takes a while."""
WRITERS = 3
WRITE = """
import asyncio, sys, time
from pathlib import Path
from gateway.store import exchanges, measurements
from gateway.store.database import Database
from gateway.store.schema import VERSION
from tests.support.store.made import SETTINGS, exchange, measurement

async def main(url, name, stop):
    assert VERSION == "0017", VERSION
    database, n = await Database.open(url), 0
    while not Path(stop).exists():
        one = exchange(id=f"{name}-{n}", request_id=f"{name}-{n}", received_at=time.time())
        await exchanges.insert_batch(database, [one], {("other", "queued"): 1})
        assert await measurements.record(
            database, one, "judge", [measurement(1.0)], 0.1, probability=0.5, settings=SETTINGS
        )
        again = await measurements.record(
            database, one, "judge", [measurement(1.0)], 0.1, probability=0.5, settings=SETTINGS
        )
        assert not again
        if n % 3 == 0:
            assert await exchanges.delete(database, request_id=one.request_id) == 1
        n += 1
        print(n, flush=True)
    await database.close()

asyncio.run(main(*sys.argv[1:]))
"""
FILL = """
INSERT INTO measurements
    (auditor, auditor_version, metric, model, value, status, inclusion_probability, created_at, stream)
SELECT 'judge', '1', 'favoritism', 'm', 1, 'ok', 1, extract(epoch FROM now()) - n, 's' FROM generate_series(1, {n}) AS n
"""


def checked_out(directory: Path) -> Path:
    """The version before, in this directory."""
    made = subprocess.run(["git", "archive", BEFORE], cwd=ROOT, capture_output=True, check=False)
    if made.returncode:
        lacking(f"git has no commit {BEFORE} here: {made.stderr.decode().strip()}", "HISTORY")
    with tarfile.open(fileobj=io.BytesIO(made.stdout)) as archive:
        archive.extractall(directory, filter="data")
    return directory


class Writer:
    """A process of the version before, which stores, audits and deletes exchanges."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.n = 0
        self.lines: list[str] = []

    async def read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            self.lines.append(line.decode().rstrip())
            if self.lines[-1].isdigit():
                self.n = int(self.lines[-1])


async def more(writers: list[Writer], by: int) -> None:
    """Waits until each has done so much more."""
    wanted = [one.n + by for one in writers]
    async with asyncio.timeout(120):
        while any(one.n < n and one.process.returncode is None for one, n in zip(writers, wanted, strict=True)):  # noqa: ASYNC110 - other processes write
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("store_url", [pytest.param("postgresql", marks=pytest.mark.postgres)], indirect=True)
async def test_the_version_before_goes_on_writing(tmp_path: Path, store_url: str) -> None:
    """Before, during and after the migration nothing of it fails, is lost, or counts twice; links go with exchanges."""
    old, stop = checked_out(tmp_path / "old"), tmp_path / "stop"
    writers, reading = [], []
    for number in range(WRITERS):
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", WRITE, store_url, f"w{number}", str(stop)),
            cwd=old,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        writers.append(Writer(process))
        reading.append(asyncio.create_task(writers[-1].read()))
    try:
        await more(writers, 5)
        engine = sa.create_engine(store_url.replace("postgresql:", "postgresql+psycopg:"))
        with engine.begin() as connection:
            connection.execute(sa.text(FILL.format(n=STORED)))
            first = connection.execute(sa.text("SELECT max(id) FROM measurements")).scalar_one()
        engine.dispose()
        before = [one.n for one in writers]
        database = await Database.open(store_url)
        during = [one.n for one in writers]
        await more(writers, 10)
        one = exchange(id="new", request_id="new")
        await exchanges.insert_batch(database, [one], {("other", "queued"): 1})
        await measurements.record(database, one, "judge", [measurement(1.0)], 0.1, probability=0.5, settings=SETTINGS)
        await partitions.prepare(database)
        await more(writers, 5)
    finally:
        stop.touch()
        codes = [await one.process.wait() for one in writers]
        await asyncio.gather(*reading)
    assert codes == [0] * WRITERS, [one.lines[-15:] for one in writers]
    assert min(during) >= min(before)

    n = sum(one.n for one in writers)
    deleted = sum((one.n + 2) // 3 for one in writers)

    async def count(what: str) -> int:
        async with database.read() as reading:
            return int((await reading.execute(sa.text(f"SELECT count(*) FROM {what}"))).scalar_one())

    linked = "measurements WHERE exchange_id IS NOT NULL"
    assert await count("measurements") == STORED + n + 1
    assert await count("measurements_before") >= STORED
    assert await count("(SELECT DISTINCT id FROM measurements) AS ids") == STORED + n + 1
    assert await count(linked) == await count("exchange_audits") == n - deleted + 1
    assert await count(f"{linked} AND exchange_id NOT IN (SELECT id FROM exchanges)") == 0
    assert await count(f"measurements WHERE id > {first}") >= 15 * WRITERS
    unlinked = "measurements WHERE exchange_id IS NULL AND stream <> 's'"
    assert await count(f"{unlinked} AND (reason IS NOT NULL OR detail IS NOT NULL)") == 0
    assert sum((await ledger.counts(database)).values()) == n + 1
    await database.close()
