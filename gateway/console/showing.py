"""Answers with a page, or, to an `EventSource` at the same address, with the parts of it that change."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias

import msgspec
from litestar import Request, Response
from litestar.datastructures import State
from litestar.di import NamedDependency
from litestar.params import SkipValidation
from litestar.response import ServerSentEvent, ServerSentEventMessage

from gateway.api.access import Access
from gateway.api.dependencies import Asked
from gateway.console.rendering import Fragment, Rendered, View, render
from gateway.control_keys import Holder
from gateway.errors import BusyError, GatewayError, StoreError
from gateway.feature import FEATURES
from gateway.health import OK, Probe, circuit_text
from gateway.store import auditors_seen, circuits, streams
from gateway.store.database import Database

NAVIGATION = {
    "/console": "Overview",
    "/console/alarms": "Alarms",
    "/console/exchanges": "Exchanges",
    "/console/audits": "Audits",
}
"""The first entries of the navigation. Those of features follow, then LAST."""
LAST = {"/console/settings": "Settings"}


class Part(msgspec.Struct, frozen=True):
    """A part of the system: what is wrong with it, or nothing."""

    name: str
    problem: str | None


async def shell_of(
    request: Request[Holder, Any, State], database: Database, probe: Probe, *, is_locked: bool
) -> dict[str, Any]:
    """The frame for a template; a silent store is named among the parts. `is_locked`: a control key is asked for."""
    checks = await probe()
    parts = [Part(name, None if text == OK else text.removeprefix(f"{OK}, but ")) for name, text in checks.items()]
    n_alarms: int | None = None
    try:
        n_alarms = await streams.n_alarmed(database)
        parts += await _auditors(database)
        parts += [
            Part(
                circuit.auditor,
                circuit_text(circuit.opened_at, circuit.n_waiting, f"{circuit.error} ({circuit.server})"),
            )
            for circuit in await circuits.open_circuits(database)
        ]
        parts += [
            Part(name, problem) for name, feature in FEATURES.items() for problem in await feature.problems(database)
        ]
    except StoreError as exc:
        if all(part.problem is None for part in parts):
            parts.append(Part("store", str(exc)))
    return surroundings(request.user, is_locked=is_locked) | {"parts": parts, "n_alarms": n_alarms}


TEXT_PAGES = ("/console/exchanges",)
"""Pages of text of the core, to which the navigation of a viewer does not lead."""


def surroundings(holder: Holder | None, *, is_locked: bool) -> dict[str, Any]:
    """Return the frame of a page that shows nothing of the store, such as that for logging in."""
    is_viewer = holder is not None and holder.role == "viewer"
    tabs, text_pages = dict(NAVIGATION), {*TEXT_PAGES}
    for feature in FEATURES.values():
        tabs |= feature.tabs
        text_pages |= {*feature.text_pages}
    return {
        "navigation": {path: name for path, name in (tabs | LAST).items() if not (is_viewer and path in text_pages)},
        "holder": holder,
        "is_admin": holder is not None and holder.role == "admin",
        "is_locked": is_locked,
        "parts": [],
        "n_alarms": None,
        "at": time.time(),
    }


async def _auditors(database: Database) -> list[Part]:
    auditors, now = await auditors_seen.seen(database), time.time()
    if not auditors:
        return [Part("auditor", "none has been seen: nothing is audited until `biasgate auditor` runs")]
    silent = [auditor for auditor in auditors if auditor.is_silent(now)]
    parts = [
        Part(
            f"auditor {auditor.name}",
            f"no sign of life since {time.strftime('%Y-%m-%d %H:%M:%S UTC', time.gmtime(auditor.seen_at))}",
        )
        for auditor in silent
    ]
    n_alive = len(auditors) - len(silent)
    alive = Part("auditor" if n_alive == 1 else f"{n_alive} auditors", None)
    return [alive, *parts] if n_alive else parts


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
    """Shows pages and keeps open ones up to date until `is_stopping`. `access` tells whether a key is asked."""

    def __init__(self, database: Database, probe: Probe, access: Access, is_stopping: Callable[[], bool]) -> None:
        self._database = database
        self._probe = probe
        self._access = access
        self._is_stopping = is_stopping
        self._n_open = 0

    async def shown(self, request: Asked, build: Build) -> Response[Any]:
        """The page, or its changes where `request` accepts events. Raises BusyError at MOST_OPEN pages; as `build`."""

        async def rendered() -> Rendered:
            shell = await shell_of(request, self._database, self._probe, is_locked=bool(self._access.keys))
            return await asyncio.to_thread(render, await build(), shell)

        first = await rendered()
        if not is_for_changes(request):
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


def is_for_changes(request: Asked) -> bool:
    """Return whether an open page asks for its changes, without what takes seconds to make or is on record."""
    return "text/event-stream" in request.headers.get("accept", "")


def page(html: str, status_code: int = 200) -> Response[str]:
    """Return a page with the headers of every page: its scripts and styles are our own files."""
    return Response(html, status_code=status_code, headers=HEADERS, media_type=HTML)


PageFrame: TypeAlias = NamedDependency[SkipValidation[Pages]]
"""The dependency of a handler that shows its page."""
