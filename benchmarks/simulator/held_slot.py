"""Holds a slot while a request is answered, and gives it up at once when the client leaves, as vLLM aborts."""

from collections.abc import Awaitable, Callable

from benchmarks.simulator.asgi import Call
from benchmarks.simulator.engine import Engine
from benchmarks.simulator.text_request import Asked


async def attend(engine: Engine, call: Call, asked: Asked, work: Callable[[], Awaitable[None]]) -> None:
    """Runs `work` in a slot. Raises ClientGone when the client left before the end."""
    if engine.immediate:
        await _in_slot(engine, asked, work)
    else:
        await call.unless_gone(_in_slot(engine, asked, work))


async def _in_slot(engine: Engine, asked: Asked, work: Callable[[], Awaitable[None]]) -> None:
    async with engine.slot(asked):
        await work()
