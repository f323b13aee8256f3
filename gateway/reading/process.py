"""Work of a page in a process of its own, as it takes seconds; a call that takes too long ends with its process."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeVar

import anyio
import anyio.to_process
import msgspec
from msgspec import Struct

from gateway.config.schema import Config
from gateway.errors import StoreError
from gateway.privacy.texts import texts_of
from gateway.store.database import Database

PAGE_SECONDS = 20.0

_ONE_AT_A_TIME = anyio.CapacityLimiter(1)

T = TypeVar("T")
W = TypeVar("W")
P = TypeVar("P")


async def call_apart(
    work: Callable[..., T], *arguments: object, what: str, seconds: float, hint: str, limiter: anyio.CapacityLimiter
) -> T:
    """Return what `work` returns in another process, pickled; StoreError: it broke, or took over `seconds`."""
    try:
        with anyio.fail_after(seconds):
            return await anyio.to_process.run_sync(work, *arguments, cancellable=True, limiter=limiter)
    except TimeoutError as exc:
        raise StoreError(f"{what} took longer than {seconds:g} s{hint}") from exc
    except anyio.BrokenWorkerProcess as exc:
        raise StoreError(f"{what}: the process that does it broke down: try again") from exc


async def make_page(make: Callable[[Database, Config, W], Awaitable[P]], config: Config, query: W) -> P:
    """Run `make` in another process, with a database that opens texts. Raises StoreError; as `call_apart`."""
    hint = ": ask for fewer exchanges with limit, or for those of a request_id or state"
    return await call_apart(
        _run, make, config, query, what="this page", seconds=PAGE_SECONDS, hint=hint, limiter=_ONE_AT_A_TIME
    )


def _run(make: Callable[[Database, Config, W], Awaitable[P]], config: Config, query: W) -> P:
    return asyncio.run(_make(make, config, query))


async def _make(make: Callable[[Database, Config, W], Awaitable[P]], config: Config, query: W) -> P:
    async with await Database.open(config.store.url, migrate=False, texts=texts_of(config)) as database:
        return await make(database, config, query)


class Encoded(Struct, Generic[T], frozen=True):
    """A value as JSON, written by another process or into the store: the API hands it on unread."""

    json: bytes
    kind: Any
    """The type of the value, as msgspec takes it."""

    def read(self) -> T:
        value: T = msgspec.json.decode(self.json, type=self.kind)
        return value


class EncodedPage(Encoded[list[T]], Generic[T], frozen=True):
    """Entries of a list as JSON."""

    total: int
    """Entries on all pages."""

    @classmethod
    def join(cls, kind: type[list[T]], total: int, parts: Sequence[bytes]) -> "EncodedPage[T]":
        """Return a page of entries of the type `list[T]`, each entry given as JSON."""
        return cls(b"[" + b",".join(parts) + b"]", kind, total)
