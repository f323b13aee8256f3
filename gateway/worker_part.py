"""The additions of a feature to a gateway worker: objects for its route handlers, started with the app."""

from collections.abc import Callable, Mapping

import msgspec

from gateway.config.schema import Config
from gateway.proxy.data_planes import DataPlanes
from gateway.proxy.types import Mitigation
from gateway.sampling.tap import SamplingTap
from gateway.sampling.writer.sink import ExchangeSink
from gateway.store.database import Database
from gateway.telemetry.worker_stats import WorkerStats


class WorkerContext(msgspec.Struct, frozen=True, kw_only=True):
    """The objects of a worker that a feature may use. The worker opens and closes them."""

    planes: DataPlanes
    tap: SamplingTap
    database: Database
    stats: WorkerStats
    secret: bytes
    """The sampling secret."""
    open_sink: Callable[[], ExchangeSink]
    """Opens a connection to the writer of this gateway. Its caller owns it."""


class WorkerPart:
    """The part of a single feature in a single worker. Every method has an empty default."""

    def __init__(self, context: WorkerContext) -> None:
        """Open nothing: what is to run begins in `start`."""

    def dependencies(self) -> Mapping[str, object]:
        """Return the objects that route handlers take as parameters, by the name of the parameter."""
        return {}

    def mitigation(self, config: Config) -> Mitigation | None:
        """Return what treats requests, or None; the first feature by name wins. ConfigError: the old stays in force."""
        return None

    def start(self) -> None:
        """Start background tasks. Called in the event loop, after the tap has started."""

    async def stop(self) -> None:
        """Stop what `start` began, before the tap stops."""
