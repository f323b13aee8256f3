"""The replies of a suite run in the store."""

import tempfile
import time
from collections.abc import AsyncIterator, Sequence

import msgspec

from benchmarks.run.log import Beginning, Placed, ReplyLines
from benchmarks.run.thinking import ThinkingFound
from benchmarks.suites.protocol import Item, Reply
from gateway.store import run_responses, runs
from gateway.store.database import Database
from gateway.store.runs import Run


class _Kept(msgspec.Struct, frozen=True, kw_only=True):
    """The part of `benchmarks.run.share.Terms` that is known, and kept, of every run."""

    thinking: ThinkingFound | None = None


class StoreLog:
    """A `benchmarks.run.log.RunLog` in the store, with the replies also in a temporary file for quick look-up."""

    def __init__(self, database: Database, run: Run) -> None:
        self._database = database
        self._run = run
        with tempfile.TemporaryFile() as file:
            self._lines = ReplyLines(file, tempfile.gettempdir())
        self._is_read = False

    async def begin(self) -> Beginning:
        """See `RunLog`. Both times are the database's, at the first start and at this claim."""
        started_at = self._run.started_at or time.time()
        seconds = max(0.0, (self._run.heartbeat_at or started_at) - started_at)
        terms = await runs.read_terms(self._database, self._run.id)
        thinking = msgspec.json.decode(terms, type=_Kept).thinking if terms is not None else None
        return Beginning(started_at=started_at, seconds=seconds, thinking=thinking)

    async def keep_thinking(self, thinking: ThinkingFound) -> None:
        await runs.keep_terms(self._database, self._run, msgspec.json.encode(_Kept(thinking=thinking)).decode())

    async def read(self) -> AsyncIterator[list[Placed]]:
        if not self._is_read:
            async for bodies in run_responses.pages(self._database, self._run.id):
                self._lines.append([body.encode() for body in bodies])
            self._is_read = True
        for batch in self._lines.batches():
            yield batch

    async def append(self, replies: Sequence[Reply]) -> list[int]:
        lines = [msgspec.json.encode(reply) for reply in replies]
        rows = [
            (reply.item_id, reply.sample, reply.status, line.decode())
            for reply, line in zip(replies, lines, strict=True)
        ]
        await run_responses.append(self._database, self._run, rows)
        return self._lines.append(lines)

    def put(self, lines: Sequence[bytes]) -> list[int]:
        """Puts encoded replies that the store has into the file. Returns their places."""
        return self._lines.append(lines)

    async def fetch(self, item_ids: Sequence[str]) -> list[Placed]:
        """Return the replies to these items that the store has by now, from any auditor."""
        bodies = await run_responses.of_items(self._database, self._run.id, item_ids)
        places = self.put([body.encode() for body in bodies])
        return [(place, self._lines.reply(place)) for place in places]

    def reply(self, place: int) -> Reply:
        return self._lines.reply(place)

    async def keep_items(self, items: Sequence[Item]) -> None:
        """Nothing to keep: items are made again from the options and the replies."""
