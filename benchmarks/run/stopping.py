"""Ending within a second: what a run awaits is cut off, what it computes ends at its next look at `stop`."""

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

from benchmarks.errors import RunStopped

GRACE_SECONDS = 0.3
"""Seconds in which replies in flight may still arrive once a run is stopped."""
LIMIT_SECONDS = 0.5
"""Seconds that a stopped run may take for all that is left, before it is cut off."""
CLEANUP_SECONDS = 0.2
"""Seconds that work which is cut off may take to close what it has open."""

P = ParamSpec("P")
T = TypeVar("T")


async def unless_stopped(
    stop: asyncio.Event,
    work: Coroutine[Any, Any, T],
    stopped: Callable[[], RunStopped],
    *,
    within: float = LIMIT_SECONDS,
) -> T:
    """Return the result of `work`; once `stop` is set it has `within` seconds; then raises `stopped()`."""
    working, stopping = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            await asyncio.wait({working}, timeout=within)
        if not working.done():
            raise stopped()
        return working.result()
    finally:
        stopping.cancel()
        if working.cancel():
            await asyncio.wait({working}, timeout=CLEANUP_SECONDS)
            if working.done() and not working.cancelled():
                working.exception()  # of no interest any more, and noted as seen


async def in_thread(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a function as asyncio.to_thread does, but neither a cancelled caller nor the process waits for it."""
    future = concurrent.futures.Future[T]()
    future.set_running_or_notify_cancel()  # a caller that is cancelled leaves it to its end

    def work() -> None:
        try:
            result = function(*args, **kwargs)
        except BaseException as exc:
            future.set_exception(exc)
        else:
            future.set_result(result)

    threading.Thread(target=work, name=getattr(function, "__name__", "work"), daemon=True).start()
    return await asyncio.wrap_future(future)


def checkpoint_of(stop: asyncio.Event, stopped: Callable[[], RunStopped]) -> Callable[[], None]:
    """Return a function for work in a thread to call now and then: it raises `stopped()` once `stop` is set."""

    def checkpoint() -> None:
        if stop.is_set():
            raise stopped()

    return checkpoint
