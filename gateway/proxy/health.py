"""Watches one upstream: is it up, which models does it serve, has what it serves changed."""

import asyncio
import logging
from typing import NamedTuple

import httpx

from auditors.clients.bounded_body import ACCEPT_ENCODING, read_beginning
from auditors.clients.cancellation import cancelled_once
from auditors.clients.model_list import LONGEST_LIST_BYTES, MODELS_PATH, count_unread, fingerprint_of, read_models
from auditors.types import CompletionError
from gateway.proxy.upstreams import Upstream

logger = logging.getLogger(__name__)

INTERVAL_SECONDS = 2.0
DOWN_INTERVAL_SECONDS = 0.5
"""Between two checks of an upstream that is down: it should come back soon after it is back."""
TIMEOUT_SECONDS = 5.0
UNHEALTHY_THRESHOLD = 3
"""Timeouts in a row before something follows from them: a busy upstream is not a dead one."""
MODELS_EVERY = 3
"""The model list is fetched with every third check."""

_NO_HEALTH_ENDPOINT = frozenset({404, 405, 501})


class _Answer(NamedTuple):
    status_code: int
    content: bytes


class UpstreamMonitor:
    """Checks one upstream until it is cancelled."""

    def __init__(self, upstream: Upstream, http: httpx.AsyncClient) -> None:
        self._upstream = upstream
        self._http = http
        key = {"authorization": f"Bearer {upstream.api_key}"} if upstream.api_key else {}
        self._headers = {**ACCEPT_ENCODING, **key}
        self._timeouts_in_a_row = 0
        self._checks = 0

    async def watch(self) -> None:
        while True:
            await asyncio.sleep(INTERVAL_SECONDS if self._upstream.is_up else DOWN_INTERVAL_SECONDS)
            try:
                await self.check()
            except Exception:  # the watch must outlive its own bugs: without it a down upstream would stay down
                logger.exception("check of upstream %s failed", self._upstream.name)

    async def check(self) -> None:
        was_up = self._upstream.is_up
        try:
            problem = await self._problem()
            if problem is None and (self._checks % MODELS_EVERY == 0 or not was_up):
                await self._learn_models()
        except (TimeoutError, httpx.TimeoutException) as exc:
            self._timeouts_in_a_row += 1
            problem = self._upstream.down_reason or None
            if self._timeouts_in_a_row >= UNHEALTHY_THRESHOLD:
                if isinstance(exc, httpx.ConnectTimeout):
                    problem = "does not accept connections"
                else:  # it lives, and one long prompt may be all that keeps it
                    self._upstream.connects_slowly(TIMEOUT_SECONDS, "did not answer its health check")
        except httpx.HTTPError as exc:
            problem = f"cannot be reached ({exc or type(exc).__name__})"
        else:
            self._timeouts_in_a_row = 0
            self._checks += 1
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
        if response.status_code == 404:
            path = self._upstream.prefix.decode() + MODELS_PATH
            remedy = "set base_url to the address before /v1, or ignore this where requests are answered"
            self._tell_of_list("" if self._upstream.has_served else f"answers 404 at {path}: {remedy}")
        if response.status_code != 200:
            return
        try:
            entries = read_models(response.content)
            n_unread = count_unread(response.content)
        except CompletionError as exc:
            self._tell_of_list(f"{exc}: the models that it serves are not learned")
            return
        self._tell_of_list(f"its {MODELS_PATH} has entries without a name: {n_unread} are left out" if n_unread else "")
        self._upstream.set_served_models(entries, fingerprint_of(entries))

    def _tell_of_list(self, problem: str) -> None:
        """Log what is wrong with the list of models, once until something else is."""
        problem = " ".join(problem.split())
        if problem and problem != self._upstream.list_problem:
            logger.warning("upstream %s (%s): %s", self._upstream.name, self._upstream.url, problem)
        self._upstream.list_problem = problem

    async def _get(self, path: str) -> _Answer:
        """A longer body than any list of models is cut, and an answer that never ends is none."""
        url = self._upstream.origin + path
        async with asyncio.timeout(TIMEOUT_SECONDS):
            return await cancelled_once(self._exchange(url))

    async def _exchange(self, url: str) -> _Answer:
        limits = httpx.Timeout(None, connect=TIMEOUT_SECONDS)
        async with self._http.stream("GET", url, headers=self._headers, timeout=limits) as response:
            encoding = response.headers.get("content-encoding", "")
            return _Answer(
                response.status_code, await read_beginning(response.aiter_raw(), encoding, LONGEST_LIST_BYTES)
            )
