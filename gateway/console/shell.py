"""The frame of every page of the console: navigation, who is logged in, and the health of every part."""

import time
from typing import Any

import msgspec
from litestar import Request
from litestar.datastructures import State

from gateway.control_keys import Holder
from gateway.errors import StoreError
from gateway.feature import FEATURES
from gateway.health import OK, STREAMS, Probe, circuit_text
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
    """Return the frame for a template. A store that does not answer is named among the parts, and nothing else of it is
    known. `is_locked`: whether a control key is asked for.
    """
    checks = await probe()
    parts = [Part(name, None if text.startswith(OK) else text) for name, text in checks.items() if name != STREAMS]
    if STREAMS in checks:
        parts.append(Part(STREAMS, checks[STREAMS].removeprefix(f"{OK}, but ")))
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
        tabs |= feature.tabs()
        text_pages |= {*feature.text_pages()}
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
