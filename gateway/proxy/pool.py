"""Kept-alive connections to a single upstream, opened when asked for and handed to the request that waits longest."""

import asyncio
import errno
import socket
import ssl
from collections import deque
from time import perf_counter
from typing import Protocol

from gateway.proxy.connection import UpstreamConnection

IDLE_SECONDS = 4.0
"""Idle seconds after which a connection is closed, below vLLM's 5 s: no request races with the server's close."""

SLOW_CONNECT_SECONDS = 1.0
"""Slower attempts (TCP repeats a lost SYN after 1 s) go on, but requests may go elsewhere."""
DEAD_PEER_SECONDS = 30
"""A peer without any sign for so long is given up, even in the middle of a request: the system asks a silent peer."""

_OUT_OF_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE})


class ConnectFailure(Exception):
    """No connection could be opened. `is_ours`: this process is at fault (out of descriptors), not the upstream."""

    def __init__(self, what: str, *, is_ours: bool, timed_out: bool) -> None:
        super().__init__(what)
        self.is_ours = is_ours
        self.timed_out = timed_out


class Waiter(Protocol):
    """Asks for a connection and gets exactly one of the first two calls, unless it was withdrawn."""

    def on_connection(self, connection: UpstreamConnection) -> None: ...

    def on_connect_failure(self, failure: ConnectFailure) -> None: ...

    def on_pool_unavailable(self) -> None:
        """A connection here may be long in coming: it may withdraw and ask another pool."""


class PoolOwner(Protocol):
    """Learns of an upstream's state from the attempts to connect to it."""

    def connect_failed(self, failure: ConnectFailure) -> None: ...

    def connects_slowly(self, seconds: float) -> None: ...


class Pool:
    """Connections to one host and port."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        tls: ssl.SSLContext | None,
        max_connections: int,
        connect_seconds: float,
        owner: PoolOwner,
    ) -> None:
        self._host = host
        self._port = port
        self._tls = tls
        self._max_connections = max_connections
        self._connect_seconds = connect_seconds
        self._owner = owner
        self._idle: deque[UpstreamConnection] = deque()
        self._open: set[UpstreamConnection] = set()
        self._waiters: deque[Waiter] = deque()
        self._connecting: dict[asyncio.Task[None], float] = {}
        """Attempts, oldest first, and when each began (time.perf_counter())."""

    def acquire(self, waiter: Waiter) -> None:
        """Calls `waiter.on_connection` at once when a connection is idle, else later."""
        freshest = perf_counter() - IDLE_SECONDS
        while self._idle:
            connection = self._idle.pop()
            if connection.transport.is_closing():
                continue
            if connection.idle_since > freshest:
                waiter.on_connection(connection)
                return
            connection.abort()
        self._waiters.append(waiter)
        self._connect_if_needed()

    def withdraw(self, waiter: Waiter) -> None:
        if waiter in self._waiters:
            self._waiters.remove(waiter)

    def released(self, connection: UpstreamConnection) -> None:
        if self._waiters:
            self._waiters.popleft().on_connection(connection)
        else:
            connection.idle_since = perf_counter()
            self._idle.append(connection)

    def lost(self, connection: UpstreamConnection) -> None:
        self._open.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        self._connect_if_needed()

    def notify_waiters(self) -> None:
        for waiter in list(self._waiters):
            waiter.on_pool_unavailable()

    def tick(self, now: float) -> None:
        """Closes what has been idle too long, and notices slow attempts to connect; `now` is time.perf_counter()."""
        while self._idle and self._idle[0].idle_since <= now - IDLE_SECONDS:
            self._idle.popleft().abort()
        if self._connecting and now - next(iter(self._connecting.values())) > SLOW_CONNECT_SECONDS:
            self._owner.connects_slowly(SLOW_CONNECT_SECONDS)

    async def close(self) -> None:
        self._waiters.clear()
        for task in list(self._connecting):
            task.cancel()
        await asyncio.gather(*self._connecting, return_exceptions=True)
        for connection in list(self._open):
            connection.abort()

    def _connect_if_needed(self) -> None:
        room = self._max_connections - len(self._open) - len(self._connecting)
        if room > 0 and len(self._waiters) > len(self._connecting):
            task = asyncio.get_running_loop().create_task(self._connect())
            self._connecting[task] = perf_counter()
            task.add_done_callback(self._connected)

    def _connected(self, task: asyncio.Task[None]) -> None:
        del self._connecting[task]
        self._connect_if_needed()

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._connect_seconds):
                transport, connection = await loop.create_connection(
                    lambda: UpstreamConnection(self), self._host, self._port, ssl=self._tls
                )
        except TimeoutError:
            self._refuse_one(ConnectFailure("did not accept a connection in time", is_ours=False, timed_out=True))
        except OSError as exc:
            is_ours = exc.errno in _OUT_OF_DESCRIPTORS
            what = f"cannot be reached ({exc.strerror or exc})"
            self._refuse_one(ConnectFailure(what, is_ours=is_ours, timed_out=False))
        else:
            _watch_peer(transport.get_extra_info("socket"))
            self._open.add(connection)
            if transport.is_closing():
                self.lost(connection)
            else:
                self.released(connection)

    def _refuse_one(self, failure: ConnectFailure) -> None:
        waiter = self._waiters.popleft() if self._waiters else None
        self._owner.connect_failed(failure)
        if waiter is not None:
            waiter.on_connect_failure(failure)


def _watch_peer(sock: socket.socket) -> None:
    """Lets the system find out when the other machine is gone without a word, in DEAD_PEER_SECONDS."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, DEAD_PEER_SECONDS // 2)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, DEAD_PEER_SECONDS // 10)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 5)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1000 * DEAD_PEER_SECONDS)
