"""Miles of cable before a server: what is sent either way arrives later, by the same time, in order.

`python -m tools.rehearsal.distance HOST PORT TARGET_HOST TARGET_PORT MILLISECONDS`. Few kernels of containers have
netem; this is TCP on both sides, and what is under way is lost when it is killed.
"""

import asyncio
import sys
from collections import deque


class Cable(asyncio.Protocol):
    """One end of a connection: hands on what it receives to the other end, later."""

    def __init__(self, seconds: float) -> None:
        self.other: Cable | None = None
        self.transport: asyncio.Transport | None = None
        self._seconds = seconds
        self._under_way: deque[tuple[float, bytes | None]] = deque()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._send(data)

    def connection_lost(self, _: Exception | None) -> None:
        self._send(None)

    def _send(self, data: bytes | None) -> None:
        """None is the end."""
        loop = asyncio.get_running_loop()
        due = loop.time() + self._seconds
        self._under_way.append((due, data))
        if len(self._under_way) == 1:
            loop.call_at(due, self._arrive)

    def _arrive(self) -> None:
        loop = asyncio.get_running_loop()
        while self._under_way:
            due, data = self._under_way[0]
            if due > loop.time():
                loop.call_at(due, self._arrive)
                return
            self._under_way.popleft()
            end = self.other.transport if self.other is not None else None
            if end is None or end.is_closing():
                continue
            if data is None:
                end.close()
            else:
                end.write(data)


class Near(Cable):
    """The end that clients connect to; it connects on."""

    def __init__(self, seconds: float, host: str, port: int) -> None:
        super().__init__(seconds)
        self._target = (host, port)
        self._connecting: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        assert self.transport is not None
        self.transport.pause_reading()
        self._connecting = asyncio.get_running_loop().create_task(self._connect())

    async def _connect(self) -> None:
        assert self.transport is not None
        try:
            _, far = await asyncio.get_running_loop().create_connection(lambda: Cable(self._seconds), *self._target)
        except OSError:
            self.transport.abort()
            return
        far.other, self.other = self, far
        self.transport.resume_reading()


async def serve(host: str, port: int, target: tuple[str, int], seconds: float) -> None:
    """Until it is ended."""
    server = await asyncio.get_running_loop().create_server(lambda: Near(seconds, *target), host, port)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    here, port, there, far_port, milliseconds = sys.argv[1:]
    asyncio.run(serve(here, int(port), (there, int(far_port)), float(milliseconds) / 1000))
