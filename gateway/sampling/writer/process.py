"""The writer process: one for each gateway, of low priority, started by the owner of the workers."""

import asyncio
import contextlib
import gc
import logging
import math
import os
import signal
import socket
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path

from auditors.types import Exchange
from gateway.children import logs
from gateway.children.parent_pipe import ParentPipe
from gateway.config.schema import Config
from gateway.errors import StoreError
from gateway.jobs import JobQueue, open_queue
from gateway.privacy.texts import Texts, texts_of
from gateway.sampling.writer import launch
from gateway.sampling.writer.direct import DirectSink
from gateway.sampling.writer.journal import settle_orphans, store_of
from gateway.sampling.writer.remote import Answer, Batch, BrokenFrameError, decoded, framed, read_frame
from gateway.sampling.writer.sink import ExchangeSink
from gateway.store import deliveries
from gateway.store.database import Database
from gateway.store.deliveries import Delivery
from gateway.store.ledger import Deltas

logger = logging.getLogger(__name__)


async def serve_batches(sink: ExchangeSink, listener: socket.socket, stop: asyncio.Event) -> None:
    """Serve a listening Unix socket until stopped; batches then being stored are answered, later ones get repeated."""
    talks: dict[asyncio.Task[None], _Talk] = {}

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        talk = _Talk(sink, reader, writer, stop)
        task = asyncio.create_task(talk.run())
        talks[task] = talk
        task.add_done_callback(talks.pop)

    server = await asyncio.start_unix_server(connected, sock=listener)
    await stop.wait()
    server.close()
    for task, talk in talks.items():
        if not talk.has_batch:
            task.cancel()
    await asyncio.gather(*talks, return_exceptions=True)


class _Talk:
    def __init__(
        self, sink: ExchangeSink, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, stop: asyncio.Event
    ) -> None:
        self._sink = sink
        self._reader = reader
        self._writer = writer
        self._stop = stop
        self.has_batch = False

    async def run(self) -> None:
        try:
            while not self._stop.is_set() and (payload := await read_frame(self._reader)) is not None:
                self.has_batch = True
                self._writer.write(framed(await self._answer(payload)))
                await self._writer.drain()
                self.has_batch = False
        except BrokenFrameError as exc:
            logger.warning("a worker's connection is closed: %s", exc)
        except OSError:
            pass  # the worker died, and repeats nothing
        finally:
            self._writer.close()
            with contextlib.suppress(OSError):
                await self._writer.wait_closed()

    async def _answer(self, payload: bytes) -> Answer:
        try:
            batch = decoded(payload, Batch)
            if batch.verdicts is None:
                moved = await self._sink.write(batch.exchanges, batch.counts(), batch.delivery)
            else:
                verdicts = {exchange_id: (stratum, outcome) for exchange_id, stratum, outcome in batch.verdicts}
                moved = await self._sink.ingest(batch.exchanges, verdicts)
        except StoreError as exc:
            return Answer("later", str(exc))
        except Exception as exc:  # its words may have served text in them: kind and place say enough
            place = "".join(traceback.format_tb(exc.__traceback__))
            logger.error("a batch was refused with %s:\n%s", type(exc).__qualname__, place)
            return Answer("refused", type(exc).__qualname__)
        return Answer("stored", moved=[(stratum, outcome, more) for (stratum, outcome), more in moved.items()])


NICENESS = 10
"""Niceness if a system has no idle policy."""
ORPHANS_SECONDS = 1.0
"""Between two looks for what dead workers left behind."""
ABANDONED_SECONDS = 30.0
"""Between two looks for gateways that died with their writer."""
WORKERS_END_SECONDS = 25.0
"""Seconds that workers whose parent died may take for their last batches once they have drained."""


def run_writer(descriptor: int) -> int:
    """Run until SIGTERM or the parent's death, on the parent's listening socket and configuration."""
    parent_pipe = ParentPipe()
    config = parent_pipe.first_config()
    if config is None:
        return 0
    logs.configure(config.telemetry, role="writer")
    lower_priority()
    asyncio.run(_write(config, socket.socket(fileno=descriptor), parent_pipe))
    return 0


def lower_priority() -> None:
    """Use the processor time that workers leave. Linux preempts at once in a session only: stay in the parent's."""
    os.nice(NICENESS)
    with contextlib.suppress(AttributeError, OSError):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


async def _write(config: Config, listener: socket.socket, parent_pipe: ParentPipe) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    loop.add_signal_handler(signal.SIGHUP, lambda: None)  # the parent reads the file
    parent_is_gone = asyncio.Event()
    # What a reload changes here comes with a restart of this process; see WRITER_SECTIONS.
    parent_pipe.watch(lambda _config: None, parent_is_gone.set)
    sink = LazySink(config.store.url, texts_of(config), config.sampling.max_text_bytes)
    directory = Path(listener.getsockname()).parent
    gc.freeze()
    settling = asyncio.create_task(_settle_regularly(directory, sink))

    async def end_after_workers() -> None:
        await parent_is_gone.wait()
        deadline = loop.time() + config.server.drain_seconds + WORKERS_END_SECONDS
        while await _settle(directory, sink) and loop.time() < deadline:  # noqa: ASYNC110 - no event comes from another process
            await asyncio.sleep(0.05)
        stop.set()

    ending = asyncio.create_task(end_after_workers())
    try:
        await serve_batches(sink, listener, stop)
        for task in (settling, ending):
            task.cancel()
        await asyncio.gather(settling, ending, return_exceptions=True)
        await _settle(directory, sink)
    finally:
        await sink.close()


async def _settle_regularly(directory: Path, sink: ExchangeSink) -> None:
    looked_at = -math.inf
    while True:
        await asyncio.sleep(ORPHANS_SECONDS)
        await _settle(directory, sink)
        store = store_of(directory)
        if store is not None and time.monotonic() - looked_at >= ABANDONED_SECONDS:
            living = [await _settle(other, sink) for other in launch.abandoned(directory, store)]
            looked_at = -math.inf if any(living) else time.monotonic()


async def _settle(directory: Path, sink: ExchangeSink) -> int:
    try:
        return await settle_orphans(directory, sink)
    except Exception:  # the journals stay, and copies must be stored meanwhile
        logger.exception("what a dead worker left behind cannot be settled")
        return 0


class LazySink:
    """An `ExchangeSink` that opens the database when needed, so it may be away before; the schema must exist."""

    def __init__(self, url: str, texts: Texts, max_text_bytes: int) -> None:
        self._url = url
        self._texts = texts
        self._max_text_bytes = max_text_bytes
        self._opening = asyncio.Lock()
        self._opened: tuple[Database, JobQueue, DirectSink] | None = None

    async def write(self, batch: Sequence[Exchange], deltas: Deltas, delivery: Delivery) -> Deltas:
        return await (await self._open()).write(batch, deltas, delivery)

    async def ingest(self, batch: Sequence[Exchange], verdicts: Mapping[str, tuple[str, str]]) -> Deltas:
        return await (await self._open()).ingest(batch, verdicts)

    async def close(self) -> None:
        if self._opened is not None:
            database, queue, _ = self._opened
            await queue.close()
            await database.close()

    async def _open(self) -> DirectSink:
        async with self._opening:
            if self._opened is None:
                database = await Database.open(self._url, migrate=False, texts=self._texts)
                try:
                    await deliveries.forget_old(database)
                except StoreError:
                    await database.close()
                    raise
                queue = open_queue(database)
                self._opened = (database, queue, DirectSink(database, queue, self._max_text_bytes))
            return self._opened[2]
