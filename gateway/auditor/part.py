"""A feature's part of the auditor process: jobs, periodic actions, metric families and their samples."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pkgutil import resolve_name
from typing import Any, ClassVar, NamedTuple, Protocol

import msgspec
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from sqlalchemy.ext.asyncio import AsyncConnection

from auditors.streams.drift import DriftSettings
from auditors.types import Exchange
from gateway.auditor.backpressure.limiter import ConcurrencyLimiters
from gateway.auditor.enabled import EnabledAuditors
from gateway.config.schema import Config
from gateway.jobs import JobQueue
from gateway.store.database import Database
from gateway.streams.recording import Measured


def counter(name: str, text: str, labels: Sequence[str]) -> CounterMetricFamily:
    """Return an empty counter family `biasgate_NAME_total` with its help text."""
    return CounterMetricFamily(f"biasgate_{name}", text, labels=labels)


def gauge(name: str, text: str, labels: Sequence[str]) -> GaugeMetricFamily:
    """Return an empty gauge family `biasgate_NAME` with its help text."""
    return GaugeMetricFamily(f"biasgate_{name}", text, labels=labels)


def interval(name: str, text: str, labels: Sequence[str]) -> tuple[GaugeMetricFamily, ...]:
    """Return three gauge families: a value, the lower and the upper end of its interval."""
    ends = {"": text, "_lower": "Lower end of its 95 % interval.", "_upper": "Upper end."}
    return tuple(gauge(f"{name}{end}", words, labels) for end, words in ends.items())


def put(family: GaugeMetricFamily, labels: Sequence[str], value: float | None) -> None:
    """Add a sample; none where the value is None, for undefined is not zero."""
    if value is not None:
        family.add_metric(labels, value)


class AuditorContext(msgspec.Struct, frozen=True, kw_only=True):
    """The objects of a running auditor that a feature may use. The auditor opens and closes them."""

    config: Config
    database: Database
    queue: JobQueue
    enabled_auditors: EnabledAuditors
    limiters: ConcurrencyLimiters
    settings: DriftSettings
    secret: bytes
    """The sampling secret."""
    stop: asyncio.Event
    """Set when the auditor is to end."""


class Job(NamedTuple):
    """A kind of job in the queue."""

    handler: Callable[[dict[str, Any]], Awaitable[None]]
    concurrency: int
    """Jobs in progress at once, in this auditor."""


class Periodic(NamedTuple):
    """An action that the auditor repeats."""

    seconds: float
    """Pause between the end of an action and the next."""
    action: Callable[[], Awaitable[None]]


class AuditorPart:
    """The part of a single feature in a single auditor. Every method has an empty default."""

    def __init__(self, context: AuditorContext) -> None:
        """Raises ConfigError for a configuration that this part cannot work with."""

    def jobs(self) -> Mapping[str, Job]:
        """Return the jobs that this part handles, by task name."""
        return {}

    def periodic(self) -> Sequence[Periodic]:
        """Return the actions that the auditor repeats until it ends."""
        return ()

    async def sweep(self) -> None:
        """Queue a job for each piece of work in the store that waits without one. Raises StoreError."""

    def needs_quality(self, exchange: Exchange) -> bool:
        """Return whether `recorded` gets the quality of this exchange's answer (`auditors.answer_quality`) too."""
        return False

    async def recorded(self, connection: AsyncConnection, audits: Sequence[Measured]) -> None:
        """Write what this feature derives from new measurements: see `gateway.store.measurements.Follower`."""

    async def families(self) -> Sequence[Metric]:
        """Read the metric families of this feature from the store. Raises StoreError."""
        return ()

    async def aclose(self) -> None:
        """Close what this part opened."""


class AuditorFeature(Protocol):
    """A feature, as the auditor sees it."""

    auditor_part: ClassVar[str | None]

    def weight_share(self, config: Config) -> float: ...


def parts_of(features: Iterable[AuditorFeature], context: AuditorContext) -> list[AuditorPart]:
    """Return the part of each feature that has one in an auditor. Raises ConfigError."""
    return [resolve_name(place)(context) for feature in features if (place := feature.auditor_part) is not None]
