"""/console/exchanges: what people asked and were answered, searched, one by one, and on both sides of an alarm.

Every look is on record, so a page reads once: what listens to its changes is told of its surroundings alone.
"""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Annotated, Any, get_args
from urllib.parse import urlencode

import msgspec
from litestar import Controller, Response, get
from litestar.params import FromPath, FromQuery, QueryParameter
from litestar.response import Redirect

from auditors import plugins
from auditors.text.identity import AXES
from gateway.api.dependencies import Asked, Settings, Store
from gateway.api.exchange_reading import read_comparison, read_list, read_record, written
from gateway.api.names import refuse_unknown
from gateway.config.schema import Config
from gateway.console.alarm_words import subject_of
from gateway.console.rendering import View
from gateway.console.showing import PageFrame
from gateway.errors import NotFoundError, RequestError
from gateway.reading.exchange_forms import ShownExchange
from gateway.store.database import Database
from gateway.store.exchange_search import Criteria
from gateway.store.exchanges import State

TAB = "/console/exchanges"
ROWS = 50
"""Scores on a page of the list."""
SIDE = 5
"""Exchanges on either side of a change."""
MOST_IDS = 50
"""Exchanges that one address names."""
EXCERPT = 400
"""Characters of each text in a list."""


class ExchangePagesController(Controller):
    """For administrators, where there is a control key."""

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
        request_id: FromQuery[str] = "",
        tag: FromQuery[str] = "",
        key: FromQuery[str] = "",
        model: FromQuery[str] = "",
        in_state: Annotated[str, QueryParameter(name="state")] = "",
        auditor: FromQuery[str] = "",
        axis: FromQuery[str] = "",
        group: FromQuery[str] = "",
        min_score: FromQuery[str] = "",
        max_score: FromQuery[str] = "",
        before: FromQuery[str] = "",
    ) -> Response[Any] | Redirect:
        """The form, and what it finds; with a request id of one exchange on to that; with a stream both its sides."""
        if stream:
            return await self._compared(request, pages, database, config, stream)
        asked = {
            "request_id": request_id,
            "tag": tag,
            "key": key,
            "model": model,
            "state": in_state,
            "auditor": auditor,
            "axis": axis,
            "group": group,
            "min_score": min_score,
            "max_score": max_score,
        }
        given = {name: text.strip() for name, text in asked.items() if text.strip()}
        ids = (exchange_id or [])[:MOST_IDS]
        found = _NOTHING
        if request.url.query and not _listens(request):
            found = await _found(request, database, config, given, ids, before)
        if found.only is not None and given.keys() == {"request_id"}:
            return Redirect(f"{TAB}/{found.only}", status_code=303)
        data = {
            "asked": asked,
            "found": found,
            "older": found.next
            and f"{TAB}?{urlencode({**given, 'exchange_id': ids, 'before': found.next}, doseq=True)}",
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
        one = None
        if not _listens(request):
            one = (await read_record(request, database, config, exchange_id)).read()

        async def build() -> View:
            return View(template="exchange.html", title="Exchange", tab=TAB, data={"one": one})

        return await pages.shown(request, build)

    async def _compared(
        self, request: Asked, pages: PageFrame, database: Database, config: Config, stream: str
    ) -> Response[Any]:
        found = None
        if not _listens(request):
            found = (await read_comparison(request, database, config, stream, limit=SIDE, excerpt=EXCERPT)).read()
        data = {
            "found": found,
            "subject": found and subject_of(found.metric, found.axis, found.group),
            "address": f"/console/alarms/{stream}",
        }

        async def build() -> View:
            return View(template="exchange_sides.html", title="Before and since", tab=TAB, data=data)

        return await pages.shown(request, build)


class Results(msgspec.Struct, frozen=True):
    """What a search found: of each exchange its scores."""

    exchanges: Sequence[Sequence[ShownExchange]] | None
    """None where nothing was searched."""
    next: str | None = None
    """Where older ones begin."""
    problem: str | None = None
    """Why there is nothing, in a line."""

    @property
    def only(self) -> str | None:
        """The id, where it is one exchange."""
        found = self.exchanges or []
        return found[0][0].id if len(found) == 1 and self.next is None else None


_NOTHING = Results(None)


async def _found(
    request: Asked, database: Database, config: Config, given: Mapping[str, str], ids: Sequence[str], before: str
) -> Results:
    try:
        criteria = msgspec.structs.replace(_criteria(given), exchange_ids=list(ids) or None)
        page = await read_list(request, database, config, criteria, before=before or None, limit=ROWS, excerpt=EXCERPT)
    except (NotFoundError, RequestError) as exc:
        return Results(None, problem=str(exc))
    rows = page.rows.read()
    return Results(
        [list(of_one) for _, of_one in groupby(rows, key=lambda row: row.id)], page.next and written(page.next)
    )


def _criteria(given: Mapping[str, str]) -> Criteria:
    """Raises RequestError for what is no number, state, auditor or axis."""
    refuse_unknown(given.get("auditor"), given.get("axis"))
    fields: dict[str, Any] = {name: text[:200] for name, text in given.items()}
    for name in ("min_score", "max_score"):
        if name in fields:
            fields[name] = _number(name.removesuffix("_score"), fields[name])
    state = fields.pop("state", None)
    if state is not None and state not in get_args(State):
        raise RequestError(f'unknown state "{state[:40]}"; known: {", ".join(get_args(State))}')
    return Criteria(**fields, state=state)


def _number(what: str, text: str) -> float:
    try:
        return float(text.replace("−", "-"))
    except ValueError as exc:
        raise RequestError(f'the {what}imum score "{text[:40]}" is no number: give one in the metric\'s unit') from exc


def _listens(request: Asked) -> bool:
    """Whether an open page asks for its changes."""
    return "text/event-stream" in request.headers.get("accept", "")
