"""The API of live traffic: estimates, drift alarms, open circuits, the sampling ledger."""

import re
from collections import Counter
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from litestar import Controller, Request, Response, get, post
from litestar.datastructures import State
from litestar.di import NamedDependency, Provide
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import FromPath, FromQuery, JSONBody, QueryParameter
from msgspec import Meta

from auditors import plugins
from auditors.judge_reference import AUDITOR as JUDGE_REFERENCE
from auditors.structs import combine
from auditors.text.identity import AXES
from gateway.api.dependencies import Settings, Store
from gateway.api.problems import announced
from gateway.config.schema import AuditorsConfig
from gateway.errors import NotFoundError, RequestError, nearest
from gateway.health import circuit_text
from gateway.reading import stream_pages
from gateway.reading.alarms import Alarm
from gateway.reading.process import EncodedPage
from gateway.store import acknowledgements, circuits, histories, ledger, served, streams
from gateway.store.acknowledgements import Acknowledgement
from gateway.store.database import Database
from gateway.store.streams import MOST, Selection, Stream
from gateway.store.windows import Window
from gateway.streams import alarms
from gateway.streams.detectors import Detectors
from gateway.streams.estimates import LiveEstimate, ReplicaEstimate, estimate_of
from gateway.streams.history import History, history_of
from gateway.streams.settings import settings_of

SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
MOST_OFFSET = 1_000_000
TOTAL = "x-total-count"
"""Header of a list: the entries on all pages."""

Limit = Annotated[int, QueryParameter(ge=1, le=MOST)]
Offset = Annotated[int, QueryParameter(ge=0, le=MOST_OFFSET)]
Selected: TypeAlias = NamedDependency[Selection]


class AcknowledgementRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Names the person who lowers an alarm, and the reason."""

    by: Annotated[str, Meta(min_length=1, max_length=100)]
    reason: Annotated[str, Meta(min_length=1, max_length=2000)]
    accept_new_level: bool = False
    """False: the reference stays. True: the next audits make a new one."""


class RestartRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Names the person who starts a stream again, and the reason."""

    by: Annotated[str, Meta(min_length=1, max_length=100)]
    reason: Annotated[str, Meta(min_length=1, max_length=1900)]


class Ledger(msgspec.Struct, frozen=True):
    """Requests by outcome, in all and by stratum; a request is in exactly one outcome."""

    outcomes: dict[str, int]
    strata: dict[str, dict[str, int]]


class OpenCircuit(msgspec.Struct, frozen=True):
    """A server that an auditor asks and that is sick: its exchanges wait. Times are Unix seconds."""

    auditor: str
    server: str
    """Name of an upstream, or "auditors.NAME" for a server of an auditor's own."""
    opened_at: float
    next_probe_at: float
    """Time at which a single exchange is tried."""
    n_waiting: int
    last_error: str
    last_error_at: float
    summary: str


async def select(
    config: Settings,
    model: FromQuery[str | None] = None,
    axis: FromQuery[str | None] = None,
    auditor: FromQuery[str | None] = None,
    limit: Limit = MOST,
    offset: Offset = 0,
) -> Selection:
    """Return the streams that a query asks for. Raises RequestError for an unknown auditor or axis."""
    refuse_unknown(auditor, axis, config.auditors)
    return Selection(model=model, axis=axis, auditor=auditor, limit=limit, offset=offset)


