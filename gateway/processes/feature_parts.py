"""The parts of the installed features in a worker."""

from collections.abc import Sequence

from gateway.config.schema import Config
from gateway.feature import FEATURES
from gateway.proxy.types import Mitigation
from gateway.worker_part import WorkerContext, WorkerPart


def worker_parts(context: WorkerContext) -> list[WorkerPart]:
    """Return the part of each installed feature that has one in a worker."""
    parts = (feature.worker_part(context) for feature in FEATURES.values())
    return [part for part in parts if part is not None]


def mitigation_of(parts: Sequence[WorkerPart], config: Config) -> Mitigation | None:
    """Return what treats the requests of a configuration; None where no part does. Raises ConfigError."""
    treating = (part.mitigation(config) for part in parts)
    return next((each for each in treating if each is not None), None)
