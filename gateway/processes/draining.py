"""Ends a worker's server: not ready first, then closed to new clients, then done with the old ones. The listening
socket is closed: a refused connection, unlike a 503, tells client and balancer that nothing was sent, so the request
can go elsewhere without a risk, and no process has to stay for it.
"""

import asyncio
import contextlib
import gc
import logging
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn

from gateway.config.schema import ServerConfig
from gateway.proxy.data_planes import DataPlanes

logger = logging.getLogger(__name__)

IDLE_SECONDS = 1.0
"""Connections between two requests stay open this long: a busy client learns from its next response to leave."""
UNUSED_SECONDS = 2.0
"""The same for connections on which no request has come yet: the client that opened it is about to send its request."""
FLUSH_SECONDS = 2.0
"""Seconds that clients are given to take the last bytes of exchanges that were ended."""
TICK_SECONDS = 0.05


class DrainingServer(uvicorn.Server):
    """uvicorn's server with its end rewritten: waits for the exchanges of `planes`, by the drain times of `limits`.
    `on_ready` is called once requests are accepted; `stopping` begins the end, `hurrying` cuts it short.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        planes: DataPlanes,
        limits: ServerConfig,
        on_ready: Callable[[], None],
        *,
        stopping: asyncio.Event,
        hurrying: asyncio.Event,
    ) -> None:
        super().__init__(config)
        self._planes = planes
        self._limits = limits
        self._on_ready = on_ready
        self._stopping = stopping
        self._hurrying = hurrying

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the process's business, not the server's."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        gc.freeze()  # modules and routes live for good: a full collection among requests need not walk through them
        self._on_ready()

    async def main_loop(self) -> None:
        """Serves until the end was announced, and through the announcement."""
        await self.on_tick(0)
        await self._stopping.wait()
        self._planes.begin_draining()
        self.server_state.default_headers = [*self.server_state.default_headers, (b"connection", b"close")]
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._hurrying.wait(), self._limits.drain_notice_seconds)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Takes no new connection, waits for the old ones, ends what is left when the time is over."""
        began, live = time.monotonic(), self._planes.live
        await self._close_port(sockets or [])
        for seconds, closes_unused in ((IDLE_SECONDS, False), (UNUSED_SECONDS, True)):
            await self._until_empty(began + min(seconds, self._limits.drain_seconds), unless=self._hurrying)
            connections: list[Any] = list(self.server_state.connections)
            for connection in connections:  # those between two requests; the others close behind their response
                if closes_unused or connection.cycle is not None:
                    connection.shutdown()
        await self._until_empty(began + self._limits.drain_seconds, unless=self._hurrying)
        ended = self._planes.abort_exchanges()
        for task in self.server_state.tasks:
            task.cancel()
        if ended:
            logger.warning(
                "%d exchanges were ended unfinished after draining for %.1f s", ended, time.monotonic() - began
            )
        elif live:
            logger.warning("%d exchanges in flight were finished in %.1f s", live, time.monotonic() - began)
        await self._until_empty(time.monotonic() + FLUSH_SECONDS)

    async def _close_port(self, listeners: list[socket.socket]) -> None:
        """Closing resets what the kernel has accepted and we have not, so that is taken first."""
        waiting = [client for listener in listeners for client in _accepted(listener)]
        for server in self.servers:
            server.close()
        for listener in listeners:
            listener.close()
        for client in waiting:
            with contextlib.suppress(OSError):  # gone already
                await asyncio.get_running_loop().connect_accepted_socket(self._new_connection, client)

    def _new_connection(self) -> asyncio.Protocol:
        make: Any = self.config.http_protocol_class
        protocol: asyncio.Protocol = make(
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return protocol

    async def _until_empty(self, deadline: float, *, unless: asyncio.Event | None = None) -> None:
        while self.server_state.connections or self.server_state.tasks:
            if time.monotonic() >= deadline or (unless is not None and unless.is_set()):
                return
            await asyncio.sleep(TICK_SECONDS)  # uvicorn tells nobody when a connection goes


def _accepted(listener: socket.socket) -> Iterator[socket.socket]:
    listener.setblocking(False)
    while True:
        try:
            client, _ = listener.accept()
        except OSError:  # none is left, or this one was
            return
        client.setblocking(False)
        yield client
