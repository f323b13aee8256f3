"""Where a control request may come from: no page of another origin, no rebound name, nothing a plain form can send."""

from collections.abc import Collection
from typing import Any
from urllib.parse import urlsplit

from litestar.connection import ASGIConnection
from litestar.exceptions import HTTPException, PermissionDeniedException
from litestar.handlers import BaseRouteHandler
from litestar.types import Guard

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})

Connection = ASGIConnection[Any, Any, Any, Any]


def origin_guard(allowed_hosts: Collection[str], *, is_protected: bool) -> Guard:
    """Refuses what a browser was made to send.

    Args:
        allowed_hosts: names without a port: ours, besides those of the loopback interface, and of pages that may call.
        is_protected: whether a key protects the control plane; the name it is called by tells nothing then.
    """
    allowed = {host.lower() for host in allowed_hosts}

    def require_own_origin(connection: Connection, _handler: BaseRouteHandler) -> None:
        host = connection.headers.get("host", "")
        origin = connection.headers.get("origin")
        if origin is not None and origin.partition("://")[2].lower() != host.lower() and _name(origin) not in allowed:
            raise PermissionDeniedException(
                detail=f'pages of "{origin[:200]}" may not call this: list the host in server.allowed_hosts'
            )
        if not is_protected and _name(f"//{host}") not in LOOPBACK | allowed:
            raise PermissionDeniedException(
                detail=f'the control plane has no admin key and no name "{host[:200]}": set server.admin_key_env, '
                "or list the name in server.allowed_hosts"
            )

    return require_own_origin


def require_json(connection: Connection, _handler: BaseRouteHandler) -> None:
    """Refuses a body of another type: a page may send text and forms anywhere without being asked."""
    headers = connection.headers
    has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
    if has_body and headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise HTTPException(status_code=415, detail="send the body as Content-Type: application/json")


def _name(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:  # a bracket without its other half
        return None
