"""Reads the replies of a run, each with its question and its reading; needs the benchmarks, see `run_views`."""

import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec

from benchmarks.errors import BenchmarkError
from benchmarks.reporting.compare import NO_REPLY
from benchmarks.reporting.flips import in_words, read_as
from benchmarks.suites.protocol import UNRELATED, Item, Reply
from gateway.config.schema import Config
from gateway.errors import ConflictError
from gateway.reading.run_forms import Filter, ItemsPage, ItemsWanted, OtherReply, ShownItem
from gateway.store import run_responses, stored_runs
from gateway.store.database import Database
from gateway.store.runs import Run

PAGE_CHARACTERS = 2 * 1024 * 1024
"""Most characters of text on a page; further items are on the next."""
MOST_CHARACTERS = 20_000
"""Most characters of a text; all of it is in GET /audits/{id}/responses."""
LOOKING_SECONDS = 8.0
"""Seconds that a page looks for replies that a filter lets through; the next goes on at the place it stopped."""

_reply = msgspec.json.Decoder(Reply)
Found = list[tuple[Reply, Reply | None]]


async def page(config: Config, query: ItemsWanted) -> bytes:
    """An ItemsPage as JSON. Raises NotFoundError for an unknown run, ConflictError for one of another suite."""
    async with await Database.open(config.store.url, migrate=False) as database:
        run = await stored_runs.find(database, query.audit_id)
        if query.changed_from is not None:
            await _demand_same_suite(database, run, query.changed_from)
        replies, after = await _read_replies(database, query)
        items, reason = await _items(database, config, run, replies) if replies else ({}, None)
    samples = int(run.options.get("samples") or 1)
    shown_items, room = list[ShownItem](), PAGE_CHARACTERS
    for reply, other in replies:
        item = _show_reply(reply, items.get(reply.item_id), other, is_repeat=reply.sample >= samples)
        room -= _characters(item)
        if room < 0 and shown_items:
            after = _place(shown_items[-1])
            break
        shown_items.append(item)
    return msgspec.json.encode(ItemsPage(items=shown_items, next=after, no_prompts_because=reason))


async def _demand_same_suite(database: Database, run: Run, other_id: str) -> None:
    other = await stored_runs.find(database, other_id)
    if other.suite != run.suite:
        raise ConflictError(f'{run.id} and {other.id} cannot be compared: suite is "{run.suite}" and "{other.suite}"')


async def _read_replies(database: Database, query: ItemsWanted) -> tuple[Found, str | None]:
    until = time.monotonic() + LOOKING_SECONDS
    replies: Found = []
    last: Reply | None = None
    async for batch in _with_others(database, query):
        for reply, other in batch:
            if len(replies) == query.limit:
                return replies, _place(replies[-1][0])
            if _passes(reply, query.status) and (query.changed_from is None or _flipped(reply, other)):
                replies.append((reply, other))
            last = reply
        if time.monotonic() > until and last is not None:
            return replies, _place(last)
    return replies, None


async def _with_others(database: Database, query: ItemsWanted) -> AsyncIterator[Found]:
    async for bodies in run_responses.pages(database, query.audit_id, after=query.after):
        replies = [_reply.decode(body) for body in bodies]
        replies_by_place: Mapping[tuple[str, int], Reply] = {}
        if query.changed_from is not None:
            places = [(reply.item_id, reply.sample) for reply in replies]
            theirs = map(_reply.decode, await run_responses.at(database, query.changed_from, places))
            replies_by_place = {(reply.item_id, reply.sample): reply for reply in theirs}
        yield [(reply, replies_by_place.get((reply.item_id, reply.sample))) for reply in replies]


def _passes(reply: Reply, status: Filter | None) -> bool:
    if status == "failed":
        return reply.status in NO_REPLY
    if status == UNRELATED and reply.status == "ok":
        return bool(read_as(reply)[1] == UNRELATED)  # of the choices offered, one may be that
    return status is None or reply.status == status


def _flipped(reply: Reply, other: Reply | None) -> bool:
    if other is None or reply.status in NO_REPLY or other.status in NO_REPLY:
        return False
    return read_as(reply) != read_as(other)


async def _items(database: Database, config: Config, run: Run, replies: Found) -> tuple[Mapping[str, Item], str | None]:
    item_ids = {reply.item_id for reply, _ in replies}
    try:
        plan = stored_runs.planned(run, stored_runs.data_dir(config))
        items = {item.item_id: item for item in plan.items if item.item_id in item_ids}
        if len(items) < len(item_ids) and plan.suite.has_follow_up:
            complete, _ = await stored_runs.replied(database, run, plan)
            items = {item.item_id: item for item in complete.items if item.item_id in item_ids}
    except (BenchmarkError, ConflictError) as exc:
        return {}, f"what was asked cannot be shown: {exc}"
    if len(items) < len(item_ids):
        strange = min(item_ids - items.keys())
        return (
            items,
            f'{len(item_ids) - len(items)} of these items are not among those of {run.suite} here: "{strange}"',
        )
    return items, None


def _show_reply(reply: Reply, item: Item | None, other: Reply | None, *, is_repeat: bool) -> ShownItem:
    return ShownItem(
        item_id=reply.item_id,
        sample=reply.sample,
        status=reply.status,
        rule=reply.rule,
        choice_probabilities=reply.choice_probabilities,
        finish_reason=reply.finish_reason,
        is_repeat=is_repeat,
        axis=None if item is None else item.axis,
        groups=() if item is None else item.groups,
        subset=None if item is None else item.subset,
        prompt=None if item is None else _cut("\n".join(message.text for message in item.messages)),
        reply=_cut(reply.text),
        reasoning=_cut(reply.reasoning),
        reading=in_words(reply),
        judge=None if reply.judge is None else {name: _cut_value(value) for name, value in reply.judge.items()},
        error=_cut(reply.error),
        other=None if other is None else OtherReply(other.status, in_words(other), _cut(other.text)),
    )


def _cut(text: str | None) -> str | None:
    if text is None or len(text) <= MOST_CHARACTERS:
        return text
    return f"{text[:MOST_CHARACTERS]} …"


def _cut_value(value: Any) -> Any:
    return _cut(value) if isinstance(value, str) else value


def _characters(item: ShownItem) -> int:
    judged, other = (item.judge or {}).get("text"), item.other and item.other.reply
    texts = (item.prompt, item.reply, item.reasoning, item.error, judged, other)
    return sum(len(text) for text in texts if text)


def _place(entry: Reply | ShownItem) -> str:
    return f"{entry.item_id}:{entry.sample}"