class LiveController(Controller):
    """Numbers only: no text of any exchange."""

    path = "/live"
    tags = ("live",)
    dependencies = {"selection": Provide(select)}  # noqa: RUF012 - the class Controller declares it

    @get(
        "/estimates",
        summary="Live estimates with intervals; window: 500 audits, or 24h",
        responses={200: ResponseSpec(list[LiveEstimate], description="The estimates", generate_examples=False)}
        | announced(),
    )
    async def estimates(
        self, database: Store, selection: Selected, window: FromQuery[str | None] = None
    ) -> Response[bytes]:
        """List estimates; if there is no `window`, over all audits since each stream began, with bounds that hold at
        all times at once. `window=500` takes the newest 500 audits of each stream, `window=90s` (or m, h, d) those of
        the last 90 seconds: for display, with an interval that holds at one time chosen beforehand. The header
        `x-total-count` says how many there are without `limit` and `offset`.
        """
        if window is None:
            return _respond(await stream_pages.read_estimates(database, selection))
        return _respond(await stream_pages.read_window_estimates(database, selection, _parsed(window), window))

    @get(
        "/detectors",
        summary="Drift detectors",
        responses={200: ResponseSpec(list[Detectors], description="The detectors", generate_examples=False)}
        | announced(),
    )
    async def detectors(
        self,
        database: Store,
        config: Settings,
        selection: Selected,
        only: Annotated[Literal["alarm"] | None, QueryParameter(name="state")] = None,
    ) -> Response[bytes]:
        """List detectors. Every null value has its reason in `reasons`. `state=alarm`: only standing alarms."""
        selection = msgspec.structs.replace(selection, alarmed=only is not None)
        return _respond(await stream_pages.read_detectors(database, selection, settings_of(config.drift)))

    @get("/streams/{stream_id:str}/history", summary="A stream in at most 60 periods", responses=announced(404))
    async def history(
        self, stream_id: FromPath[str], database: Store, config: Settings, window: FromQuery[str | None] = None
    ) -> History:
        """Return at most 60 periods of equal length, of the newest 20,000 measurements; a stream that has none says
        why. `window` as of the estimates: `window=5000` for the newest 5,000 audits, `window=24h` for those of the last
        day.
        """
        parsed_window = None if window is None else _parsed(window)
        stream = await _stream(database, stream_id)
        return history_of(
            stream,
            await histories.read(database, stream_id, parsed_window),
            window=window,
            settings=settings_of(config.drift),
            n_streams=await streams.count(database),
            changes=await served.changes(database, stream.key.model),
        )

    @get(
        "/streams/{stream_id:str}/replicas",
        summary="Newest 5,000 audits by answering server (docs/integrations/llm-d.md)",
        responses=announced(404),
    )
    async def replicas(self, stream_id: FromPath[str], database: Store) -> list[ReplicaEstimate]:
        """Return estimates by `system_fingerprint`, of the newest 5,000 measurements: the 50 with most of them."""
        return await stream_pages.read_replica_estimates(database, await _stream(database, stream_id))

    @post(
        "/streams/{stream_id:str}/restart",
        status_code=200,
        summary="Restart a stream, damaged (docs/operations.md#damaged-streams) or not",
        responses=announced(404),
    )
    async def restart(
        self,
        request: Request[None, None, State],
        stream_id: FromPath[str],
        database: Store,
        config: Settings,
        data: JSONBody[RestartRequest | None] = None,
    ) -> LiveEstimate:
        """Estimate, reference, detector and alarm begin again; measurements stay, so windows and histories do.

        It is on record: `GET /live/alarms/acknowledgements`.
        """
        if data is None:
            raise RequestError('say who starts the stream again and why: send {"by": "NAME", "reason": "TEXT"}')
        stream = await alarms.restart(
            database,
            stream_id,
            settings_of(config.drift),
            by=_clean_text("by", data.by),
            reason=_clean_text("reason", data.reason),
            client=request.client.host if request.client else None,
        )
        if stream is None:
            raise NotFoundError(f'no live stream has the id "{stream_id[:40]}": GET /live/estimates lists them')
        return estimate_of(stream)

    @get(
        "/alarms",
        summary="Streams with a standing alarm",
        responses={200: ResponseSpec(list[Alarm], description="The alarms", generate_examples=False)} | announced(),
    )
    async def alarms(self, database: Store, config: Settings, selection: Selected) -> Response[bytes]:
        return _respond(await stream_pages.read_alarms(database, selection, settings_of(config.drift)))

    @post(
        "/alarms/{stream_id:str}/acknowledge",
        status_code=200,
        summary="Lower an alarm, optionally with a new reference",
        responses=announced(404, 409),
    )
    async def acknowledge(
        self,
        request: Request[None, None, State],
        stream_id: FromPath[str],
        database: Store,
        config: Settings,
        data: JSONBody[AcknowledgementRequest | None] = None,
    ) -> LiveEstimate:
        """`accept_new_level` makes the next audits the window of a new reference, unwatched until it is full.

        It is on record: `GET /live/alarms/acknowledgements`.
        """
        if data is None:
            raise RequestError('say who acknowledges the alarm and why: send {"by": "NAME", "reason": "TEXT"}')
        by, reason = _clean_text("by", data.by), _clean_text("reason", data.reason)
        stream = await alarms.acknowledge(
            database,
            stream_id,
            settings_of(config.drift),
            by=by,
            reason=reason,
            accept_new_level=data.accept_new_level,
            client=request.client.host if request.client else None,
        )
        if stream is None:
            raise NotFoundError(f'no live stream has the id "{stream_id}": GET /live/alarms lists those that alarm')
        return estimate_of(stream)

    @get("/alarms/acknowledgements", summary="Who lowered which alarm and why, newest first", responses=announced())
    async def acknowledgements(
        self,
        database: Store,
        stream: FromQuery[str | None] = None,
        limit: Annotated[int, QueryParameter(ge=1, le=1000)] = 100,
    ) -> list[Acknowledgement]:
        return await acknowledgements.entries(database, stream=stream, limit=limit)

    @get("/circuits", summary="Sick judges, embedders and upstreams, and what waits for them", responses=announced())
    async def circuits(self, database: Store) -> list[OpenCircuit]:
        return [
            combine(
                OpenCircuit,
                circuit,
                next_probe_at=circuit.probe_at,
                last_error=circuit.error,
                last_error_at=circuit.failed_at,
                summary=circuit_text(circuit.opened_at, circuit.n_waiting, f"{circuit.error} ({circuit.server})"),
            )
            for circuit in await circuits.open_circuits(database)
        ]

    @get("/ledger", summary="Requests by outcome and stratum", responses=announced())
    async def ledger(self, database: Store) -> Ledger:
        outcomes: Counter[str] = Counter()
        strata: dict[str, dict[str, int]] = {}
        for (stratum, outcome), count in (await ledger.counts(database)).items():
            outcomes[outcome] += count
            strata.setdefault(stratum, {})[outcome] = count
        return Ledger(dict(outcomes), strata)


