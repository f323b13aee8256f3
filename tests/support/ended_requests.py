"""Requests that a worker counts without having relayed them."""

from gateway.proxy.types import EndedRequest
from gateway.telemetry.worker_stats import WorkerStats


def end_one(
    stats: WorkerStats,
    *,
    duration: float = 0.02,
    overhead: float = 0.0002,
    first_chunk: float | None = 0.01,
    model: str = "m",
    request_id: str = "r-1",
    trace_id: str = "",
) -> None:
    """Counts a complete chat completion of the upstream "a"; times in seconds."""
    stats.started("a")
    stats.ended(
        EndedRequest(
            upstream="a",
            model=model,
            endpoint="/v1/chat/completions",
            outcome="complete",
            duration_seconds=duration,
            overhead_seconds=overhead,
            first_chunk_seconds=first_chunk,
            was_started=True,
            request_id=request_id,
            trace_id=trace_id,
        )
    )
