"""Answers with a page, or, to an `EventSource` at the same address, with the parts of it that change."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias

import msgspec
from litestar import Response
from litestar.di import NamedDependency
from litestar.params import SkipValidation
from litestar.response import ServerSentEvent, ServerSentEventMessage

from gateway.api.access import Access
from gateway.api.dependencies import Asked
from gateway.console.rendering import Fragment, Rendered, View, render
from gateway.console.shell import shell_of
from gateway.errors import BusyError, GatewayError
from gateway.health import Probe
from gateway.store.database import Database

ROUND_SECONDS = 3.0
"""Seconds between two looks at the store, for each page that is open."""
LOOK_SECONDS = 0.5
"""Seconds within which an open page notices that the gateway stops."""
MOST_OPEN = 50
"""Pages that one worker keeps up to date; those beyond it stand still and say so."""
HTML = "text/html; charset=utf-8"
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "referrer-policy": "same-origin",
    "cache-control": "no-store",
}

Build = Callable[[], Awaitable[View]]


class Update(msgspec.Struct, frozen=True):
    """One event of an open page: `fragments` are those that changed since the last one."""

    title: str
    fragments: dict[str, Fragment]


class Pages:
    """Shows the pages of a single worker, and keeps those that are open up to date, until `is_stopping`. `access` tells
    whether a control key is asked for.
    """

    def __init__(self, database: Database, probe: Probe, access: Access, is_stopping: Callable[[], bool]) -> None:
        self._database = database
        self._probe = probe
        self._access = access
        self._is_stopping = is_stopping
        self._n_open = 0

    async def shown(self, request: Asked, build: Build) -> Response[Any]:
        """The page; or, where `request` accepts an event stream, its changes until the reader leaves. `build` reads it
        for each round of changes. Raises BusyError when MOST_OPEN pages are open, and what `build` raises the first
        time.
        """

        async def rendered() -> Rendered:
            shell = await shell_of(request, self._database, self._probe, is_locked=bool(self._access.keys))
            return await asyncio.to_thread(render, await build(), shell)

        first = await rendered()
        if "text/event-stream" not in request.headers.get("accept", ""):
            return page(first.html)
        if self._n_open >= MOST_OPEN:
            raise BusyError(f"{MOST_OPEN} pages are open already: reload this page to see its newest state")
        return ServerSentEvent(self._changes(first, rendered), headers={"cache-control": "no-store"})

    async def _changes(
        self, first: Rendered, rendered: Callable[[], Awaitable[Rendered]]
    ) -> AsyncIterator[ServerSentEventMessage]:
        """One event a round, also where nothing changed: it is the page's sign that it is up to date."""
        self._n_open += 1
        try:
            digests: dict[str, str] = {}
            now = first
            while True:
                changed = {
                    name: fragment for name, fragment in now.fragments.items() if digests.get(name) != fragment.digest
                }
                digests = {name: fragment.digest for name, fragment in now.fragments.items()}
                update = msgspec.json.encode(Update(now.title, changed)).decode()
                yield ServerSentEventMessage(data=update, event="update")
                for _ in range(round(ROUND_SECONDS / LOOK_SECONDS)):
                    if self._is_stopping():
                        return
                    await asyncio.sleep(LOOK_SECONDS)
                try:
                    now = await rendered()
                except GatewayError as exc:  # the page says it, and the next round tries again
                    yield ServerSentEventMessage(data=" ".join(str(exc).split()), event="trouble")
        finally:
            self._n_open -= 1


def page(html: str, status_code: int = 200) -> Response[str]:
    """Return a page with the headers of every page: its scripts and styles are our own files."""
    return Response(html, status_code=status_code, headers=HEADERS, media_type=HTML)


PageFrame: TypeAlias = NamedDependency[SkipValidation[Pages]]
"""The dependency of a handler that shows its page."""
