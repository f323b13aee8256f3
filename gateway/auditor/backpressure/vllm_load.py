"""Reads the load of a vLLM server from GET /metrics on its origin; names as in vLLM 0.32, v1/metrics/loggers.py."""

import asyncio
import math
import re
import time
from collections import defaultdict
from typing import NamedTuple, Protocol

import httpx

from auditors.clients.bounded_body import ACCEPT_ENCODING, BodyError, read_body
from auditors.clients.cancellation import cancelled_once

READ_SECONDS = 5.0
"""Longest that one poll may take, as for a health check: a busy vLLM may need seconds to show its page."""
ASK_AGAIN_SECONDS = 60.0
"""A server without these metrics is not asked every second."""
LONGEST_PAGE_BYTES = 1024 * 1024

_RUNNING, _WAITING, _KV_USAGE = b"num_requests_running", b"num_requests_waiting", b"kv_cache_usage_perc"
_TOKEN_SECONDS, _TOKENS = b"inter_token_latency_seconds_sum", b"inter_token_latency_seconds_count"
_NAMES = b"|".join((_RUNNING, _WAITING, _KV_USAGE, _TOKEN_SECONDS, _TOKENS))
_SAMPLE = re.compile(rb"^vllm:(" + _NAMES + rb")(?:\{[^\n]*\})?[ \t]+(\S+)", re.MULTILINE)


class Load(NamedTuple):
    """The result of a single poll of a server, all its engines and models together."""

    running: float = 0.0
    """Requests in the batches."""
    waiting: float = 0.0
    """Requests in the queues."""
    kv_usage: float = 0.0
    """Share of the key-value cache in use, 0 to 1, where it is fullest."""
    token_seconds: float = 0.0
    """Time from one token of a request to its next, over all tokens since the server started."""
    tokens: float = 0.0
    """Number of those tokens; 0 as well if the server does not count them."""


def parse_load(page: bytes) -> Load | None:
    """The load that a page in Prometheus' text format tells of; None when it has no vLLM queue to tell of."""
    values_by_name: dict[bytes, list[float]] = defaultdict(list)
    for name, text in _SAMPLE.findall(page):
        try:
            value = float(text)
        except ValueError:
            continue
        if math.isfinite(value) and value >= 0:
            values_by_name[name].append(value)
    if not values_by_name[_WAITING]:
        return None
    return Load(
        running=sum(values_by_name[_RUNNING]),
        waiting=sum(values_by_name[_WAITING]),
        kv_usage=max(values_by_name[_KV_USAGE], default=0.0),
        token_seconds=sum(values_by_name[_TOKEN_SECONDS]),
        tokens=sum(values_by_name[_TOKENS]),
    )


class LoadUnknownError(Exception):
    """A server that does not say how busy it is, this time."""


class LoadSource(Protocol):
    """Says how busy one server is."""

    async def poll(self) -> Load | None:
        """The load now; None where there is none to tell of. Raises LoadUnknownError when it cannot be had."""
        ...

    async def aclose(self) -> None: ...


class LoadReader:
    """Polls one server; opens no connection before the first poll."""

    def __init__(self, origin: str, api_key: str | None = None) -> None:
        """`origin` is the server's base URL without /v1; the key is sent as the health checks send it."""
        self._url = f"{origin}/metrics"
        self._headers = {**ACCEPT_ENCODING} | ({"authorization": f"Bearer {api_key}"} if api_key else {})
        self._client: httpx.AsyncClient | None = None
        self._has_none_until = -math.inf

    async def poll(self) -> Load | None:
        """The load now; None without any (asked again in a minute). Raises LoadUnknownError without an answer."""
        if time.monotonic() < self._has_none_until:
            return None
        if self._client is None:
            # A poll on a kept connection would fail whenever the server has just closed it.
            limits = httpx.Limits(max_keepalive_connections=0)
            timeout = httpx.Timeout(None, connect=READ_SECONDS)
            self._client = httpx.AsyncClient(headers=self._headers, timeout=timeout, limits=limits, trust_env=False)
        try:
            async with asyncio.timeout(READ_SECONDS):
                page = await cancelled_once(self._page(self._client))
        except (TimeoutError, httpx.HTTPError) as exc:
            raise LoadUnknownError(f"{self._url}: {type(exc).__name__}: {exc}") from exc
        load = None if page is None else parse_load(page)
        if load is None:
            self._has_none_until = time.monotonic() + ASK_AGAIN_SECONDS
        return load

    async def aclose(self) -> None:
        if self._client is not None:
            await self._client.aclose()

    async def _page(self, client: httpx.AsyncClient) -> bytes | None:
        async with client.stream("GET", self._url) as response:
            if response.status_code >= 500 and response.status_code != httpx.codes.NOT_IMPLEMENTED:
                response.raise_for_status()  # the page may be there, and the server in trouble
            if response.status_code != 200:
                return None
            encoding = response.headers.get("content-encoding", "")
            try:
                return await read_body(response.aiter_raw(), encoding, LONGEST_PAGE_BYTES)
            except BodyError:
                return None
