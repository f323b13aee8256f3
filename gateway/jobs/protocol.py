"""The promises of a queue of jobs. States in the database say what is to be done; a job may run again after a crash."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

Handler = Callable[[dict[str, Any]], Awaitable[None]]
"""Does one job, given its payload. Raising means: try again later."""

MAX_ATTEMPTS = 5
RETRY_SECONDS = 1
"""Pause before the second attempt; it doubles with each further one."""
LEASE_SECONDS = 15.0
"""A worker that gives no sign of life for this long is taken for dead, and its jobs for abandoned."""


class JobQueue(Protocol):
    """Hands out jobs to any number of workers in any number of processes."""

    failures: dict[str, int]
    """Jobs given up after MAX_ATTEMPTS in this process, by task."""

    async def defer(self, task: str, payload: dict[str, Any], *, lock: str | None = None, priority: int = 0) -> None:
        """Add a job durably, or nothing while its `lock` waits. Larger `priority` first, then by arrival."""
        ...

    async def defer_many(self, task: str, payloads: Sequence[dict[str, Any]]) -> None:
        """Adds a job for each payload, of which there is at least one; all or none, without locks, at priority 0."""
        ...

    async def work(self, handlers: Mapping[str, Handler], *, concurrency: int, stop: asyncio.Event, name: str) -> None:
        """Runs jobs of these tasks until `stop` is set, then lets running ones finish for a moment."""
        ...

    async def pending(self, task: str) -> list[dict[str, Any]]:
        """Payloads of this task's jobs that wait or run, in no particular order."""
        ...

    async def recover(self) -> int:
        """Makes jobs of dead workers ready again. Returns how many."""
        ...

    async def close(self) -> None: ...
