"""One attempt at a job, the same for both queues: how long to wait before the next, and when to give up."""

import logging
from typing import Any

from gateway.jobs.protocol import MAX_ATTEMPTS, RETRY_SECONDS, Handler

logger = logging.getLogger(__name__)


async def attempt(
    task: str, handler: Handler, payload: dict[str, Any], attempts: int, failures: dict[str, int]
) -> Exception | None:
    """Runs a handler and returns what it raised. The last attempt's failure is logged as one and counted."""
    try:
        await handler(payload)
    except Exception as exc:
        if is_last(attempts):
            failures[task] = failures.get(task, 0) + 1
            logger.exception("job %s was given up after %d attempts", task, attempts)
        else:
            logger.warning("job %s failed, attempt %d of %d: %s", task, attempts, MAX_ATTEMPTS, exc)
        return exc
    return None


def is_last(attempts: int) -> bool:
    """Return whether no further attempt follows this one (counted from 1)."""
    return attempts >= MAX_ATTEMPTS


def delay_seconds(attempts: int) -> int:
    """Pause after attempt number `attempts`, counted from 1: 1, 2, 4, 8 seconds."""
    return RETRY_SECONDS << (attempts - 1)
