"""The admin key: one shared secret in front of the control plane, compared in constant time."""

import hmac
from typing import Any

from litestar.connection import ASGIConnection
from litestar.exceptions import NotAuthorizedException, PermissionDeniedException
from litestar.handlers import BaseRouteHandler
from litestar.types import Guard

ADMIN = "admin"
"""Who the record of accesses names: there is one key."""

Connection = ASGIConnection[Any, Any, Any, Any]


def admin_guard(key: str | None) -> Guard:
    """Lets a request pass that carries `Authorization: Bearer KEY`; everything passes when no key is set."""

    def require_admin(connection: Connection, _handler: BaseRouteHandler) -> None:
        if key is not None and not _carries(connection, key):
            raise NotAuthorizedException(
                detail="the admin key is missing or wrong: send it as Authorization: Bearer KEY",
                headers={"WWW-Authenticate": "Bearer"},
            )

    return require_admin


def served_text_guard(key: str | None) -> Guard:
    """For routes that show what people wrote: closed altogether until an admin key is configured."""

    def require_key(_connection: Connection, _handler: BaseRouteHandler) -> None:
        if key is None:
            raise PermissionDeniedException(
                detail="served text is shown to administrators only: set server.admin_key_env to open this route"
            )

    return require_key


def _carries(connection: Connection, key: str) -> bool:
    scheme, _, presented = connection.headers.get("authorization", "").partition(" ")
    return scheme.lower() == "bearer" and hmac.compare_digest(presented.strip().encode(), key.encode())
