"""The data plane in force, and those before it that still have exchanges to finish. Each has one configuration for
good; a reload turns every next request to a new plane, on old connections too.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from gateway.config.schema import Config
from gateway.health import SERVER
from gateway.proxy.data_plane import DataPlane
from gateway.proxy.types import Mitigation

if TYPE_CHECKING:
    from gateway.proxy.protocol import RelayProtocol

logger = logging.getLogger(__name__)

RETIRE_SECONDS = 1.0
"""A pipelined request belongs to the plane it was read for, and may begin a moment after that plane fell idle."""


class DataPlanes:
    """Starts, replaces and stops data planes."""

    def __init__(self, first: DataPlane) -> None:
        self.current = first
        self._protocol: type[RelayProtocol] | None = None
        self._retiring: dict[DataPlane, asyncio.Task[None]] = {}
        self._mitigation_of: Callable[[Config], Mitigation | None] = lambda _: None
        self.is_draining = False

    def treat_by(self, mitigation_of: Callable[[Config], Mitigation | None]) -> None:
        """Treat requests by `mitigation_of` of each configuration, which may raise ConfigError; before any request."""
        self._mitigation_of = mitigation_of
        self.current.mitigation = mitigation_of(self.current.config)

    def serve_through(self, protocol: "type[RelayProtocol]") -> None:
        """Make this class of connections follow every change from now on."""
        self._protocol = protocol

    async def start(self) -> None:
        await self.current.start()

    async def replace(self, config: Config) -> None:
        """Serves by another configuration once its upstreams answered. Raises ConfigError, and changes nothing."""
        old = self.current
        mitigation = self._mitigation_of(config)
        new = DataPlane(config, tap=old.tap, stats=old.stats, spans=old.spans, mitigation=mitigation)
        await new.start()
        new.admission.inherit(old.admission)
        new.clients = old.clients  # connections go over as they are
        old.bodies.most, new.bodies = new.bodies.most, old.bodies  # and so does what their requests hold
        self.current = new
        if self._protocol is not None:
            self._protocol.plane = new
        retiring = asyncio.create_task(_retire(old), name="retiring-plane")
        self._retiring[old] = retiring
        retiring.add_done_callback(lambda _: self._retiring.pop(old))

    def begin_draining(self) -> None:
        """/readyz says so, and each response asks its client to take the next request elsewhere."""
        self.is_draining = True
        if self._protocol is not None:
            self._protocol.is_draining = True

    @property
    def live(self) -> int:
        return sum(plane.live for plane in (self.current, *self._retiring))

    def abort_exchanges(self) -> int:
        """Ends what is in flight; returns how many exchanges that were."""
        return sum(plane.abort_exchanges() for plane in (self.current, *self._retiring))

    async def stop(self) -> None:
        """Ends what is left and closes every connection to an upstream."""
        retiring = dict(self._retiring)
        for task in retiring.values():
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        for plane in (*retiring, self.current):
            await plane.stop(0.0)

    def checks(self) -> dict[str, str]:
        """Named checks; "ok" or what is wrong."""
        draining = {SERVER: "stopping: send new requests elsewhere"} if self.is_draining else {}
        return {**self.current.ready(), **draining}


async def _retire(plane: DataPlane) -> None:
    try:
        while True:
            await plane.ended()
            await asyncio.sleep(RETIRE_SECONDS)
            if not plane.live:
                break
        await plane.stop(0.0)
    except Exception:
        logger.exception("closing what an earlier configuration left failed")
