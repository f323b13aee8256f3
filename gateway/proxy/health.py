"""Watches one upstream: is it up, which models does it serve, has what it serves changed."""

import asyncio
import logging

import httpx

from auditors.clients.model_list import MODELS_PATH, fingerprint_of, read_models
from auditors.types import CompletionError
from gateway.proxy.upstreams import Upstream

logger = logging.getLogger(__name__)

INTERVAL_SECONDS = 2.0
DOWN_INTERVAL_SECONDS = 0.5
"""Between two checks of an upstream that is down: it should come back soon after it is back."""
TIMEOUT_SECONDS = 5.0
UNHEALTHY_THRESHOLD = 3
"""Timeouts in a row before a slow upstream counts as down: a busy one is not a dead one."""
MODELS_EVERY = 3
"""The model list is fetched with every third check."""

_NO_HEALTH_ENDPOINT = frozenset({404, 405, 501})


class UpstreamMonitor:
    """Checks one upstream until it is cancelled."""

    def __init__(self, upstream: Upstream, http: httpx.AsyncClient) -> None:
        self._upstream = upstream
        self._http = http
        self._headers = {"authorization": f"Bearer {upstream.api_key}"} if upstream.api_key else {}
        self._timeouts_in_a_row = 0
        self._checks = 0

    async def watch(self) -> None:
        """Never returns."""
        while True:
            await asyncio.sleep(INTERVAL_SECONDS if self._upstream.is_up else DOWN_INTERVAL_SECONDS)
            try:
                await self.check()
            except Exception:  # the watch must outlive its own bugs: without it a down upstream would stay down
                logger.exception("check of upstream %s failed", self._upstream.name)

    async def check(self) -> None:
        """One check of the upstream."""
        was_up = self._upstream.is_up
        try:
            problem = await self._problem()
            if problem is None and (self._checks % MODELS_EVERY == 0 or not was_up):
                await self._learn_models()
        except httpx.TimeoutException:
            self._timeouts_in_a_row += 1
            problem = (
                "does not answer"
                if self._timeouts_in_a_row >= UNHEALTHY_THRESHOLD
                else self._upstream.down_reason or None
            )
        except httpx.HTTPError as exc:
            problem = f"cannot be reached ({exc or type(exc).__name__})"
        else:
            self._timeouts_in_a_row = 0
            self._checks += 1
        self._note(problem)

    def _note(self, problem: str | None) -> None:
        if problem is not None:
            self._upstream.mark_down(problem)
        elif not self._timeouts_in_a_row:
            self._upstream.mark_up()

    async def _problem(self) -> str | None:
        response = await self._get("/health")
        if response.status_code in _NO_HEALTH_ENDPOINT:
            response = await self._get(MODELS_PATH)
        if response.status_code >= 500:
            return f"answers its health check with {response.status_code}"
        return None

    async def _learn_models(self) -> None:
        response = await self._get(MODELS_PATH)
        if response.status_code != 200:
            return
        try:
            entries = read_models(response.content)
        except CompletionError:
            return
        self._upstream.set_served_models(entries, fingerprint_of(entries))

    async def _get(self, path: str) -> httpx.Response:
        return await self._http.get(self._upstream.origin + path, headers=self._headers, timeout=TIMEOUT_SECONDS)
