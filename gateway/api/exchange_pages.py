"""Pages of exchanges as bytes of JSON: a list, one exchange with all that is known of it."""

import msgspec

from auditors.text.conversation import NotAuditableError, text_of
from auditors.text.readers.exchange import read_conversation
from gateway.api.exchange_forms import Counterpart, Shown, redacted, shown_record, why_no_score
from gateway.api.page_process import made_elsewhere
from gateway.config.schema import Config
from gateway.errors import NotFoundError
from gateway.store import exchange_search
from gateway.store.database import Database
from gateway.store.exchange_search import Criteria, Place, Score, Stored

COUNTERFACTUAL = "counterfactual"


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Which part of a list: see `exchange_search.search`."""

    criteria: Criteria
    before: Place | None = None
    limit: int
    excerpt: int | None = None
    """Characters that are kept of each text."""


class Page(msgspec.Struct, frozen=True):
    """`body` is a JSON list of ShownExchange; `ids` are theirs, in its order."""

    body: bytes
    ids: list[str]
    next: Place | None
    """Where it goes on, be the page full or not; None at the end of the list."""
    has_request: bool
    """Whether the request id that was asked for stands for any exchange, whatever the other criteria; else True."""


async def make_page(config: Config, wanted: Wanted) -> Page:
    """The page, redacted. Raises StoreError."""
    return await made_elsewhere(_page, config, wanted)


async def make_record(config: Config, exchange_id: str) -> bytes:
    """JSON of the ExchangeRecord. Raises StoreError, NotFoundError."""
    return await made_elsewhere(_record, config, exchange_id)


async def _page(database: Database, _config: Config, wanted: Wanted) -> Page:
    criteria = wanted.criteria
    part = await exchange_search.search(database, criteria, before=wanted.before, limit=wanted.limit + 1)
    is_more, found = len(part.rows) > wanted.limit, part.rows[: wanted.limit]
    unscored = [one.stored for one in found if one.score is None]
    reasons = await _reasons(database, unscored)
    shown = Shown(wanted.excerpt)
    rows = [shown.row(one, None if one.score else reasons[one.exchange.id]) for one in found]
    asked = criteria.request_id
    return Page(
        body=msgspec.json.encode(rows),
        ids=[one.id for one in rows],
        next=found[-1].place if is_more else part.end,
        has_request=asked is None or bool(rows) or await exchange_search.has_request(database, asked),
    )


async def _reasons(database: Database, unscored: list[Stored]) -> dict[str, str]:
    """Why these exchanges have no score."""
    ids = [one.exchange.id for one in unscored]
    if not ids:
        return {}
    audits, measured = await exchange_search.audits(database, ids), await exchange_search.scores(database, ids)
    return {one.exchange.id: why_no_score(one, audits[one.exchange.id], measured[one.exchange.id]) for one in unscored}


async def _record(database: Database, _config: Config, exchange_id: str) -> bytes:
    stored = (await exchange_search.load(database, [exchange_id])).get(exchange_id)
    if stored is None:
        raise NotFoundError(
            f'no exchange "{exchange_id[:36]}" is stored: it has been deleted, on request or for its age '
            "(store.retention_days), or there never was one"
        )
    measured = (await exchange_search.scores(database, [exchange_id]))[exchange_id]
    audits = (await exchange_search.audits(database, [exchange_id]))[exchange_id]
    counterpart = _counterpart(stored, measured)
    return msgspec.json.encode(shown_record(stored, measured, audits, counterpart))


def _counterpart(stored: Stored, measured: list[Score]) -> Counterpart | str:
    """The swap, made anew as it depends on the exchange alone; or why there is none to show."""
    from auditors.text.swaps.outcome import NotSwapped  # a worker that shows no exchange need not load the lexicon
    from auditors.text.swaps.prompt import swapped_prompt

    swapped = [one for one in measured if one.auditor == COUNTERFACTUAL and one.reference is not None]
    if not swapped:
        return "the counterfactual auditor did not ask this question about another group"
    try:
        messages = read_conversation(stored.exchange).messages if stored.exchange.request_body else []
    except NotAuditableError:
        messages = []
    if not messages:
        return "the question cannot be read any more"
    made = swapped_prompt(stored.exchange.id, messages)
    if isinstance(made, NotSwapped) or (made.swap.group, made.swap.target) != (swapped[0].group, swapped[0].reference):
        return "this version swaps the question in another way than the one that audited it"
    return Counterpart(
        axis=made.swap.axis,
        group=made.swap.group,
        reference=made.swap.target,
        words_swapped=made.swap.n_words,
        asked=redacted(text_of(messages)),
        swapped=redacted(text_of(made.messages)),
    )
