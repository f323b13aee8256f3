"""Reads the replies of a run, each with its question and its reading; needs the benchmarks, see `run_views`."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from benchmarks.errors import BenchmarkError
from benchmarks.reporting.compare import NO_REPLY
from benchmarks.reporting.flips import in_words, read_as
from benchmarks.suites.protocol import UNRELATED, Item, Reply
from gateway.config.schema import Config
from gateway.errors import ConflictError, RequestError, nearest
from gateway.reading.run_forms import MOST_COUNTED, ItemsPage, ItemsWanted, OtherReply, ShownItem
from gateway.store import run_responses, stored_runs
from gateway.store.database import Database
from gateway.store.runs import Run

PAGE_CHARACTERS = 2 * 1024 * 1024
"""Most characters of text on a page; further items are on the next."""
MOST_CHARACTERS = 20_000
"""Most characters of a text; all of it is in GET /audits/{id}/responses."""
MOST_READINGS = 100
"""Most readings that are offered: those of the most replies."""
LOOKING_SECONDS = 8.0
"""Seconds that a page looks for replies that a filter lets through; the next goes on at the place it stopped."""

_reply = msgspec.json.Decoder(Reply)
Place = tuple[str, int]
Pair = tuple[Reply, Reply | None]
"""A reply, and that of the run in `changed_from` in the same place."""
ReplySet = tuple[Reply, list[Pair]]
"""The first reply of a set that passes, and all replies of the set."""


class Content(NamedTuple):
    """The items of a run, the ids of each set in the suite's order, and the values that its filters may have."""

    items: Mapping[str, Item]
    sets: Mapping[str, list[str]]
    choices: dict[str, dict[str, int]]
    no_items_because: str | None


_newest: dict[tuple[object, ...], Content] = {}
"""The run that this process showed last, by its id and progress."""


async def page(config: Config, query: ItemsWanted) -> bytes:
    """Return an ItemsPage as JSON. Raises NotFoundError: unknown run; ConflictError: a run of another suite;
    RequestError: an axis or group that the run has not.
    """
    async with await Database.open(config.store.url, migrate=False) as database:
        run = await stored_runs.find(database, query.audit_id)
        if query.changed_from is not None:
            await _demand_same_suite(database, run, query.changed_from)
        content = await _content(database, config, run)
        _require_values(content, query)
        sets, after = await _read_sets(database, query, content)
    samples = int(run.options.get("samples") or 1)
    shown_items, room, place = list[ShownItem](), PAGE_CHARACTERS, ""
    for first, pairs in sets:
        items = [_show_reply(query, content, pair, is_repeat=first.sample >= samples) for pair in pairs]
        room -= sum(map(_characters, items))
        if room < 0 and shown_items:
            after = place
            break
        shown_items += items
        place = _name_place(first)
    strange = min({item.item_id for item in shown_items} - content.items.keys(), default=None)
    reason = content.no_items_because or (strange and f'"{strange}" is not among the items of {run.suite} here')
    answer = ItemsPage(items=shown_items, next=after, no_prompts_because=reason, choices=content.choices)
    return msgspec.json.encode(answer)


async def _demand_same_suite(database: Database, run: Run, other_id: str) -> None:
    other = await stored_runs.find(database, other_id)
    if other.suite != run.suite:
        raise ConflictError(f'{run.id} and {other.id} cannot be compared: suite is "{run.suite}" and "{other.suite}"')


async def _content(database: Database, config: Config, run: Run) -> Content:
    key = (config.store.url, run.id, run.status, run.progress_done)
    if key in _newest:
        return _newest[key]
    items, reason = await _items(database, config, run)
    sets: dict[str, list[str]] = {}
    counts = {name: Counter[str]() for name in ("status", "axis", "group", "reading", "verdict")}
    for item in items.values():
        sets.setdefault(item.set_id or item.item_id, []).append(item.item_id)
        counts["axis"][item.axis] += 1
        counts["group"].update(item.groups)
    async for bodies in run_responses.pages(database, run.id):
        for reply in map(_reply.decode, bodies):
            counts["status"].update(_statuses(reply))
            counts["reading"][in_words(reply)] += 1
            counts["verdict"].update([] if reply.judge is None else [in_words(reply)])
        if counts["reading"].total() >= MOST_COUNTED:
            break
    choices = {name: dict(count.most_common(MOST_READINGS)) for name, count in counts.items()}
    choices |= {name: dict(sorted(counts[name].items())) for name in ("axis", "group")}
    content = Content(items, sets, choices, reason)
    if reason is None:
        _newest.clear()
        _newest[key] = content
    return content


