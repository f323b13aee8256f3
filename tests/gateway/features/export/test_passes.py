"""What an export holds is what the store holds: once, whatever stopped it, and without anybody's words."""

import asyncio
import resource
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa
from fsspec.core import url_to_fs

from auditors.types import JudgeStamp
from gateway.errors import BusyError, ExportError, StoreError
from gateway.features.export import passes
from gateway.features.export import store as exports
from gateway.features.export.passes import Brought, export_new_rows
from gateway.store import counters, exchanges, runs
from gateway.store.connections import insert_rows
from gateway.store.database import Database
from gateway.store.tables import measurements
from tests.support.benchmarks import bundled
from tests.support.store.exported import NOON, add, names, read
from tests.support.store.made import create_run, delete_run, exchange, measurement, record

pytestmark = pytest.mark.stores("sqlite")

DATASET = {"name": "d", "kind": "canonical", "sha256": "0" * 64, "n_used": 2, "n_canonical": 2}
OPTIONS = {"suite": "stereoset", "model": "m", "mode": "sample", "protocol": "corrected"}


@pytest.fixture(params=["path", "memory"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An address of each kind at which there is nothing."""
    if request.param == "memory":
        address = f"memory://{uuid.uuid4().hex}"
        yield address
        files, root = url_to_fs(address)
        if files.exists(root):
            files.rm(root, recursive=True)
    else:
        yield str(tmp_path / "deep" / "export")


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path / "export")


async def pass_over(database: Database, url: str) -> Brought:
    return await export_new_rows(database, url, uuid.uuid4().hex)


async def stored(database: Database) -> list[Any]:
    async with database.read() as connection:
        return list((await connection.execute(sa.select(measurements).order_by(measurements.c.id))).all())


async def ids(database: Database) -> list[int]:
    return [row.id for row in await stored(database)]


def exported_ids(url: str) -> list[int]:
    return [row["id"] for row in read(url, "measurements")]


def result(**changes: Any) -> str:
    return msgspec.json.encode(bundled.result(dataset=DATASET, seed=0, **changes)).decode()


async def finish_run(database: Database, run_id: str, **changes: Any) -> None:
    await create_run(database, run_id, OPTIONS)
    assert await runs.claim(database, run_id)
    assert await runs.finish(database, run_id, result=result(**changes), report="")


@pytest.mark.stores("sqlite", "postgresql")
async def test_what_is_read_back_is_what_is_stored(database: Database, url: str) -> None:
    """Every number with its type, absences as null, days as partitions, once however often it runs."""
    await add(database, 250, days=3)
    brought = await pass_over(database, url)
    rows = read(url, "measurements")

    assert brought.rows["measurements"] == 250
    assert len(await stored(database)) == len(rows) == 250
    for one, row in zip(await stored(database), rows, strict=True):
        assert row["id"] == one.id
        assert (row["group"], row["value"], row["status"]) == (one.group_name, one.value, one.status)
        assert row["inclusion_probability"] == one.inclusion_probability
        assert row["judge_model"] == ("j" if one.judge else None)
        assert row["created_at"].timestamp() == pytest.approx(one.created_at, abs=1e-6)
        assert str(row["day"]) == row["created_at"].strftime("%Y-%m-%d")
    assert {str(row["day"]) for row in rows} == {"2025-11-25", "2025-11-26", "2025-11-27", "2025-11-28"}

    before = names(url)
    assert not sum((await pass_over(database, url)).rows.values())
    assert names(url) == before
    await add(database, 10)
    assert (await pass_over(database, url)).rows["measurements"] == 10
    assert exported_ids(url) == await ids(database)
    assert not [name for name in names(url) if "_unfinished" in name]


async def test_nobodys_words_are_exported(database: Database, folder: str) -> None:
    """Neither text of the exchange nor a judge's reason nor an auditor's detail; the id of the exchange is."""
    one = exchange(request_body=b'{"messages": [{"role": "user", "content": "Zanzibar"}]}')
    await exchanges.insert_batch(database, [one], {})
    found = measurement(
        None, reason="wrote Zanzibar", detail={"said": "Zanzibar"}, judge=JudgeStamp(model="j", prompt_sha256="ab")
    )
    await record(database, one, [found])
    await create_run(database, "r", OPTIONS)
    assert await runs.claim(database, "r")
    assert await runs.fail(database, "r", "the server said Zanzibar")
    await pass_over(database, folder)

    [row] = read(folder, "measurements")
    assert row["exchange_id"] == one.id
    [run] = read(folder, "runs")
    assert (run["status"], run["items"]) == ("failed", None)
    assert "Zanzibar" not in repr((row, run))


@pytest.mark.stores("postgresql")
async def test_row_that_was_under_way_is_not_passed_over(
    database: Database, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lower id whose transaction ends after a higher one's is waited for, holds up no writer, and is there once."""
    late = Database(database.url, database.texts)
    values: dict[str, Any] = {
        "auditor": "judge",
        "auditor_version": "1",
        "metric": "favoritism",
        "model": "late",
        "status": "ok",
    }
    values |= {"inclusion_probability": 1.0, "created_at": NOON}
    async with late.begin() as connection:
        await insert_rows(connection, measurements, [values])  # draws an id
        await add(database, 20)
        passing = asyncio.create_task(pass_over(database, folder))
        await asyncio.sleep(0.5)
        assert not passing.done()
        await asyncio.wait_for(add(database, 5), 5)
    await passing
    await late.close()
    assert min(await ids(database)) == exported_ids(folder)[0]
    await pass_over(database, folder)
    assert exported_ids(folder) == await ids(database)

    monkeypatch.setattr(exports, "PATIENCE_SECONDS", 0.2)
    stuck = Database(database.url, database.texts)
    async with stuck.begin() as connection:
        await insert_rows(connection, measurements, [values])
        await add(database, 1)
        with pytest.raises(StoreError, match="has been writing measurements"):
            await pass_over(database, folder)
    await stuck.close()
    await pass_over(database, folder)
    assert exported_ids(folder) == await ids(database)


_CHILD = """
import asyncio, sys, uuid
from gateway.features.export import passes
from gateway.features.export import store as exports
from gateway.store.connections import Connections
passes.ROWS_IN_PART, passes.ROWS_AT_ONCE, exports.LEASE_SECONDS = 700, 50, 0.3
async def main():
    database = Connections(sys.argv[1])
    print("begins", flush=True)
    await passes.export_new_rows(database, sys.argv[2], uuid.uuid4().hex)
asyncio.run(main())
"""


def _child(store_url: str, folder: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-c", _CHILD, store_url, folder], stdout=subprocess.PIPE)


@pytest.mark.stores("sqlite", "postgresql")
async def test_killed_at_any_moment_nothing_is_lost_or_doubled(
    database: Database, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kill -9 again and again, each time a little later, while rows come: at the end each row is there once."""
    monkeypatch.setattr(passes, "ROWS_IN_PART", 700)
    n_killed = 0
    for number in range(4):
        await add(database, 600, days=3, seed=number)
        child = _child(database.url, folder)
        assert child.stdout is not None
        assert await asyncio.to_thread(child.stdout.readline) == b"begins\n"
        await asyncio.sleep(0.05 + 0.1 * number)
        child.send_signal(signal.SIGKILL)
        n_killed += await asyncio.to_thread(child.wait) == -signal.SIGKILL
        child.stdout.close()
        await asyncio.sleep(0.35)  # the lease of the dead one
    assert n_killed >= 2
    await pass_over(database, folder)
    assert exported_ids(folder) == await ids(database)
    assert not [name for name in names(folder) if "_unfinished" in name]


@pytest.mark.stores("sqlite", "postgresql")
async def test_one_writes_at_a_time(database: Database, folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second is told; whoever was silent for too long is stopped at its next step, and has changed nothing."""
    await add(database, 20)
    progress = await exports.acquire_lease(database, folder, "first", now=time.time())
    with pytest.raises(BusyError, match="another process exports there"):
        await pass_over(database, folder)
    await exports.acquire_lease(database, folder, "second", now=time.time() + 2 * exports.LEASE_SECONDS)
    with pytest.raises(exports.LostLeaseError):
        await exports.write_progress(database, folder, "first", msgspec.structs.replace(progress, measured=10**6))
    assert (await exports.read_progress(database, folder)).measured == 0


async def test_runs_are_written_anew_when_they_change(database: Database, url: str) -> None:
    """A replaced result, a resumed run and a deleted one are seen at the next pass; a running one is not there."""
    await finish_run(database, "a")
    await finish_run(database, "b")
    await create_run(database, "waiting", OPTIONS)
    await pass_over(database, url)
    assert [row["run_id"] for row in read(url, "runs")] == ["a", "b"]
    whole = bundled.result()
    estimates = [row for row in read(url, "run_estimates") if row["run_id"] == "a"]
    assert [row["value"] for row in estimates] == [one["value"] for one in whole["estimates"]]
    assert not sum((await pass_over(database, url)).rows.values())

    reason = {"not_assessable": "9 of 9 replies"}
    changed = {**whole["estimates"][0], "value": 12.5, "lower": None, "upper": None}
    estimates = [changed, {**changed, "extra": reason}]
    await runs.replace_result(database, "a", result=result(assessable=True, estimates=estimates), report="")
    assert (await pass_over(database, url)).rows == {"runs": 2}
    rows = [row for row in read(url, "run_estimates") if row["run_id"] == "a"]
    assert [(row["value"], row["not_assessable"]) for row in rows] == [(12.5, None), (12.5, "9 of 9 replies")]

    await delete_run(database, "a")
    await pass_over(database, url)
    assert [row["run_id"] for row in read(url, "runs")] == ["b"]
    await delete_run(database, "b")
    await pass_over(database, url)
    assert not [name for name in names(url) if "runs.parquet" in name]


async def test_address_of_others_is_left_alone(database: Database, tmp_path: Path) -> None:
    """A folder with other files, and one of another store's export: one line that says what to do."""
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("")
    with pytest.raises(ExportError, match=r'"thesis.tex".*name an empty one'):
        await pass_over(database, str(tmp_path / "full"))
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["thesis.tex"]

    other = await Database.open(f"sqlite:///{tmp_path}/other.db")
    await pass_over(other, str(tmp_path / "theirs"))
    await other.close()
    with pytest.raises(ExportError, match="holds the export of another store"):
        await pass_over(database, str(tmp_path / "theirs"))


@pytest.mark.parametrize(
    ("address", "words"),
    [("nonsense://x", "nonsense"), ("/proc/export", "/proc/export"), ("s3://bucket/x", "s3fs")],
)
async def test_address_that_cannot_be_written_is_said_in_one_line(database: Database, address: str, words: str) -> None:
    """Whatever the file system raises; the store knows of it, and the lease is free again."""
    with pytest.raises(ExportError, match=words) as caught:
        await pass_over(database, address)
    assert "\n" not in str(caught.value)
    found = await exports.read_progress(database, address)
    assert (found.error, found.owner) == (str(caught.value), None)
    assert (await counters.read(database))["exports", ("failed",)] == 1
    assert [one.error for one in await exports.read_failing(database, tried_after=time.time() - 60)] == [found.error]


@pytest.mark.stores("postgresql")
async def test_disk_that_is_full_loses_nothing(
    database: Database, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write that fails in the middle leaves no file; the next pass brings it all."""
    await add(database, 500)
    await pass_over(database, folder)
    await add(database, 5000, seed=1)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a write beyond the limit then fails, as on a full disk
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
        with pytest.raises(ExportError, match="File too large"):
            await pass_over(database, folder)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert len(exported_ids(folder)) == 500
    await pass_over(database, folder)
    assert exported_ids(folder) == await ids(database)


@pytest.mark.stores("sqlite", "postgresql")
async def test_ids_that_are_given_out_again_are_refused(database: Database, folder: str) -> None:
    """A store restored from a backup, or emptied, is told from one that goes on; an empty one brings nothing."""
    await add(database, 20)
    await pass_over(database, folder)
    async with database.begin() as connection:
        await connection.execute(sa.delete(measurements))
    await pass_over(database, folder)
    async with database.begin() as connection:
        restart = "ALTER SEQUENCE measurements_id_seq RESTART" if database.dialect == "postgresql" else "SELECT 1"
        await connection.execute(sa.text(restart))
    await add(database, 5)
    with pytest.raises(ExportError, match="gives ids out again: name an empty directory"):
        await pass_over(database, folder)
    assert len(exported_ids(folder)) == 20
