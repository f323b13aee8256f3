"""Pages of exchanges as bytes of JSON: a list, and a single exchange with everything stored about it."""

from collections.abc import Sequence

import msgspec

from auditors.audit_texts import Answers, Reason, Shares
from auditors.text.conversation import NotAuditableError, text_of
from auditors.text.readers.exchange import read_conversation
from auditors.types import Message
from gateway.config.schema import Config
from gateway.errors import NotFoundError
from gateway.reading import process
from gateway.reading.exchange_forms import (
    Counterpart,
    ExchangeRecord,
    Shown,
    ShownExchange,
    counterpart_of,
    redacted,
    shown_counterpart,
    shown_record,
    why_no_score,
)
from gateway.reading.process import Encoded
from gateway.store import audit_texts, exchange_search
from gateway.store.database import Database
from gateway.store.exchange_search import Criteria, Place, Score, Stored

COUNTERFACTUAL, JUDGE, LIKELIHOOD = "counterfactual", "judge", "likelihood"


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """A request for part of a list: see `exchange_search.search`."""

    criteria: Criteria
    before: Place | None = None
    limit: int
    excerpt: int | None = None
    """Characters that are kept of each text; None: all."""


class Page(msgspec.Struct, frozen=True):
    """Entries of a list, one for each score."""

    rows: Encoded[list[ShownExchange]]
    ids: list[str]
    """Id of the exchange of each entry."""
    next: Place | None
    """Place at which the list goes on, even if the page is not full; None at the end of the list."""
    has_request: bool
    """True if any exchange has the request id, whatever the other criteria; also true without a request id."""


async def make_page(config: Config, query: Wanted) -> Page:
    """Return the page, with personal data redacted. Raises StoreError."""
    return await process.make_page(_page, config, query)


async def make_record(config: Config, exchange_id: str) -> Encoded[ExchangeRecord]:
    """Return one exchange with all that is stored of it. Raises StoreError, NotFoundError."""
    return await process.make_page(_record, config, exchange_id)


async def _page(database: Database, _config: Config, query: Wanted) -> Page:
    criteria = query.criteria
    part = await exchange_search.search(database, criteria, before=query.before, limit=query.limit + 1)
    is_more, page_rows = len(part.rows) > query.limit, part.rows[: query.limit]
    unscored = [row.stored for row in page_rows if row.score is None]
    reasons = await _reasons(database, unscored)
    formatter = Shown(query.excerpt)
    rows = [formatter.row(row, None if row.score else reasons[row.exchange.id]) for row in page_rows]
    request_id = criteria.request_id
    return Page(
        rows=Encoded(msgspec.json.encode(rows), list[ShownExchange]),
        ids=[row.id for row in rows],
        next=page_rows[-1].place if is_more else part.end,
        has_request=request_id is None or bool(rows) or await exchange_search.has_request(database, request_id),
    )


async def _reasons(database: Database, unscored: list[Stored]) -> dict[str, str]:
    """Return why these exchanges have no score, by exchange id."""
    ids = [stored.exchange.id for stored in unscored]
    if not ids:
        return {}
    audits, measured = await exchange_search.audits(database, ids), await exchange_search.scores(database, ids)
    return {
        stored.exchange.id: why_no_score(stored, audits[stored.exchange.id], measured[stored.exchange.id])
        for stored in unscored
    }


async def _record(database: Database, _config: Config, exchange_id: str) -> Encoded[ExchangeRecord]:
    stored = (await exchange_search.load(database, [exchange_id])).get(exchange_id)
    if stored is None:
        raise NotFoundError(
            f'no exchange "{exchange_id[:36]}" is stored: it has been deleted, on request or for its age '
            "(store.retention_days), or there never was one"
        )
    measured = (await exchange_search.scores(database, [exchange_id]))[exchange_id]
    audits = (await exchange_search.audits(database, [exchange_id]))[exchange_id]
    texts = (await audit_texts.read(database, [exchange_id]))[exchange_id]
    answers, reason, shares = texts.get(COUNTERFACTUAL), texts.get(JUDGE), texts.get(LIKELIHOOD)
    counterpart = _counterpart(stored, measured, answers if isinstance(answers, Answers) else None)
    reason = reason if isinstance(reason, Reason) else None
    record = shown_record(stored, measured, audits, counterpart, reason, shares if isinstance(shares, Shares) else None)
    return Encoded(msgspec.json.encode(record), ExchangeRecord)


def asked_of(stored: Stored) -> str | None:
    """Return the redacted text of an exchange's question; None if it can no longer be read."""
    messages = _messages(stored)
    return redacted(text_of(messages)) if messages else None


def _messages(stored: Stored) -> Sequence[Message]:
    try:
        return read_conversation(stored.exchange).messages if stored.exchange.request_body else []
    except NotAuditableError:
        return []


def _counterpart(stored: Stored, measured: list[Score], answers: Answers | None) -> Counterpart | str:
    """Return the question about another group with its answers, without `answers` only the swap, or why none."""
    from auditors.text.swaps.outcome import NotSwapped  # a worker that shows no exchange need not load the lexicon
    from auditors.text.swaps.prompt import swapped_prompt

    swapped = [score for score in measured if score.auditor == COUNTERFACTUAL and score.reference is not None]
    if not swapped:
        return "the counterfactual auditor did not ask this question about another group"
    messages = _messages(stored)
    if not messages:
        return "the question cannot be read any more"
    question = redacted(text_of(messages))
    if answers is not None:
        return shown_counterpart(question, answers)
    counter_prompt = swapped_prompt(stored.exchange.id, messages)
    if isinstance(counter_prompt, NotSwapped) or (counter_prompt.swap.group, counter_prompt.swap.target) != (
        swapped[0].group,
        swapped[0].reference,
    ):
        return "this version swaps the question in another way than the one that audited it"
    swap = counter_prompt.swap
    about = (swap.axis, swap.group, swap.target, swap.n_words)
    return counterpart_of(about, (question, redacted(text_of(counter_prompt.messages))))
