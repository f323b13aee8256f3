"""An auditor's share of a suite run in the store: the ranges that it asks, and what the others have asked."""

import asyncio
import contextlib
import logging
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import msgspec

from benchmarks.errors import RunStopped
from benchmarks.run.plan import Plan
from benchmarks.run.share import Asked, Range, Taken, Terms
from gateway.errors import StoreError
from gateway.store import run_ranges
from gateway.store.database import Database
from gateway.store.runs import Run
from gateway.store.store_log import StoreLog

logger = logging.getLogger(__name__)

RENEW_SECONDS = run_ranges.LEASE_SECONDS / 5
LOOK_SECONDS = 0.25
"""Seconds between two looks of the run's own auditor for a range that another auditor gave up, or has asked."""
COLLECTED_AT_ONCE = 4
"""Ranges that are read before what came in the meantime is kept."""


class RunShare:
    """A `benchmarks.run.share.Share` of a single run. Leases are renewed for as long as `renewing` lasts."""

    def __init__(
        self,
        database: Database,
        run: Run,
        log: StoreLog,
        *,
        is_own: bool,
        servers: tuple[str | None, ...] = (),
        call: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`log`: into which replies of others are put. `call`: lets idle auditors know that there are ranges."""
        self._database = database
        self._run = run
        self._log = log
        self._is_own = is_own
        self._owner = (run.claim or "") if is_own else uuid.uuid4().hex
        self._servers = servers
        self._call = call
        self._mine = set[Range]()
        self._n_taken = 0

    async def offer(self, ranges: Sequence[Range], terms: Terms) -> None:
        """See `Share`. Raises RunStopped when another auditor has claimed the run."""
        terms = msgspec.structs.replace(terms, servers=self._servers)
        if not await run_ranges.offer(self._database, self._run, ranges, msgspec.json.encode(terms).decode()):
            raise RunStopped(0, 0)
        await self._call_others()

    async def take(self, plan: Plan) -> Taken | None:
        """See `Share`. Another auditor than the run's own takes none but its first while a run waits."""
        gives_way = not self._is_own and bool(self._n_taken)
        while True:
            part = await run_ranges.take(self._database, self._run, self._owner, gives_way=gives_way)
            if part is not None:
                break
            is_unasked, _ = await run_ranges.left(self._database, self._run.id)
            if not self._is_own or not is_unasked:
                return None
            await asyncio.sleep(LOOK_SECONDS)
        self._mine.add(part)
        self._n_taken += 1
        if not self._is_own and self._n_taken == 1:
            await self._call_others()  # each calls the next, so that all are there soon
        return await self._fetch_part(plan, part)

    def has_lost(self, part: Range) -> bool:
        return part not in self._mine

    async def keep(self, parts: Sequence[Asked]) -> Sequence[Sequence[int] | None]:
        lines = [[msgspec.json.encode(reply) for reply in part.replies] for part in parts]
        responses = [
            [
                (reply.item_id, reply.sample, reply.status, line.decode())
                for reply, line in zip(part.replies, own, strict=True)
            ]
            for part, own in zip(parts, lines, strict=True)
        ]
        owned = await run_ranges.keep(self._database, self._run, self._owner, parts, responses)
        places = list[Sequence[int] | None]()
        for part, own in zip(parts, lines, strict=True):
            if part.is_whole or part.range.first not in owned:
                self._mine.discard(part.range)
            places.append(self._log.put(own) if part.range.first in owned else None)
        return places

    async def collect(self, plan: Plan) -> Sequence[Taken] | None:
        while not (ranges := await run_ranges.asked(self._database, self._run.id, COLLECTED_AT_ONCE)):
            _, is_any = await run_ranges.left(self._database, self._run.id)
            if not is_any:
                return None
            await asyncio.sleep(LOOK_SECONDS)
        collected = [await self._fetch_part(plan, part) for part in ranges]
        await run_ranges.collected(self._database, self._run, ranges)
        return collected

    @asynccontextmanager
    async def renewing(self) -> AsyncIterator[None]:
        """Its ranges are its own meanwhile; afterwards they are anybody's."""
        task = asyncio.create_task(self._renew())
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(StoreError):  # then their leases run out
                if self._mine:
                    await run_ranges.give_back(self._database, self._run.id, self._owner)

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            if not (before := set(self._mine)):
                continue
            try:
                owned = await run_ranges.renew(self._database, self._run.id, self._owner)
            except StoreError as exc:
                logger.warning("the ranges of run %s cannot be kept: %s", self._run.id, exc)
                continue
            self._mine -= {part for part in before if part.first not in owned}

    async def _fetch_part(self, plan: Plan, part: Range) -> Taken:
        items = [item.item_id for item in plan.items[part.first : part.past]]
        return Taken(part, await self._log.fetch(items))

    async def _call_others(self) -> None:
        if self._call is not None:
            await self._call()
