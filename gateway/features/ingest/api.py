"""The doors for recorded exchanges (OTLP, LiteLLM, HTTP pairs: docs/ingest.md); they ask for the keys of [[keys]]."""

from collections import Counter
from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any, TypeAlias

import msgspec
from litestar import Controller, Request, Response, post
from litestar.di import NamedDependency
from litestar.exceptions import HTTPException
from litestar.params import SkipValidation

from auditors.text.lenient_json import read_json
from gateway.api.dependencies import Plane
from gateway.api.problems import announced, problem
from gateway.errors import BusyError, NotFoundError, RequestError, StoreError
from gateway.features.ingest import guardrail, intake, litellm, otlp, pairs
from gateway.features.ingest.config import INGEST
from gateway.features.ingest.guardrail import MOST_CALL_BYTES
from gateway.features.ingest.intake import EXCHANGE_BYTES, Room
from gateway.features.ingest.rates import RATE_HEADER, Rates, rates_of
from gateway.features.ingest.reading import TooLargeError, read_body, read_objects, require_few_containers
from gateway.features.ingest.received import Door, Outcome, Sent, UnreadableError
from gateway.features.ingest.waiting_parts import TooManyWaitingError
from gateway.proxy.admission import Client, Refusal
from gateway.proxy.data_plane import DataPlane
from gateway.proxy.headers import RequestHead
from gateway.proxy.refusals import CHALLENGE

Intake: TypeAlias = NamedDependency[SkipValidation[intake.Intake]]
GuardrailCalls: TypeAlias = NamedDependency[SkipValidation[guardrail.GuardrailCalls]]
AnyRequest = Request[Any, Any, Any]
Read = Callable[[Any, str | None, Rates], Sent]
"""The reader of a door: takes a body or its entries, the sender's name and the stated sampling rates."""

RETRY_SECONDS = "2"
JSON, LINES, PROTOBUF = "application/json", "application/x-ndjson", "application/x-protobuf"
CLOSED = "recorded exchanges are not accepted here: set ingest.enabled = true"


