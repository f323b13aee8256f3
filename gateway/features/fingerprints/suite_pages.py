"""/console/fingerprints/suites: models side by side by their finished runs, with ranks and published rows."""

import asyncio
import time
from collections.abc import Mapping
from typing import Any, TypeAlias

import anyio
import msgspec
from litestar import Controller, Response, get
from litestar.di import NamedDependency
from litestar.params import FromPath, SkipValidation
from markupsafe import Markup

from gateway.api.dependencies import Asked, Settings
from gateway.config.schema import Config
from gateway.console.rendering import View
from gateway.console.showing import PageFrame
from gateway.errors import GatewayError
from gateway.reading import run_views
from gateway.store import runs
from gateway.store.database import Database
from gateway.worker_part import WorkerContext, WorkerPart

RETRY_SECONDS = 60.0
"""After an attempt that failed."""
SECONDS = 120.0
_ONE_AT_A_TIME = anyio.CapacityLimiter(1)


class Parts(msgspec.Struct, frozen=True):
    """See `gateway.features.fingerprints.suite_parts.Rendered`."""

    ranks: str
    suites: dict[str, tuple[str, str]]


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """The fingerprints that can be shown now."""

    n_runs: int
    parts: Parts | None
    """The parts of the page; None until they are made for the first time."""
    is_current: bool
    trouble: str | None
    """Why the last attempt failed."""


class KeptFingerprints:
    """The store's fingerprints, made once for each state of its finished runs; a page shows the present ones."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._made_of: tuple[int, float | None] | None = None
        self._parts: Parts | None = None
        self._trouble: str | None = None
        self._failed_at = 0.0
        self._making: asyncio.Task[None] | None = None

    async def now(self, config: Config) -> Shown:
        """Return the fingerprints; begin to make them again if runs have finished since."""
        state = await runs.n_done(self._database)
        is_current = state == self._made_of
        is_at_work = self._making is not None and not self._making.done()
        may_try = self._trouble is None or time.monotonic() > self._failed_at + RETRY_SECONDS
        if state[0] and not is_current and not is_at_work and may_try:
            self._making = asyncio.create_task(self._make(config, state))
        return Shown(n_runs=state[0], parts=self._parts, is_current=is_current, trouble=self._trouble)

    async def _make(self, config: Config, state: tuple[int, float | None]) -> None:
        try:
            content = await run_views.apart(SECONDS, "fingerprints of suite runs", _ONE_AT_A_TIME, _encode, config)
            self._parts = await asyncio.to_thread(msgspec.json.decode, content, type=Parts)
            self._made_of, self._trouble = state, None
        except GatewayError as exc:
            self._trouble, self._failed_at = str(exc), time.monotonic()


class FingerprintsPart(WorkerPart):
    """The pages of a worker share their fingerprints."""

    def __init__(self, context: WorkerContext) -> None:
        self._fingerprints = KeptFingerprints(context.database)

    def dependencies(self) -> Mapping[str, object]:
        return {"fingerprints": self._fingerprints}


Fingerprints: TypeAlias = NamedDependency[SkipValidation[KeptFingerprints]]


class SuiteFingerprintsController(Controller):
    """Pages of suite runs: ranks, and a page a suite."""

    path = "/console/fingerprints/suites"
    include_in_schema = False

    @get(["/", "/{suite:str}"])
    async def suites(
        self,
        request: Asked,
        pages: PageFrame,
        config: Settings,
        fingerprints: Fingerprints,
        suite: FromPath[str | None] = None,
    ) -> Response[Any]:
        async def build() -> View:
            current = await fingerprints.now(config)
            title, part = _part(current.parts, suite)
            data = {"shown": current, "suite": suite, "part": Markup(part)}  # noqa: S704 - our template with autoescape made it
            return View(template="suite_fingerprints_page.html", title=title, tab="/console/fingerprints", data=data)

        return await pages.shown(request, build)


def _part(parts: Parts | None, suite: str | None) -> tuple[str, str]:
    if suite is None:
        return "Ranks of suite runs", "" if parts is None else parts.ranks
    title, part = (suite, "") if parts is None else parts.suites.get(suite, (suite, ""))
    return f"Fingerprints: {title}", part


def _encode(config: Config) -> bytes:
    from gateway.features.fingerprints import finished_runs

    return run_views.yielding(finished_runs.encode(config))
