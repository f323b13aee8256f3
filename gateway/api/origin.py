"""Refuses control requests of pages of another origin, by a rebound name, or in a form that a plain page can send."""

from collections.abc import Collection
from typing import Any
from urllib.parse import urlsplit

from litestar.connection import ASGIConnection
from litestar.exceptions import HTTPException, PermissionDeniedException
from litestar.handlers import BaseRouteHandler

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})

Connection = ASGIConnection[Any, Any, Any, Any]


class Origins:
    """Refuses what a browser was made to send. `allowed_hosts`: without ports or loopback. `is_protected`: by key."""

    def __init__(self, allowed_hosts: Collection[str], *, is_protected: bool) -> None:
        self._pages = frozenset(host.lower() for host in allowed_hosts)
        self._names = LOOPBACK | self._pages
        self._is_protected = is_protected

    def require_own(self, connection: Connection) -> None:
        """Raises PermissionDeniedException with instructions for a page, or a name, of the caller's own."""
        host = connection.headers.get("host", "")
        origin = connection.headers.get("origin")
        if origin is not None and not _is_of(origin, host) and _name(origin) not in self._pages:
            raise PermissionDeniedException(
                detail=f'pages of "{origin[:200]}" may not call this: list the host in server.allowed_hosts'
            )
        if not self._is_protected and _name(f"//{host}") not in self._names:
            raise PermissionDeniedException(
                detail=f'the control plane has no key and no name "{host[:200]}": set server.admin_key_env or '
                "[[server.control_keys]], or list the name in server.allowed_hosts"
            )


def require_own_page(connection: Connection) -> None:
    """Refuse the console's cookie from any page but its own: `SameSite=Strict` lets other ports of the site pass."""
    origin = connection.headers.get("origin")
    site = connection.headers.get("sec-fetch-site", "same-origin")
    is_own = _is_of(origin, connection.headers.get("host", "")) if origin else connection.scope.get("method") == "GET"
    if not is_own or site not in ("same-origin", "none"):  # none: somebody opened the address
        raise PermissionDeniedException(
            detail="a session of the console is for the console's own page only: send a key"
        )


def require_json(connection: Connection, _handler: BaseRouteHandler) -> None:
    """Refuses a body of another type: a page may send text and forms anywhere without being asked."""
    headers = connection.headers
    has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
    if has_body and headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise HTTPException(status_code=415, detail="send the body as Content-Type: application/json")


def _is_of(origin: str, host: str) -> bool:
    return origin.partition("://")[2].lower() == host.lower()


def _name(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:  # a bracket without its other half
        return None
