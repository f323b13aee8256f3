"""Worker and writer over a real socket: each batch is stored and acknowledged once, whatever breaks between them."""

import asyncio
import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path

import pytest

from auditors.types import Exchange
from gateway.errors import StoreError
from gateway.sampling.writer import launch
from gateway.sampling.writer.journal import counts_for
from gateway.sampling.writer.process import serve_batches
from gateway.sampling.writer.remote import PIECE_BYTES, RefusedError, RemoteSink, read_frame
from gateway.sampling.writer.sink import ExchangeSink
from gateway.store.deliveries import Delivery
from gateway.store.ledger import Deltas
from tests.support.store.made import exchange
from tests.support.waiting import eventually


class Scripted:
    """A store that does as it is told, call by call."""

    def __init__(self, *calls: Callable[[], object]) -> None:
        self.calls = list(calls)
        self.taken: list[tuple[list[str], Deltas, Delivery]] = []

    async def write(self, batch: Sequence[Exchange], deltas: Deltas, delivery: Delivery) -> Deltas:
        self.taken.append(([one.id for one in batch], deltas, delivery))
        if self.calls:
            result = self.calls.pop(0)()
            if isinstance(result, asyncio.Event):
                await result.wait()
            if isinstance(result, dict):
                return result
        return {}

    async def ingest(self, batch: Sequence[Exchange], verdicts: Mapping[str, tuple[str, str]]) -> Deltas:
        raise NotImplementedError

    async def close(self) -> None:
        pass


def raising(error: Exception) -> Callable[[], object]:
    def call() -> object:
        raise error

    return call


@contextlib.asynccontextmanager
async def writer(sink: ExchangeSink) -> AsyncIterator[tuple[str, asyncio.Event, asyncio.Task[None]]]:
    """Serves batches until the block ends: address, lever, task."""
    with launch.address() as (path, listener):
        stop = asyncio.Event()
        serving = asyncio.create_task(serve_batches(sink, listener, stop))
        yield path, stop, serving
        stop.set()
        await asyncio.wait_for(serving, 10)


def delivery(number: int) -> Delivery:
    return Delivery("sender", number, 1.0)


async def test_the_worker_hears_what_became_of_its_copies() -> None:
    """Copies that were not stored come back as counts; a frame of many pieces arrives as one."""
    moved = {("other", "queued"): -1, ("other", "truncated"): 1}
    sink = Scripted(lambda: moved)
    large = exchange(response_body=bytes(PIECE_BYTES) * 3)
    async with writer(sink) as (path, _, _):
        worker = RemoteSink(path)
        assert await worker.write([large], {("other", "queued"): 1}, delivery(1)) == moved
        assert await worker.write([], {("a", "filtered"): 1}, delivery(2)) == {}
        await worker.close()
    assert sink.taken[0][0] == [large.id]


async def test_answers_tell_later_from_never(caplog: pytest.LogCaptureFixture) -> None:
    """A store that is away can be asked again; what it refuses is over, and the log has no word of the served text."""
    sink = Scripted(raising(StoreError("the store is away")), raising(ValueError("secret words of a client")))
    async with writer(sink) as (path, _, _):
        worker = RemoteSink(path)
        with pytest.raises(StoreError, match="the store is away"):
            await worker.write([], {("a", "filtered"): 1}, delivery(1))
        with pytest.raises(RefusedError, match="ValueError"):
            await worker.write([], {("a", "filtered"): 1}, delivery(1))
        await worker.write([], {("a", "filtered"): 1}, delivery(2))
        await worker.close()
    assert "a batch was refused with ValueError" in caplog.text
    assert "secret words" not in caplog.text
    assert len(sink.taken) == 3


