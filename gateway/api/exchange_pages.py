"""Pages of exchanges, made in a process of their own: unsealing, reading and redacting megabytes takes seconds.

An event loop with live requests on it only hands the finished page on. One page is made at a time, and one that takes
longer than PAGE_SECONDS is given up together with its process.
"""

import asyncio
from collections.abc import Sequence

import anyio
import anyio.to_process
import msgspec

from auditors.text.conversation import NotAuditableError
from auditors.text.readers.exchange import read_conversation
from auditors.types import Exchange
from gateway.config.schema import Config
from gateway.errors import StoreError
from gateway.privacy.redaction import Redactor
from gateway.privacy.texts import texts_of
from gateway.store import measurements
from gateway.store.database import Database
from gateway.store.measurements import Scored

PAGE_SECONDS = 20.0
PAGE_BYTES = 8 * 1024 * 1024
"""Of text on one page; sending more in one piece would hold up live requests."""

_ONE_AT_A_TIME = anyio.CapacityLimiter(1)
_SHOWN = Redactor()
"""Text stored before redaction was configured is redacted at least when it is shown."""


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Which exchanges: see `gateway.store.measurements.search`."""

    auditor: str | None
    axis: str | None
    min_score: float | None
    exchange_ids: Sequence[str] | None
    limit: int


class ShownExchange(msgspec.Struct, frozen=True, kw_only=True):
    """One audited exchange, with personal data taken out of its text."""

    id: str
    request_id: str
    received_at: float
    model: str
    upstream: str
    auditor: str
    metric: str
    axis: str | None
    group: str | None
    reference: str | None
    value: float | None
    inclusion_probability: float
    prompt: str | None
    reply: str | None
    no_text_because: str | None


class Page(msgspec.Struct, frozen=True):
    """`body` is a JSON list of ShownExchange; `ids` are theirs, in its order."""

    body: bytes
    ids: list[str]


async def make_page(config: Config, wanted: Wanted) -> Page:
    """The page, redacted.

    Raises: StoreError when the store cannot be read or the page takes too long.
    """
    try:
        with anyio.fail_after(PAGE_SECONDS):
            return await anyio.to_process.run_sync(_made_here, config, wanted, cancellable=True, limiter=_ONE_AT_A_TIME)
    except TimeoutError as exc:
        raise StoreError(f"this page took longer than {PAGE_SECONDS:g} s: ask for fewer exchanges with limit") from exc
    except anyio.BrokenWorkerProcess as exc:
        raise StoreError("the process that makes pages of exchanges broke down: try again") from exc


def _made_here(config: Config, wanted: Wanted) -> Page:
    return asyncio.run(_read(config, wanted))


async def _read(config: Config, wanted: Wanted) -> Page:
    database = await Database.open(config.store.url, migrate=False, texts=texts_of(config))
    try:
        found = await measurements.search(
            database,
            auditor=wanted.auditor,
            axis=wanted.axis,
            min_score=wanted.min_score,
            exchange_ids=wanted.exchange_ids,
            limit=wanted.limit,
        )
    finally:
        await database.close()
    shown, room = [], PAGE_BYTES
    for scored in found:
        one = _shown(scored, room)
        room -= len(one.prompt or "") + len(one.reply or "")
        shown.append(one)
    return Page(msgspec.json.encode(shown), [one.id for one in shown])


def _shown(scored: Scored, room: int) -> ShownExchange:
    prompt, reply, reason = _text(scored, room)
    return ShownExchange(
        id=scored.exchange.id,
        request_id=scored.exchange.request_id,
        received_at=scored.exchange.received_at,
        model=scored.exchange.model,
        upstream=scored.exchange.upstream,
        auditor=scored.auditor,
        metric=scored.metric,
        axis=scored.axis,
        group=scored.group,
        reference=scored.reference,
        value=scored.value,
        inclusion_probability=scored.inclusion_probability,
        prompt=prompt,
        reply=reply,
        no_text_because=reason,
    )


def _text(scored: Scored, room: int) -> tuple[str | None, str | None, str | None]:
    """(prompt, reply, None), redacted, or (None, None, why there is no text)."""
    exchange: Exchange = scored.exchange
    if scored.is_unredactable:
        return None, None, "unredactable: redacting it took too long, so its text was dropped"
    if not exchange.request_body:
        return None, None, "there is no text: it was dropped (store.keep_text), or its key is not configured any more"
    if len(exchange.request_body) + len(exchange.response_body) > room:
        return None, None, "this page is full: ask for it alone with exchange_id"
    try:
        conversation = read_conversation(exchange)
    except NotAuditableError as exc:
        return None, None, _SHOWN.redacted(str(exc))
    return _SHOWN.redacted(conversation.prompt_text), _SHOWN.redacted(conversation.reply_text), None
