"""The parts of the installed features in a worker."""

from gateway.feature import FEATURES
from gateway.worker_part import WorkerContext, WorkerPart


def worker_parts(context: WorkerContext) -> list[WorkerPart]:
    """Return the part of each installed feature that has one in a worker."""
    parts = (feature.worker_part(context) for feature in FEATURES.values())
    return [part for part in parts if part is not None]
