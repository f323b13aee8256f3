"""Keeps parts of exchanges in the store until the rest comes; parts of a key, and bytes read of them, are bounded."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from gateway.errors import BusyError
from gateway.features.ingest.config import IngestConfig
from gateway.features.ingest.reading import LARGE_BYTES
from gateway.features.ingest.received import Part, Received, Rejections, completed, merged, one_of_each
from gateway.privacy.bodies import redacted_request, redacted_response
from gateway.privacy.redaction import Redactor
from gateway.store import ingested
from gateway.store.database import Database
from gateway.store.ingested import StoredPart, Waiting
from gateway.turns import in_turns

MOST_PARTS = 256
"""Parts of an exchange that are kept; each that comes is read with those before it."""
SWEEP_AT_ONCE = 200
COUNT_SECONDS = 5.0
"""Seconds for which a count of a key's parts holds; meanwhile this worker adds its own to it."""

_part = msgspec.json.Decoder(Part)

Take = Callable[[list[Received]], Awaitable[None]]
Settle = Callable[[Mapping[str, Part | None]], Awaitable[None]]


class TooManyWaitingError(BusyError):
    """A key has too many parts of exchanges that wait for the rest."""

    def __init__(self, key: str | None, config: IngestConfig) -> None:
        self.retry_after_seconds = min(config.join_seconds, 30.0)
        sender = "without a key" if key is None else f'of key "{key}"'
        super().__init__(
            f"{config.max_waiting} parts of exchanges {sender} wait for the rest (ingest.max_waiting): "
            f"send their other parts, or send this again when some have waited {config.join_seconds:g} s "
            "(ingest.join_seconds)"
        )


class Added(NamedTuple):
    """Counts of the parts that were sent, by outcome."""

    n_waiting: int
    """Exchanges of which another part has to come."""
    n_duplicates: int
    """Exchanges that count already."""
    n_refused: int
    """Exchanges whose part was not kept, as too many wait."""


