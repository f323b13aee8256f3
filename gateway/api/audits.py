"""The audit API: start suite runs, follow their progress, fetch their results, cancel and resume them."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Annotated, Any
from uuid import uuid4

import msgspec
from litestar import Controller, Response, get, post
from litestar.params import FromPath, FromQuery, JSONBody, QueryParameter
from litestar.response import ServerSentEvent, ServerSentEventMessage, Stream

from auditors.structs import combine
from gateway.api.dependencies import Asked, Plane, Queue, Settings, Store
from gateway.api.problems import UnavailableError, announced
from gateway.config.audit_request import AuditStart, choose, options_of, require_prompts
from gateway.control_keys import Holder
from gateway.errors import ConflictError, NotFoundError, RequestError, nearest
from gateway.proxy.data_plane import DataPlane
from gateway.reading import viewer_forms
from gateway.store import catalogue, run_responses, runs
from gateway.store.database import Database
from gateway.store.runs import Run, Status

RUN_TASK = "run_suite"
EVENT_SECONDS = 0.5
HEARTBEAT_SECONDS = 15.0
REPORT_HEADERS = {
    "content-security-policy": "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:",
    "referrer-policy": "no-referrer",
}
"""A report is opened under the console's origin, and shows what models wrote: nothing in it may run or ask."""


class Accepted(msgspec.Struct, frozen=True):
    """`id` is the first run; `ids` has the run of every suite."""

    id: str
    ids: dict[str, str]
    left_out: dict[str, str]
    """Suites of "all" that cannot be run as asked, and why."""


class AuditProgress(msgspec.Struct, frozen=True):
    done: int
    total: int | None
    rate: float | None
    """Replies a second."""
    eta_seconds: float | None


class Audit(msgspec.Struct, frozen=True, kw_only=True):
    """One run, without its results. Times are Unix seconds."""

    id: str
    suite: str
    model: str
    mode: str
    protocol: str
    status: Status
    progress: AuditProgress
    options: dict[str, Any]
    created_at: float
    started_at: float | None
    finished_at: float | None
    error: str | None


class AuditsController(Controller):
    """Everything under /audits."""

    path = "/audits"
    tags = ("audits",)

    @post("/", status_code=202, summary="Start a run of each named suite", responses=announced(415, 429))
    async def start(self, data: JSONBody[AuditStart], database: Store, queue: Queue, dataplane: Plane) -> Accepted:
        suites, left_out = await chosen(data, database)
        require_model(data.model, dataplane)
        ids = {str(suite["name"]): uuid4().hex for suite in suites}
        options_by_id = {ids[suite["name"]]: options_of(data, suite) for suite in suites}
        await runs.create_all(database, options_by_id, max_queued=dataplane.config.audits.max_queued)
        for run_id in options_by_id:
            await queue.defer(RUN_TASK, {"run_id": run_id}, lock=run_id)
        return Accepted(id=next(iter(ids.values())), ids=ids, left_out=left_out)

    @get("/", summary="Runs, newest first", responses=announced())
    async def audits(
        self,
        request: Asked,
        database: Store,
        model: FromQuery[str | None] = None,
        suite: FromQuery[str | None] = None,
        run_status: Annotated[Status | None, QueryParameter(name="status")] = None,
        limit: Annotated[int, QueryParameter(ge=1, le=1000)] = 100,
    ) -> list[Audit]:
        listed_runs = await runs.list_runs(database, model=model, suite=suite, status=run_status, limit=limit)
        return [audit_of(run, request.user) for run in listed_runs]

    @get("/{audit_id:str}", summary="A run and its progress", responses=announced(404))
    async def audit(self, request: Asked, audit_id: FromPath[str], database: Store) -> Audit:
        return audit_of(await _find(database, audit_id), request.user)

    @get(
        "/{audit_id:str}/events",
        summary="Progress as server-sent events",
        media_type="text/event-stream",
        responses=announced(404),
    )
    async def events(self, request: Asked, audit_id: FromPath[str], database: Store) -> ServerSentEvent:
        await _find(database, audit_id)
        return ServerSentEvent(_follow(database, audit_id, request.user))

    @get("/{audit_id:str}/result", summary="result.json of a finished run", responses=announced(404, 409))
    async def result(self, request: Asked, audit_id: FromPath[str], database: Store) -> Response[bytes]:
        run = await finished(database, audit_id, "result")
        return Response(viewer_forms.shown_result(run, request.user), media_type="application/json")

    @get(
        "/{audit_id:str}/responses",
        summary="Replies so far, JSON lines",
        media_type="application/x-ndjson",
        responses=announced(404),
    )
    async def responses(self, audit_id: FromPath[str], database: Store) -> Stream:
        await _find(database, audit_id)
        return Stream(_lines(database, audit_id), media_type="application/x-ndjson")

    @get(
        "/{audit_id:str}/report",
        summary="HTML report of a finished run",
        media_type="text/html",
        responses=announced(404, 409),
    )
    async def report(self, request: Asked, audit_id: FromPath[str], database: Store) -> Response[bytes]:
        run = await finished(database, audit_id, "report")
        viewer_forms.require_report(run, request.user)
        return Response((run.report or "").encode(), headers=REPORT_HEADERS, media_type="text/html")

    @post(
        "/{audit_id:str}/cancel",
        status_code=200,
        summary="Stop a run within a second; replies are kept",
        responses=announced(404, 409),
    )
    async def cancel(self, request: Asked, audit_id: FromPath[str], database: Store) -> Audit:
        await runs.cancel(database, audit_id)
        return audit_of(await _find(database, audit_id), request.user)

    @post(
        "/{audit_id:str}/resume",
        status_code=202,
        summary="Complete a cancelled or failed run",
        responses=announced(404, 409, 429),
    )
    async def resume(
        self, request: Asked, audit_id: FromPath[str], database: Store, queue: Queue, config: Settings
    ) -> Audit:
        await runs.resume(database, audit_id, max_queued=config.audits.max_queued)
        await queue.defer(RUN_TASK, {"run_id": audit_id}, lock=audit_id)
        return audit_of(await _find(database, audit_id), request.user)


