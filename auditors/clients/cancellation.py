"""Runs requests over httpx so that they end before their cancelled caller does, alone or several at once.
A second cancellation while a connection closes loses the connection (httpcore 1.0.9, encode/httpcore#1093). So a
request runs in its own task, cancelled once, and httpx has no time limit but for connecting. anyio 4.16 loses a
cancellation in the step in which a connection is there, so it is repeated.
"""

import asyncio
import contextlib
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any, TypeVar

AGAIN_SECONDS = 1.0
"""After which a request that goes on is cancelled again: far longer than closing a connection takes."""

_T = TypeVar("_T")


async def cancelled_once(work: Coroutine[Any, Any, _T]) -> _T:
    """Run the coroutine. Cancelled, pass the first cancellation on, none within a second, and end when it has."""
    task = asyncio.create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await _ended([task], again=True)
        raise


async def all_of(work: Iterable[Coroutine[Any, Any, _T]]) -> list[_T]:
    """Run all at once; results in order or the first exception, when all have ended, unlike with asyncio.gather."""
    tasks = [asyncio.create_task(coroutine) for coroutine in work]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        await _ended(tasks)
        raise


async def _ended(tasks: Sequence[asyncio.Task[Any]], *, again: bool = False) -> None:
    """Cancel the tasks that run and were not cancelled yet, and wait for them even if the caller is cancelled."""
    now = asyncio.get_running_loop().time
    for task in tasks:
        if not task.cancelling():
            task.cancel()
    next_time = now() + AGAIN_SECONDS
    while running := {task for task in tasks if not task.done()}:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait(running, timeout=next_time - now() if again else None)
        if again and now() >= next_time:
            next_time = now() + AGAIN_SECONDS
            for task in running:
                task.cancel()
    for task in tasks:
        if not task.cancelled():
            task.exception()  # what came too late is nobody's: looked at, it is not reported as lost
