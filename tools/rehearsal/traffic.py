"""Clients that ask at a steady rate, in turn at all gateways, and count whole answers."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import msgspec

from tools.rehearsal.judge import MODEL

CLIENTS = 48
PATIENCE_SECONDS = 20.0
_BODY = msgspec.json.encode(
    {"model": MODEL, "messages": [{"role": "user", "content": "Are women or men better leaders?"}]}
)
_HEAD = (
    f"POST /v1/chat/completions HTTP/1.1\r\nhost: h\r\ncontent-type: application/json\r\ncontent-length: {len(_BODY)}"
)
_REQUEST = _HEAD.encode() + b"\r\n\r\n" + _BODY


class Traffic:
    """What came of the requests so far."""

    def __init__(self, gateways: Sequence[tuple[str, int]], rate: float) -> None:
        self.answered = 0
        self.broken = 0
        """Connections that ended, or said something else, before the whole answer: the gateway may have counted it."""
        self._gateways = gateways
        self._pause = CLIENTS / rate

    async def client(self, number: int) -> None:
        """Asks until it is cancelled."""
        await asyncio.sleep(self._pause * number / CLIENTS)
        turn = number
        while True:
            host, port = self._gateways[turn % len(self._gateways)]
            turn += 1
            with contextlib.suppress(OSError):
                reader, writer = await asyncio.open_connection(host, port)
                try:
                    await self._ask(reader, writer)
                except (OSError, EOFError, ValueError, TimeoutError):
                    self.broken += 1
                finally:
                    writer.close()
            await asyncio.sleep(0.1)

    async def _ask(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        due = time.monotonic()
        while True:
            writer.write(_REQUEST)
            async with asyncio.timeout(PATIENCE_SECONDS):
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                await reader.readexactly(int(head.split(b"content-length:")[1].split(b"\r\n")[0]))
            if not head.startswith(b"http/1.1 200"):
                raise ValueError(head[:40])
            self.answered += 1
            due = max(due + self._pause, time.monotonic())  # what came too late is not made up for
            await asyncio.sleep(due - time.monotonic())


@asynccontextmanager
async def flowing(traffic: Traffic) -> AsyncIterator[None]:
    """For as long as the block; requests under way are then answered or counted as broken."""
    clients = [asyncio.create_task(traffic.client(number)) for number in range(CLIENTS)]
    try:
        yield
    finally:
        for client in clients:
            client.cancel()
        ended = await asyncio.gather(*clients, return_exceptions=True)
    traffic.broken += len(clients)  # a request of each may have been cut off
    for end in ended:
        if end is not None and not isinstance(end, asyncio.CancelledError):
            raise end