class WaitingParts:
    """The parts in the store, as one worker sees them. `config`: the section in force."""

    def __init__(self, database: Database, config: Callable[[], IngestConfig]) -> None:
        self._database = database
        self._config = config
        self._joining = asyncio.Lock()
        """What is read of stored parts is in memory once, not once a request."""
        self._counts: dict[str | None, tuple[float, int]] = {}
        """By key, when its waiting parts were counted, and how many there were then and are with those since."""

    async def add(self, parts: Sequence[Part], rejected: Rejections, take: Take) -> Added:
        """Keep parts of one key; hand whole exchanges to `take` and delete theirs. Surplus goes to `rejected`."""
        by_id = {part.id: part for part in one_of_each(parts)}
        duplicates = await ingested.counted_of(self._database, by_id.keys())
        waiting = await ingested.waiting_of(self._database, by_id.keys() - duplicates)
        for key in duplicates:
            del by_id[key]
        for key, there in waiting.items():
            if there.n_parts >= MOST_PARTS or there.n_bytes > 2 * self._config().max_body_bytes:
                rejected.add(f"exchange {by_id.pop(key).request_id}: no more parts of it are kept")
        whole = [part for part in by_id.values() if part.is_whole]
        open_ = {key: part for key, part in by_id.items() if not part.is_whole}
        if whole:
            await take(await in_turns(completed, whole))
            await self._forget([part.id for part in whole if part.id in waiting], waiting, whole[0].key_name)
        kept_ids = await self._keep([*open_.values()])
        n_joined, n_kept_joined = 0, 0
        for group in ingested.in_groups(waiting, open_):
            joined = await self._join(group, open_, waiting, take)
            n_joined += len(joined)
            n_kept_joined += len(kept_ids.intersection(joined))
        return Added(
            n_waiting=len(kept_ids) - n_kept_joined,
            n_duplicates=len(duplicates),
            n_refused=len(open_) - len(kept_ids) - (n_joined - n_kept_joined),
        )

    async def settle(self, before: float, settle: Settle) -> int:
        """Hand exchanges without parts since `before` (Unix) to `settle`; None: no key opens it. Returns a count."""
        n_settled, since = 0, 0.0
        while True:
            ids, since = await ingested.waited_too_long(self._database, before=before, limit=SWEEP_AT_ONCE, since=since)
            if not ids:
                return n_settled
            waiting = await ingested.waiting_of(self._database, ids)
            for group in ingested.in_groups(waiting, ids):
                async with self._joining:
                    together = await self._together(await ingested.parts_of(self._database, group), {})
                    await settle({key: together.get(key) for key in group})
                await ingested.forget_parts(self._database, group)
            n_settled += len(ids)

    async def _keep(self, parts: Sequence[Part]) -> set[str]:
        if not parts:
            return set()
        owner = parts[0].key_name
        counted_at, count = self._counts.get(owner, (0.0, 0))
        if time.monotonic() - counted_at > COUNT_SECONDS or not counted_at:
            count = await ingested.count_parts_of(self._database, owner)
            self._counts[owner] = (time.monotonic(), count)
        room = self._config().max_waiting - count
        admitted = parts[: max(room, 0)]
        if admitted:
            await ingested.add_parts(self._database, await asyncio.to_thread(self._stored, admitted))
            self._note(owner, len(admitted))
        return {part.id for part in admitted}

    async def _join(
        self, group: Sequence[str], open_: Mapping[str, Part], waiting: Mapping[str, Waiting], take: Take
    ) -> list[str]:
        """Put the parts of some exchanges together with those that wait; returns those that are whole now."""
        async with self._joining:
            bodies_by_id = await ingested.parts_of(self._database, group)
            together = await self._together(bodies_by_id, {key: open_[key] for key in group})
            whole = [part for part in together.values() if part.is_whole]
            if whole:
                await take(await in_turns(completed, whole))
        ids = [part.id for part in whole]
        await self._forget(ids, waiting, open_[group[0]].key_name)
        return ids

    async def _together(self, bodies_by_id: Mapping[str, list[bytes]], new: Mapping[str, Part]) -> dict[str, Part]:

        def put_together(key: str) -> tuple[str, Part]:
            parts = [*map(_part.decode, bodies_by_id.get(key, [])), *([new[key]] if key in new else [])]
            return key, merged(parts)

        keys = bodies_by_id.keys() | new.keys()
        if sum(len(body) for bodies in bodies_by_id.values() for body in bodies) > LARGE_BYTES:
            return dict(await asyncio.to_thread(lambda: [*map(put_together, keys)]))
        return dict(await in_turns(put_together, keys))

    async def _forget(self, ids: Sequence[str], waiting: Mapping[str, Waiting], owner: str | None) -> None:
        if ids:
            await ingested.forget_parts(self._database, ids)
            self._note(owner, -sum(waiting[key].n_parts if key in waiting else 1 for key in ids))

    def _note(self, owner: str | None, more: int) -> None:
        if owner in self._counts:
            counted_at, count = self._counts[owner]
            self._counts[owner] = (counted_at, max(count + more, 0))

    def _stored(self, parts: Iterable[Part]) -> list[StoredPart]:
        redactor = self._database.texts.redactor
        return [StoredPart(part.id, msgspec.json.encode(private(part, redactor)), part.key_name) for part in parts]


def private(part: Part, redactor: Redactor | None) -> Part:
    """Return the part without what identifies a person. The user's name is left out: parts have no index by it."""
    fields = {name: value for name, value in part.fields.items() if name != "user"}
    part = msgspec.structs.replace(part, fields=fields)
    if redactor is None:
        return part
    counts = Counter[str]()
    request_json = redacted_request(msgspec.json.encode({"messages": part.asked}), redactor, counts)
    answered = redacted_response(msgspec.json.encode({"choices": part.answered}), redactor, counts)
    return msgspec.structs.replace(
        part,
        asked=msgspec.json.decode(request_json)["messages"],
        answered=msgspec.json.decode(answered)["choices"],
        request=None if part.request is None else redacted_request(part.request, redactor, counts) or None,
        response=None if part.response is None else redacted_response(part.response, redactor, counts) or None,
    )
