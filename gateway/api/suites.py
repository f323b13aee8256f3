"""GET /suites: the suites that an auditor has published. The gateway itself imports no benchmark."""

from typing import Any

from litestar import Controller, get

from gateway.api.dependencies import Store
from gateway.api.problems import UnavailableError, announced
from gateway.store import catalogue
from gateway.store.database import Database

NO_AUDITOR = (
    "no auditor has reported its suites yet: start one with `biasgate auditor` (or `biasgate serve`) and try again"
)


class SuitesController(Controller):
    """Names, versions, items, modes and metrics of the benchmark suites."""

    tags = ("audits",)

    @get("/suites", summary="Suites with items, modes, protocols, metrics, axes", responses=announced())
    async def suites(self, database: Store) -> list[dict[str, Any]]:
        return await known_suites(database)


async def known_suites(database: Database) -> list[dict[str, Any]]:
    """The catalogue, by name. Raises UnavailableError while it is empty."""
    published = await catalogue.read(database)
    if not published:
        raise UnavailableError(NO_AUDITOR)
    return sorted(published, key=lambda suite: str(suite["name"]))
