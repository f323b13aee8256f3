"""The writer's end: takes batches from any number of workers, stores each, answers when it is in the database."""

import asyncio
import contextlib
import logging
import socket
import traceback

from gateway.errors import StoreError
from gateway.sampling.writer.frames import Answer, Batch, BrokenFrameError, decoded, framed, read_frame
from gateway.sampling.writer.sink import ExchangeSink

logger = logging.getLogger(__name__)


async def serve_batches(sink: ExchangeSink, listener: socket.socket, stop: asyncio.Event) -> None:
    """Serves a listening Unix socket until stopped.

    Batches being stored when `stop` is set are finished and answered; those behind them are left to be repeated.
    """
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
    """One worker's connection."""

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