TOLD: tuple[Outcome, ...] = ("taken", "duplicate", "waiting", "ignored", "rejected")


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of what was sent, by outcome; returned when all that was taken is in the store."""

    taken: int
    """Exchanges that are in the ledger now."""
    duplicate: int
    """That had come before."""
    waiting: int
    """Exchanges that wait for another part."""
    ignored: int
    """Nothing that could be an exchange."""
    rejected: int
    errors: list[str]
    """Why, of the first 20 that were rejected."""
    rates_ignored: int = 0
    """Exchanges that stated a rate which does not count: no `may_state_rate`, or `ingest.sampling_rate`."""


_door = partial(post, status_code=200, responses=announced(404, 413, 415, 429))


class IngestController(Controller):
    """Everything under /ingest."""

    path = "/ingest"
    tags = ("ingest",)

    @_door("/otlp/v1/traces", summary="Spans of GenAI clients: OTLP as protobuf or JSON")
    async def traces(self, request: AnyRequest, dataplane: Plane, intake: Intake) -> Response[Any]:
        return await _otlp(request, dataplane, intake, "traces")

    @_door("/otlp/v1/logs", summary="Log records of GenAI clients: OTLP as protobuf or JSON")
    async def logs(self, request: AnyRequest, dataplane: Plane, intake: Intake) -> Response[Any]:
        return await _otlp(request, dataplane, intake, "logs")

    @_door("/http", summary="Requests with their responses, or halves")
    async def http(self, request: AnyRequest, dataplane: Plane, intake: Intake) -> Response[Any]:
        return await _json(request, dataplane, intake, "http", pairs.read)

    @_door("/litellm", summary="Records of LiteLLM's callback generic_api")
    async def records(self, request: AnyRequest, dataplane: Plane, intake: Intake) -> Response[Any]:
        return await _json(request, dataplane, intake, "litellm", litellm.read_records)

    @_door("/litellm/beta/litellm_basic_guardrail_api", summary="LiteLLM's generic guardrail API: never intervenes")
    async def guardrail(
        self, request: AnyRequest, dataplane: Plane, intake: Intake, guardrail_calls: GuardrailCalls
    ) -> Response[Any]:
        client = _enter(request, dataplane, (JSON,))
        if isinstance(client, Response):
            return client
        rates = _rates(request, dataplane, intake, "litellm", client)
        if isinstance(rates, Response):
            return rates
        try:
            with intake.rooms.request(client.name) as room:
                body = await _body(request, intake, room, MOST_CALL_BYTES)
                require_few_containers(body)
                data = await guardrail_calls.reading.read(read_json, body)
            if not litellm.is_guardrail_call(data):
                raise RequestError('no call of a guardrail: it has no "input_type"')
            guardrail_calls.put(litellm.read_guardrail_call(data, client.name, rates), client, len(body))
            intake.ignore_rates("litellm", rates.n_ignored)
        except ValueError as exc:
            return problem(400, f"the body is not JSON: {str(exc)[:200]}")
        except (BusyError, TooLargeError):  # a request of somebody's waits: it goes on, unheard
            intake.note("litellm", {"rejected": 1})
        return Response({"action": "NONE"})


async def _otlp(request: AnyRequest, dataplane: DataPlane, intake: Intake, signal: otlp.Signal) -> Response[Any]:
    client = _enter(request, dataplane, (JSON, PROTOBUF))
    if isinstance(client, Response):
        return client
    is_json = _content_type(request) == JSON

    def read(body: bytes, sender: str | None, rates: Rates) -> Sent:
        return otlp.read(body, signal, is_json=is_json, sender=sender, rates=rates)

    outcomes = await _take(request, dataplane, intake, "otlp", client, read)
    if isinstance(outcomes, Response):
        return outcomes
    counts, errors, _ = outcomes
    rejected = "rejectedSpans" if signal == "traces" else "rejectedLogRecords"
    if not is_json:
        return Response(_protobuf_answer(signal, counts["rejected"], errors), media_type=PROTOBUF)
    partial = {rejected: str(counts["rejected"]), "errorMessage": "; ".join(errors)}
    return Response({"partialSuccess": partial} if errors else {})


def _protobuf_answer(signal: otlp.Signal, n_rejected: int, errors: list[str]) -> bytes:
    # It was read with this package, so it is there.
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
        ExportLogsPartialSuccess,
        ExportLogsServiceResponse,
    )
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
        ExportTracePartialSuccess,
        ExportTraceServiceResponse,
    )

    words = "; ".join(errors)
    if signal == "traces":
        spans = ExportTracePartialSuccess(rejected_spans=n_rejected, error_message=words)
        return bytes(ExportTraceServiceResponse(partial_success=spans if errors else None).SerializeToString())
    records = ExportLogsPartialSuccess(rejected_log_records=n_rejected, error_message=words)
    return bytes(ExportLogsServiceResponse(partial_success=records if errors else None).SerializeToString())


async def _json(request: AnyRequest, dataplane: DataPlane, intake: Intake, door: Door, read: Read) -> Response[Any]:
    client = _enter(request, dataplane, (JSON, LINES))
    if isinstance(client, Response):
        return client

    def read_entries(body: bytes, sender: str | None, rates: Rates) -> Sent:
        return read_objects(body, lambda objects: read(objects, sender, rates))

    outcomes = await _take(request, dataplane, intake, door, client, read_entries)
    if isinstance(outcomes, Response):
        return outcomes
    counts, errors, rates_ignored = outcomes
    if counts["rejected"] and counts.total() == counts["rejected"]:
        return problem(400, "; ".join(errors[:3]))
    became = {str(outcome): counts[outcome] for outcome in TOLD}
    return Response(Taken(**became, errors=errors, rates_ignored=rates_ignored))


async def _take(
    request: AnyRequest, dataplane: DataPlane, intake: Intake, door: Door, client: Client, read: Read
) -> tuple["Counter[Outcome]", list[str], int] | Response[Any]:
    """Return the counts by outcome, why the first were rejected and the number of ignored rates; or a refusal."""
    rates = _rates(request, dataplane, intake, door, client)
    if isinstance(rates, Response):
        return rates
    try:
        with intake.rooms.request(client.name) as room:
            body = await _body(request, intake, room)
            if _content_type(request) != PROTOBUF:
                require_few_containers(body)
            room.hold(len(body))  # its texts
            sent = await intake.reading.read(lambda content: read(content, client.name, rates), body)
            room.hold(EXCHANGE_BYTES * (len(sent.whole) + len(sent.parts)))
            counts = await intake.take(sent, door, client)
    except TooLargeError as exc:
        answer = problem(413, str(exc))
    except TooManyWaitingError as exc:
        answer = problem(429, str(exc), {"Retry-After": f"{exc.retry_after_seconds:.0f}"})
    except BusyError as exc:
        answer = problem(429, str(exc), {"Retry-After": RETRY_SECONDS})
    except StoreError as exc:
        answer = problem(503, " ".join(str(exc).split()), {"Retry-After": RETRY_SECONDS})
    except RequestError as exc:
        answer = problem(400, str(exc))
    else:
        return counts, sent.rejected.first, sent.n_ignored_rates
    intake.note(door, {"refused": 1})
    return answer


async def _body(request: AnyRequest, intake: Intake, room: Room, most: int | None = None) -> bytes:
    limit = min(most or intake.config.max_body_bytes, intake.config.max_body_bytes)
    try:
        return await read_body(request.stream(), request.headers.get("content-encoding"), limit, room.hold)
    except HTTPException as exc:
        raise TooLargeError(str(exc.detail)) from exc


def _enter(request: AnyRequest, dataplane: DataPlane, content_types: tuple[str, ...]) -> Client | Response[Any]:
    """Return the client of the request's key, or a refusal. Raises NotFoundError while the doors are closed."""
    if not INGEST.of(dataplane.config).enabled:
        raise NotFoundError(CLOSED)
    names = ("authorization", "x-api-key")
    head = RequestHead(
        [(name.encode(), request.headers[name].encode("latin-1")) for name in names if name in request.headers]
    )
    admitted = dataplane.admission.admit(head, perf_counter())
    if isinstance(admitted, Refusal):
        headers = {"WWW-Authenticate": CHALLENGE} if admitted.status == 401 else {}
        if admitted.retry_after_seconds is not None:
            headers["Retry-After"] = str(admitted.retry_after_seconds)
        return problem(admitted.status, admitted.message, headers)
    if _content_type(request) not in content_types:
        return problem(415, f"send the body as Content-Type: {' or '.join(content_types)}")
    return admitted


def _rates(
    request: AnyRequest, dataplane: DataPlane, intake: Intake, door: Door, client: Client
) -> Rates | Response[Any]:
    """Return the rules for the sampling rates of a request; or the answer to a header that is not a rate."""
    try:
        return rates_of(client, INGEST.of(dataplane.config), request.headers.get(RATE_HEADER))
    except UnreadableError as exc:
        intake.note(door, {"rejected": 1})
        return problem(400, str(exc))


def _content_type(request: AnyRequest) -> str:
    return str(request.headers.get("content-type", "")).partition(";")[0].strip().lower()
