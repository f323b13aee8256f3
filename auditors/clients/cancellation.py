"""Requests over httpx that several time limits may end at the same moment.

A second cancellation that interrupts the closing of a connection after the first loses that connection for good:
httpcore 1.0.9 neither closes it nor uses it again (https://github.com/encode/httpcore/issues/1093). A server that hangs
brings this about by itself, for the limit of a request and that of its audit then run out together. So a request runs
in a task of its own, which is cancelled once, and httpx gets no time limit beside that of its caller but for
connecting.
"""

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any, TypeVar

_T = TypeVar("_T")


async def cancelled_once(work: Coroutine[Any, Any, _T]) -> _T:
    """What the coroutine returns or raises.

    Cancelled, it passes the first cancellation on and none that come after, and ends when the coroutine has.
    """
    task = asyncio.create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        task.cancel()
        while not task.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait({task})
        if not task.cancelled():
            task.exception()  # what came too late is nobody's: looked at, it is not reported as lost
        raise
