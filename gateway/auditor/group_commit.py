"""Commits results of audits, which move the same few rows: what comes during a transaction shares the next."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from auditors.streams.drift import DriftSettings
from gateway.errors import StoreError
from gateway.store.database import Database
from gateway.store.measurements import Recording
from gateway.streams import recording
from gateway.streams.recording import Follower, Settling

MOST_AT_ONCE = 256
"""Most entries in a transaction: every audit that moves a stream waits for it, also in other auditors."""


class _Entry(NamedTuple):
    what: Recording | Settling
    done: asyncio.Future[None]


class GroupCommit:
    """Call `put` in a running loop, `aclose` at the end."""

    def __init__(
        self, database: Database, settings: DriftSettings, *, keep_text: bool, followers: Sequence[Follower] = ()
    ) -> None:
        self._database = database
        self._settings = settings
        self._keep_text = keep_text
        self._followers = followers
        self._waiting: list[_Entry] = []
        self._writing: asyncio.Task[None] | None = None

    async def aclose(self) -> None:
        if self._writing is not None:
            await self._writing

    async def put(self, what: Recording | Settling) -> None:
        """Return when it is committed, once. Raises StoreError, or why the measurements of a recording are refused."""
        done = asyncio.get_running_loop().create_future()
        self._waiting.append(_Entry(what, done))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write_all())
        await done

    async def _write_all(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[:MOST_AT_ONCE], self._waiting[MOST_AT_ONCE:]
                await self._write(batch)
        finally:
            self._writing = None

    async def _write(self, batch: Sequence[_Entry]) -> None:
        try:
            await self._commit(batch)
        except StoreError as exc:
            _end(batch, exc)
        except Exception as exc:
            if len(batch) == 1:
                _end(batch, exc)
                return
            for entry in batch:  # one of them cannot be stored, and is to fail alone
                await self._write([entry])
        else:
            _end(batch, None)

    async def _commit(self, batch: Sequence[_Entry]) -> None:
        recordings = [entry.what for entry in batch if isinstance(entry.what, Recording)]
        settlings = [entry.what for entry in batch if isinstance(entry.what, Settling)]
        await recording.record_all(
            self._database,
            recordings,
            settlings,
            settings=self._settings,
            keep_text=self._keep_text,
            followers=self._followers,
        )


def _end(batch: Sequence[_Entry], exc: Exception | None) -> None:
    for entry in batch:
        if entry.done.done():  # whoever waited has gone
            continue
        if exc is None:
            entry.done.set_result(None)
        else:
            entry.done.set_exception(exc)
