"""What became of exchanges that were sent to a gateway."""

import json
from typing import Any

from gateway.store import exchanges, ledger
from tests.support.gateway.control_plane import ControlPlane


async def outcomes(plane: ControlPlane) -> dict[str, int]:
    found: dict[str, int] = {}
    for (_, outcome), count in (await ledger.counts(plane.database)).items():
        found[outcome] = found.get(outcome, 0) + count
    return found


def counted(plane: ControlPlane) -> dict[tuple[str, str], int]:
    """Return what the doors counted, by door and outcome."""
    return {(door, outcome): count for door, outcome, count in plane.stats.snapshot().ingested}


async def stored(plane: ControlPlane) -> list[Any]:
    return await exchanges.load(plane.database, await exchanges.waiting(plane.database, received_before=9e9, limit=100))


def said(exchange: Any) -> tuple[list[Any], Any]:
    """Messages of the request, and the first choice's words."""
    request, response = json.loads(exchange.request_body), json.loads(exchange.response_body)
    return request["messages"], response["choices"][0]["message"]["content"]
