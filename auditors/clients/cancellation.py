"""Runs requests over httpx so that they end before their cancelled caller does, alone or several at once.

A second cancellation that interrupts the closing of a connection after the first loses that connection for good
(httpcore 1.0.9, https://github.com/encode/httpcore/issues/1093), as when the limits of a request and its audit run out
together. So a request runs in a task of its own, which is cancelled once, and httpx has no time limit but for
connecting. A cancellation in the very step in which a connection is there is lost in anyio 4.16, so it is repeated
after a while.
"""

import asyncio
import contextlib
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any, TypeVar

AGAIN_SECONDS = 1.0
"""After which a request that goes on is cancelled again: far longer than closing a connection takes."""

_T = TypeVar("_T")


async def cancelled_once(work: Coroutine[Any, Any, _T]) -> _T:
    """Run the coroutine and return its result, or raise its exception. Cancelled, it passes the first cancellation on
    and none that come within a second, and ends when the coroutine has.
    """
    task = asyncio.create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await _ended([task], again=True)
        raise


async def all_of(work: Iterable[Coroutine[Any, Any, _T]]) -> list[_T]:
    """Run the coroutines at once and return their results in order, or raise the first exception. Unlike asyncio.gather
    it ends when all of them have, so that none still connects when its caller closes a client.
    """
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