async def test_without_a_writer_nothing_is_acknowledged(tmp_path: Path) -> None:
    """Nobody there, or somebody who leaves without an answer: the batch has to be sent again."""
    with pytest.raises(StoreError, match="gives no answer"):
        await RemoteSink(str(tmp_path / "nobody")).write([], {("a", "filtered"): 1}, delivery(1))
    heard = []

    async def leave(reader: asyncio.StreamReader, leaving: asyncio.StreamWriter) -> None:
        heard.append(await read_frame(reader))
        leaving.close()

    server = await asyncio.start_unix_server(leave, path=tmp_path / "socket")
    worker = RemoteSink(str(tmp_path / "socket"))
    for _ in range(2):
        with pytest.raises(StoreError, match="closed"):
            await worker.write([], {("a", "filtered"): 1}, delivery(1))
    assert len(heard) == 2
    assert heard[0] == heard[1]
    server.close()


async def test_garbage_ends_its_own_connection_only() -> None:
    """What is no message is answered with a refusal or by closing; other workers notice nothing."""
    sink = Scripted()
    async with writer(sink) as (path, _, _):
        worker = RemoteSink(path)
        await worker.write([], {("a", "filtered"): 1}, delivery(1))
        for garbage in (b"\xff\xff\xff\xff", b"\x00\x00\x00\x02hi", b"\x00"):
            reader, stream = await asyncio.open_unix_connection(path)
            stream.write(garbage)
            stream.write_eof()
            assert b"stored" not in await asyncio.wait_for(reader.read(), 10)
            stream.close()
        await worker.write([], {("a", "filtered"): 1}, delivery(2))
        await worker.close()
    assert len(sink.taken) == 2


async def test_a_writer_that_is_stopped_finishes_what_it_has_in_hand() -> None:
    """The batch that is being stored is acknowledged, then the connection ends; an idle connection ends at once."""
    slow = asyncio.Event()
    sink = Scripted(lambda: None, lambda: slow)
    async with writer(sink) as (path, stop, serving):
        idle, busy = RemoteSink(path), RemoteSink(path)
        await idle.write([], {("a", "filtered"): 1}, delivery(1))
        storing = asyncio.create_task(busy.write([], {("a", "filtered"): 1}, delivery(2)))
        await eventually(lambda: len(sink.taken) == 2)
        stop.set()
        await asyncio.sleep(0.05)
        assert not serving.done()
        slow.set()
        await asyncio.wait_for(asyncio.gather(serving, storing), 10)
        with pytest.raises(StoreError):
            await asyncio.wait_for(idle.write([], {("a", "filtered"): 1}, delivery(3)), 10)
        await busy.close()


def test_addresses_are_short_private_and_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two gateways never meet, nobody else may connect, and a long TMPDIR is no obstacle."""
    long = tmp_path / ("x" * 150)
    long.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(long))
    with launch.address() as (one, _), launch.address() as (other, _):
        assert one != other
        assert len(os.fsencode(one)) < 104
        assert Path(one).parent.stat().st_mode & 0o777 == 0o700
        places = (one, other)
    assert not any(Path(place).parent.exists() for place in places)


def test_a_dead_gateway_is_found_by_its_own_store_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that was made anew at the same address gets no counts of the one before."""
    with tempfile.TemporaryDirectory() as places:  # where sockets may be: its path is short
        monkeypatch.setattr("tempfile.tempdir", places)
        monkeypatch.setattr(launch, "_SHORT_DIRECTORY", str(tmp_path))
        dead, unknown = [Path(tempfile.mkdtemp(prefix="biasgate-writer-")) for _ in range(2)]
        for directory in (dead, unknown):
            (directory / "owner").touch()
            (directory / "worker.journal").touch()
        counts_for(dead, "this store")
        with launch.address() as (path, _):
            mine = Path(path).parent
            assert list(launch.abandoned(mine, "another store")) == []
            assert list(launch.abandoned(mine, "this store")) == [dead]
            (dead / "worker.journal").unlink()
            assert list(launch.abandoned(mine, "this store")) == [dead]
            assert not dead.exists()
            assert unknown.exists()


def test_the_writer_stays_small() -> None:
    """It loads neither server nor control plane, nor what makes a schema."""
    code = (
        "import sys, gateway.sampling.writer.process, gateway.cli.serve_gateway, gateway.jobs.embedded, aiosqlite; "
        "heavy = {'litestar', 'uvicorn', 'uvloop', 'pydantic', 'httpx', 'alembic', 'numpy', 'psycopg'}; "
        "print(*sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