async def _items(database: Database, config: Config, run: Run) -> tuple[Mapping[str, Item], str | None]:
    try:
        plan = stored_runs.planned(run, stored_runs.data_dir(config))
        if plan.suite.has_follow_up:
            plan, _ = await stored_runs.replied(database, run, plan)
    except (BenchmarkError, ConflictError) as exc:
        return {}, f"what was asked cannot be shown: {exc}"
    return {item.item_id: item for item in plan.items}, None


def _require_values(content: Content, query: ItemsWanted) -> None:
    for name, value in (("axis", query.axis), ("group", query.group)):
        if value is not None and content.items and value not in content.choices[name]:
            hint = nearest(value, content.choices[name])
            raise RequestError(f'unknown {name} "{value[:80]}"{hint}: no item of this run has it')


async def _read_sets(database: Database, query: ItemsWanted, content: Content) -> tuple[list[ReplySet], str | None]:
    until = time.monotonic() + LOOKING_SECONDS
    sets: list[ReplySet] = []
    async for bodies in run_responses.pages(database, query.audit_id, after=query.after):
        replies = [_reply.decode(body) for body in bodies]
        others = await _read_at(database, query.changed_from, [(reply.item_id, reply.sample) for reply in replies])
        for reply in replies:
            if len(sets) == query.limit:
                return sets, _name_place(sets[-1][0])
            other = others.get((reply.item_id, reply.sample))
            if _passes(query, content, reply, other):
                pairs = await _read_set(database, query, content, reply) if query.pairs else [(reply, other)]
                sets += [(reply, pairs)] if pairs else []
        if time.monotonic() > until:
            return sets, _name_place(replies[-1])
    return sets, None


async def _read_set(database: Database, query: ItemsWanted, content: Content, reply: Reply) -> list[Pair]:
    """Return the replies of its set; none where another reply of the set passes, and is the one to stand for it."""
    item = content.items.get(reply.item_id)
    item_ids = content.sets[item.set_id] if item and item.set_id else [reply.item_id]
    places = [(item_id, reply.sample) for item_id in item_ids]
    replies = await _read_at(database, query.audit_id, places)
    others = await _read_at(database, query.changed_from, places)
    pairs = [(replies[place], others.get(place)) for place in places if place in replies]
    first = min(member.item_id for member, other in pairs if _passes(query, content, member, other))
    return pairs if first == reply.item_id else []


async def _read_at(database: Database, run_id: str | None, places: Sequence[Place]) -> Mapping[Place, Reply]:
    replies = [] if run_id is None else map(_reply.decode, await run_responses.at(database, run_id, places))
    return {(reply.item_id, reply.sample): reply for reply in replies}


def _passes(query: ItemsWanted, content: Content, reply: Reply, other: Reply | None) -> bool:
    item = content.items.get(reply.item_id)
    return (
        (query.status is None or query.status in _statuses(reply))
        and query.axis in (None, item and item.axis)
        and (query.group is None or (item is not None and query.group in item.groups))
        and query.reading in (None, in_words(reply))
        and (query.verdict is None or (reply.judge is not None and query.verdict == in_words(reply)))
        and (query.changed_from is None or _flipped(reply, other))
    )


def _statuses(reply: Reply) -> set[str]:
    """Return the status of a reply and what else it is found under: "failed", or a choice that is UNRELATED."""
    more = ["failed"] if reply.status in NO_REPLY else [UNRELATED] if read_as(reply) == ("ok", UNRELATED) else []
    return {str(reply.status), *more}


def _flipped(reply: Reply, other: Reply | None) -> bool:
    if other is None or reply.status in NO_REPLY or other.status in NO_REPLY:
        return False
    return read_as(reply) != read_as(other)


def _show_reply(query: ItemsWanted, content: Content, pair: Pair, *, is_repeat: bool) -> ShownItem:
    reply, other = pair
    item = content.items.get(reply.item_id)
    return ShownItem(
        item_id=reply.item_id,
        sample=reply.sample,
        status=reply.status,
        rule=reply.rule,
        choice_probabilities=reply.choice_probabilities,
        finish_reason=reply.finish_reason,
        is_repeat=is_repeat,
        is_beside=not _passes(query, content, reply, other),
        set_id=None if item is None else item.set_id,
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


def _name_place(reply: Reply) -> str:
    return f"{reply.item_id}:{reply.sample}"
