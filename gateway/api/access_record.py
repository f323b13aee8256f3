"""Puts on record who read or deleted stored exchanges over HTTP."""

from typing import Any

from litestar import Request
from litestar.datastructures import State

from gateway.api.access import name_of
from gateway.store import access
from gateway.store.access import Action
from gateway.store.database import Database


async def note(
    request: Request[Any, Any, State], database: Database, action: Action, asked: dict[str, Any], n_exchanges: int
) -> None:
    """Note an access by the name of the key and the address."""
    await access.note(
        database, who=name_of(request), client=client_of(request), action=action, asked=asked, n_exchanges=n_exchanges
    )


def client_of(request: Request[Any, Any, State]) -> str | None:
    return request.client.host if request.client else None