async def chosen(request: AuditStart, database: Database) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """See `choose`; own prompts are read too, in a thread. Raises RequestError for a line that cannot be taken."""
    choice = choose(request, await known_suites(database))
    if request.prompts is not None:
        await asyncio.to_thread(require_prompts, request.prompts)
    return choice


def require_model(model: str, dataplane: DataPlane) -> None:
    """Refuses a model that is not known to be served, unless an upstream's models cannot be known now."""
    models = set(dataplane.config.aliases).union(*(upstream.models for upstream in dataplane.upstreams))
    is_complete = all(upstream.models for upstream in dataplane.upstreams)
    if model in models or not is_complete:
        return
    raise RequestError(
        f'unknown model "{model}"{nearest(model, models)}; served by this gateway: {", ".join(sorted(models))}'
    )


def require_audit(audit_id: str, run: Run | None) -> Run:
    """The run that was found. Raises NotFoundError where none was."""
    if run is None:
        raise NotFoundError(f'no audit has the id "{audit_id}": GET /audits lists them')
    return run


async def _find(database: Database, audit_id: str) -> Run:
    return require_audit(audit_id, await runs.get(database, audit_id))


async def finished(database: Database, audit_id: str, what: str) -> Run:
    """Return a finished run. Raises NotFoundError; ConflictError, with `what`, for a run that has not finished."""
    run = await _find(database, audit_id)
    if run.status != "done":
        why = f"; GET /audits/{audit_id} says why" if run.error else ""
        raise ConflictError(f"audit {audit_id} has no {what}: it is {run.status}{why}")
    return run


async def _follow(database: Database, audit_id: str, holder: Holder) -> AsyncIterator[ServerSentEventMessage]:
    last_progress, shown_at = None, time.monotonic()
    while True:
        audit = audit_of(await _find(database, audit_id), holder)
        if (audit.status, audit.progress.done, audit.progress.total) != last_progress:
            last_progress, shown_at = (audit.status, audit.progress.done, audit.progress.total), time.monotonic()
            yield ServerSentEventMessage(event="progress", data=msgspec.json.encode(audit).decode())
        elif time.monotonic() - shown_at > HEARTBEAT_SECONDS:
            shown_at = time.monotonic()
            yield ServerSentEventMessage(comment="still there")
        if audit.status not in ("queued", "running"):
            yield ServerSentEventMessage(event="end", data=audit.status)
            return
        await asyncio.sleep(EVENT_SECONDS)


async def _lines(database: Database, audit_id: str) -> AsyncIterator[bytes]:
    async for bodies in run_responses.pages(database, audit_id):
        yield "".join(f"{body}\n" for body in bodies).encode()


def audit_of(run: Run, holder: Holder) -> Audit:
    """Return a run as its reader may see it, with the rate of its replies and the time left."""
    return combine(
        Audit,
        run,
        progress=_progress(run),
        options=viewer_forms.shown_options(run.options, holder),
        error=viewer_forms.shown_error(run.error, holder),
    )


def _progress(run: Run) -> AuditProgress:
    done, total = run.progress_done, run.progress_total
    seconds = ((run.finished_at or time.time()) - run.started_at) if run.started_at else 0.0
    rate = done / seconds if seconds > 0 and done else None
    eta = (total - done) / rate if rate and total is not None and run.status == "running" else None
    return AuditProgress(done=done, total=total, rate=rate, eta_seconds=eta)


NO_AUDITOR = (
    "no auditor has reported its suites yet: start one with `biasgate auditor` (or `biasgate serve`) and try again"
)


class SuitesController(Controller):
    """Names, versions, items, modes and metrics of the benchmark suites."""

    tags = ("audits",)

    @get("/suites", summary="Suites with items, modes, protocols, metrics, axes", responses=announced())
    async def suites(self, database: Store) -> list[dict[str, Any]]:
        return await known_suites(database)


async def known_suites(database: Database) -> list[dict[str, Any]]:
    """The catalogue, by name. Raises UnavailableError while it is empty."""
    published = await catalogue.read(database)
    if not published:
        raise UnavailableError(NO_AUDITOR)
    return sorted(published, key=lambda suite: str(suite["name"]))
