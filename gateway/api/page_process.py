"""Pages of exchanges are made in a process of their own: unsealing, reading and redacting megabytes takes seconds.

An event loop with live requests on it only hands the finished page on. One page is made at a time, and one that takes
longer than PAGE_SECONDS is given up together with its process.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio
import anyio.to_process

from gateway.config.schema import Config
from gateway.errors import StoreError
from gateway.privacy.texts import texts_of
from gateway.store.database import Database

PAGE_SECONDS = 20.0

_ONE_AT_A_TIME = anyio.CapacityLimiter(1)

W = TypeVar("W")
P = TypeVar("P")


async def made_elsewhere(make: Callable[[Database, Config, W], Awaitable[P]], config: Config, wanted: W) -> P:
    """What `make` returns, in the other process, with a database that opens texts as `config` says.

    Args:
        make: a function of a module, as it is named to the other process.
        config: of the gateway.
        wanted: handed on to `make`; like the page it has to be picklable.

    Raises: StoreError when the store cannot be read or the page takes too long; what `make` raises.
    """
    try:
        with anyio.fail_after(PAGE_SECONDS):
            return await anyio.to_process.run_sync(
                _made_here, make, config, wanted, cancellable=True, limiter=_ONE_AT_A_TIME
            )
    except TimeoutError as exc:
        raise StoreError(
            f"this page took longer than {PAGE_SECONDS:g} s: ask for fewer exchanges with limit, "
            "or for those of a request_id or state"
        ) from exc
    except anyio.BrokenWorkerProcess as exc:
        raise StoreError("the process that makes pages of exchanges broke down: try again") from exc


def _made_here(make: Callable[[Database, Config, W], Awaitable[P]], config: Config, wanted: W) -> P:
    return asyncio.run(_opened(make, config, wanted))


async def _opened(make: Callable[[Database, Config, W], Awaitable[P]], config: Config, wanted: W) -> P:
    database = await Database.open(config.store.url, migrate=False, texts=texts_of(config))
    try:
        return await make(database, config, wanted)
    finally:
        await database.close()
