"""/console/exchanges: texts, searched, single, and around an alarm. Each look is on record, so pages read once."""

import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, get_args
from urllib.parse import urlencode

import msgspec
from litestar import Controller, Response, get
from litestar.params import FromPath, FromQuery
from litestar.response import Redirect

from auditors import plugins
from auditors.text.identity import AXES
from gateway.api.dependencies import Asked, Settings, Store
from gateway.api.exchange_reading import read_comparison, read_list, read_record, written
from gateway.api.live import refuse_unknown
from gateway.config.schema import Config
from gateway.console.alarm_words import subject_of
from gateway.console.rendering import View
from gateway.console.showing import PageFrame, is_for_changes
from gateway.errors import NotFoundError, RequestError
from gateway.reading.exchange_forms import ShownExchange
from gateway.store import exchange_search
from gateway.store.database import Database
from gateway.store.exchange_search import Criteria
from gateway.store.exchanges import State

TAB = "/console/exchanges"
ROWS = 100
"""Scores on a page of the list."""
SIDE = 5
"""Exchanges on either side of a change."""
MOST_IDS = 50
"""Exchanges that one address names."""
EXCERPT = 400
"""Characters of each text in a list."""
FIELDS = (
    *("request_id", "tag", "key", "model", "state", "auditor", "axis", "group"),
    *("min_score", "max_score", "since", "until"),
)
"""Fields of the form, as the address has them."""


class ExchangePagesController(Controller):
    """Pages for administrators, if there is a control key."""

    path = TAB
    include_in_schema = False

    @get("/")
    async def exchanges(
        self,
        request: Asked,
        pages: PageFrame,
        database: Store,
        config: Settings,
        stream: FromQuery[str | None] = None,
        exchange_id: FromQuery[list[str] | None] = None,
        before: FromQuery[str] = "",
    ) -> Response[Any] | Redirect:
        """Show the form and the newest results, or both sides of a stream; redirect for an id of a single exchange."""
        if stream:
            return await self._compared(request, pages, database, config, stream)
        fields = {name: request.query_params.get(name, "") for name in FIELDS}
        filled = {name: text.strip() for name, text in fields.items() if text.strip()}
        ids = (exchange_id or [])[:MOST_IDS]
        results, counts = _NOTHING, dict[str, list[tuple[str | None, int]]]()
        if not is_for_changes(request):
            results = await _search(request, database, config, filled, ids, before)
            counts = await exchange_search.facets(database)
        if results.only is not None and filled.keys() == {"request_id"}:
            return Redirect(f"{TAB}/{results.only}", status_code=303)
        data = {
            "asked": fields,
            "found": results,
            "older": results.next
            and f"{TAB}?{urlencode({**filled, 'exchange_id': ids, 'before': results.next}, doseq=True)}",
            "facets": {
                name: [(value, n, f"{TAB}?{urlencode(filled | {name: value})}") for value, n in counted if value]
                for name, counted in counts.items()
            },
            "curl": _curl(request, f"?{urlencode(results.query, doseq=True)}"),
            "states": get_args(State),
            "auditors": plugins.names("biasgate.auditors"),
            "axes": list(AXES),
        }

        async def build() -> View:
            return View(template="exchanges.html", title="Exchanges", tab=TAB, data=data)

        return await pages.shown(request, build)

    @get("/{exchange_id:str}")
    async def exchange(
        self, request: Asked, pages: PageFrame, database: Store, config: Settings, exchange_id: FromPath[str]
    ) -> Response[Any]:
        """One exchange with all that is known of it."""
        data: dict[str, Any] = {"one": None}
        if not is_for_changes(request):
            record = (await read_record(request, database, config, exchange_id)).read()
            older, newer = await exchange_search.neighbours(database, record.received_at, record.id)
            data = {"one": record, "older": older, "newer": newer, "curl": _curl(request, f"/{exchange_id}")}

        async def build() -> View:
            return View(template="exchange.html", title="Exchange", tab=TAB, data=data)

        return await pages.shown(request, build)

    async def _compared(
        self, request: Asked, pages: PageFrame, database: Database, config: Config, stream: str
    ) -> Response[Any]:
        comparison = None
        if not is_for_changes(request):
            comparison = (await read_comparison(request, database, config, stream, limit=SIDE, excerpt=EXCERPT)).read()
        data = {
            "found": comparison,
            "subject": comparison and subject_of(comparison.metric, comparison.axis, comparison.group),
            "address": f"/console/alarms/{stream}",
        }

        async def build() -> View:
            return View(template="exchange_sides.html", title="Before and since", tab=TAB, data=data)

        return await pages.shown(request, build)


class Results(msgspec.Struct, frozen=True):
    """The results of a search: for each exchange its scores."""

    exchanges: Sequence[Sequence[ShownExchange]] | None
    """The exchanges with their scores; None if nothing was searched."""
    next: str | None = None
    """Place at which older exchanges begin."""
    problem: str | None = None
    """Why there is nothing, in a line."""
    query: Mapping[str, Any] = {}

    @property
    def only(self) -> str | None:
        """The id, where it is one exchange."""
        entries = self.exchanges or []
        return entries[0][0].id if len(entries) == 1 and self.next is None else None


_NOTHING = Results(None)


async def _search(
    request: Asked, database: Database, config: Config, filled: Mapping[str, str], ids: Sequence[str], before: str
) -> Results:
    try:
        refuse_unknown(filled.get("auditor"), filled.get("axis"), config.auditors)
        fields: dict[str, Any] = {name: text[:200] for name, text in filled.items()}
        for name in ("min_score", "max_score"):
            if name in fields:
                fields[name] = _number(name.removesuffix("_score"), fields[name])
        fields |= {name: _moment(fields[name]) for name in ("since", "until") if name in fields}
        query = fields | ({"exchange_id": list(ids)} if ids else {})
        state = fields.pop("state", None)
        if state is not None and state not in get_args(State):
            raise RequestError(f'unknown state "{state[:40]}"; known: {", ".join(get_args(State))}')
        criteria = msgspec.structs.replace(Criteria(**fields, state=state), exchange_ids=list(ids) or None)
        page = await read_list(request, database, config, criteria, before=before or None, limit=ROWS, excerpt=EXCERPT)
    except (NotFoundError, RequestError) as exc:
        return Results(None, problem=str(exc))
    rows = page.rows.read()
    listed = [list(of_one) for _, of_one in groupby(rows, key=lambda row: row.id)]
    return Results(listed, page.next and written(page.next), query=query)


def _curl(request: Asked, rest: str) -> str:
    address = shlex.quote(f"{str(request.base_url).rstrip('/')}/live/exchanges{rest.rstrip('?')}")
    return f'curl -H "Authorization: Bearer $KEY" {address}'


def _moment(text: str) -> float:
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()
    except ValueError as exc:
        raise RequestError(f'the time "{text[:40]}" is not of the form 2026-01-31T18:00') from exc


def _number(what: str, text: str) -> float:
    try:
        return float(text.replace("−", "-"))
    except ValueError as exc:
        raise RequestError(f'the {what}imum score "{text[:40]}" is not a number in the metric\'s unit') from exc
