"""RFC 9457 problem details: every error of the control plane is one JSON object with one clear detail line."""

from http import HTTPStatus
from typing import Any, get_args

import msgspec
import structlog
from litestar import Request, Response
from litestar.connection import ASGIConnection
from litestar.exceptions import HTTPException, ValidationException
from litestar.handlers import BaseRouteHandler
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import QueryParameter

from auditors.addresses import mask_addresses
from gateway.errors import BusyError, ConflictError, GatewayError, NotFoundError, RequestError, StoreError, nearest

MEDIA_TYPE = "application/problem+json"

STATUS_BY_ERROR: dict[type[GatewayError], int] = {
    NotFoundError: 404,
    ConflictError: 409,
    BusyError: 429,
    StoreError: 503,
}
"""Any other GatewayError is the caller's mistake: 400."""
RETRY_AFTER_SECONDS = 60

log = structlog.get_logger(__name__)


class UnavailableError(StoreError):
    """Something the request needs is not there yet, such as an auditor."""


class Problem(msgspec.Struct, frozen=True):
    """The shape of every error (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str


def require_known_parameters(connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler) -> None:
    """Raise RequestError for a query parameter that the route does not read: a mistyped filter filters nothing."""
    signatures = [dependency.parsed_fn_signature for dependency in handler.resolve_dependencies().values()]
    signatures.append(handler.parsed_fn_signature)
    fields = [field for signature in signatures for field in signature.parameters.values()]
    queries = [(field.name, field.kwarg_definition) for field in fields]
    parameters = sorted(query.name or name for name, query in queries if isinstance(query, QueryParameter))
    for name in connection.query_params:
        if name not in parameters:
            listed = ", ".join(parameters) or "none"
            raise RequestError(f'unknown query parameter "{name[:40]}"{nearest(name, parameters)}; known: {listed}')


def announced(*statuses: int) -> dict[int, ResponseSpec]:
    """Return the entries for a handler's `responses`: its own error statuses and those of guarded operations."""
    return {
        status: ResponseSpec(
            Problem, description=HTTPStatus(status).phrase, media_type=MEDIA_TYPE, generate_examples=False
        )
        for status in (400, 401, 403, 503, *statuses)
    }


def problem(status: int, detail: str, headers: dict[str, str] | None = None) -> Response[dict[str, Any]]:
    body = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": mask_addresses(detail),
    }
    return Response(body, status_code=status, media_type=MEDIA_TYPE, headers=headers)


def from_gateway_error(_request: Request[Any, Any, Any], exc: GatewayError) -> Response[dict[str, Any]]:
    status = next((code for kind, code in STATUS_BY_ERROR.items() if isinstance(exc, kind)), 400)
    headers = {"Retry-After": str(RETRY_AFTER_SECONDS)} if status == 429 else None
    return problem(status, " ".join(str(exc).split()), headers)


def from_http_exception(request: Request[Any, Any, Any], exc: HTTPException) -> Response[dict[str, Any]]:
    if exc.status_code >= 500:
        return from_unexpected(request, exc)
    detail = _validation_detail(request, exc) if isinstance(exc, ValidationException) else exc.detail
    return problem(exc.status_code, detail or HTTPStatus(exc.status_code).phrase, exc.headers)


def from_deep_nesting(_request: Request[Any, Any, Any], _exc: RecursionError) -> Response[dict[str, Any]]:
    """A body whose reader gave up; nothing of ours nests as deeply."""
    return problem(400, "the body is nested too deeply")


def from_wrong_encoding(_request: Request[Any, Any, Any], exc: UnicodeDecodeError) -> Response[dict[str, Any]]:
    """Answer a body that is not UTF-8, which its reader does not tell apart from a fault of ours."""
    return problem(400, f"the body is not UTF-8 (byte {exc.start}): send JSON in UTF-8")


def from_unexpected(request: Request[Any, Any, Any], exc: Exception) -> Response[dict[str, Any]]:
    """Our own mistake: the log has the traceback, the client only learns that it was not theirs."""
    log.error("control request failed", path=request.url.path, method=request.method, exc_info=exc)
    return problem(500, "internal error; the gateway's log says more")


def _validation_detail(request: Request[Any, Any, Any], exc: ValidationException) -> str:
    extra = exc.extra if isinstance(exc.extra, list) else []
    parts = [_entry_detail(entry, _body_fields(request)) for entry in extra if isinstance(entry, dict)]
    return "; ".join(parts) or exc.detail


def _entry_detail(entry: dict[str, Any], known_fields: set[str]) -> str:
    message = str(entry.get("message", ""))
    _, is_unknown, field = message.partition("unknown field `")
    if is_unknown:
        return message + nearest(field.rstrip("`"), known_fields)
    key = entry.get("key")
    return f"{key}: {message}" if key and key != "data" else message


def _body_fields(request: Request[Any, Any, Any]) -> set[str]:
    body = request.route_handler.parsed_data_field
    kinds = () if body is None else (body.annotation, *get_args(body.annotation))  # a body may be X or X | None
    structs = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, msgspec.Struct)]
    return {field.name for kind in structs for field in msgspec.structs.fields(kind)}


HANDLERS: dict[type[Exception] | int, Any] = {
    GatewayError: from_gateway_error,
    HTTPException: from_http_exception,
    RecursionError: from_deep_nesting,
    UnicodeDecodeError: from_wrong_encoding,
    Exception: from_unexpected,
}