def _respond(page: EncodedPage[Any]) -> Response[bytes]:
    return Response(page.json, media_type="application/json", headers={TOTAL: str(page.total)})


def _clean_text(name: str, text: str) -> str:
    cleaned = text.replace("\x00", "").strip()
    if not cleaned:
        raise RequestError(f"{name} {text[:20]!r} says nothing: give a {'name' if name == 'by' else 'reason'}")
    return cleaned


async def _stream(database: Database, stream_id: str) -> Stream:
    listed = await streams.load(database, [stream_id])
    if not listed:
        raise NotFoundError(f'no live stream has the id "{stream_id[:40]}": GET /live/estimates lists them')
    return listed[0]


def _parsed(window: str) -> Window:
    """`N` audits, or `N` and one of s, m, h, d. Raises RequestError for anything else."""
    match = re.fullmatch(r"([1-9][0-9]{0,8})([smhd]?)", window)
    if match is None:
        raise RequestError(
            f'window "{window}" is neither a number of audits (500) nor a time (90s, 15m, 24h, 7d): give one of them'
        )
    number, unit = int(match[1]), match[2]
    return Window(audits=number) if not unit else Window(seconds=float(number * SECONDS[unit]))


def refuse_unknown(auditor: str | None, axis: str | None, sections: AuditorsConfig) -> None:
    """Raise RequestError for a name that no number can have. Any axis passes where a section has a file of own axes."""
    axis = None if sections.has_own_axes else axis
    auditors = [*plugins.names("biasgate.auditors"), JUDGE_REFERENCE]
    for what, name, valid_names in (("auditor", auditor, auditors), ("axis", axis, list(AXES))):
        if name is not None and name not in valid_names:
            raise RequestError(f'unknown {what} "{name}"{nearest(name, valid_names)}; known: {", ".join(valid_names)}')
