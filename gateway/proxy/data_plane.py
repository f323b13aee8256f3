"""The data plane of a worker: its upstreams, gate and tap, and the clock that ends requests that take too long."""

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import Any, Protocol

import httpx
import msgspec

from gateway.config.effective import digest
from gateway.config.schema import Config
from gateway.health import OK, UPSTREAMS
from gateway.proxy.admission import Admission
from gateway.proxy.affinity import Affinity
from gateway.proxy.body import RequestBody
from gateway.proxy.client_limits import CLIENT_TICK_SECONDS, BufferedBodies, ClientConnection
from gateway.proxy.cors import cors_policy
from gateway.proxy.giving_way import GivingWay
from gateway.proxy.headers import RequestHead
from gateway.proxy.health import UpstreamMonitor
from gateway.proxy.instrumentation import SpanProcessor, instrumentation_of
from gateway.proxy.refusals import Refusal, model_not_found
from gateway.proxy.types import LABELLED_ENDPOINTS, Mitigation, RequestStats, Tap
from gateway.proxy.upstreams import Upstream, Upstreams
from gateway.ticks import every, next_tick

logger = logging.getLogger(__name__)

TICK_SECONDS = 0.1
"""Seconds by which the notice of a time limit may be late, for each CHECKS_PER_TICK exchanges in flight."""
CHECKS_PER_TICK = 256
"""All of thousands of streams at once, ten times a second, would cost a tenth of a core and stall the others."""
MODELS_PATH = b"/v1/models"
_ASKING_MODELS = frozenset(endpoint.encode() for endpoint in LABELLED_ENDPOINTS) - {MODELS_PATH}
"""Endpoints whose 404 means that the model does not exist."""
FIRST_CHECK_SECONDS = 1.0
"""Seconds that start() waits to know the upstreams; an upstream that has not answered by then is taken to be up."""


class LiveExchange(Protocol):
    """An exchange that has begun and not ended."""

    def check(self, now: float) -> None:
        """End the exchange when a time limit has passed; `now` is time.perf_counter()."""

    def on_drain_timeout(self) -> None:
        """End the exchange: the gateway's time to drain is over."""


class DataPlane:
    """A worker's data plane. `spans`, `mitigation` None: no traces, no policy. Raises ConfigError like Admission."""

    def __init__(
        self,
        config: Config,
        *,
        tap: Tap,
        stats: RequestStats,
        spans: SpanProcessor | None = None,
        mitigation: Mitigation | None = None,
    ) -> None:
        self.config = config
        self.mitigation = mitigation
        self.config_name = digest(config)
        self.tap = tap
        self.stats = stats
        self.spans = spans
        self.instrumentation = instrumentation_of(config.telemetry, spans)
        self.admission = Admission(config)
        self.relayed_paths = frozenset(path.encode() for path in config.server.relayed_paths)
        """Outside /v1, without query."""
        self.cors = cors_policy(config.server.cors_origins)
        self.bodies = BufferedBodies(config.server.max_buffered_bytes)
        self._balancer = Upstreams(config)
        self._affinity = Affinity(config.balancing) if config.balancing.policy == "consistent_hash" else None
        self.giving_way = GivingWay(config, self._balancer.all, stats)
        self.clients: set[ClientConnection] = set()
        """Open connections, each of which puts itself in and takes itself out."""
        self._live: set[LiveExchange] = set()
        self._all_ended = asyncio.Event()
        self._http: httpx.AsyncClient | None = None
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def upstreams(self) -> list[Upstream]:
        return self._balancer.all

    async def start(self) -> None:
        """Looks at every upstream once, then keeps watching them."""
        self._http = httpx.AsyncClient(
            verify=self._balancer.tls or False,
            trust_env=False,
            headers={"user-agent": "biasgate-health"},
            # A check on a kept connection would fail whenever the upstream has just closed it.
            limits=httpx.Limits(max_keepalive_connections=0),
        )
        monitors = [UpstreamMonitor(upstream, self._http) for upstream in self.upstreams]
        if monitors:
            first_checks = [asyncio.create_task(monitor.check()) for monitor in monitors]
            _, pending = await asyncio.wait(first_checks, timeout=FIRST_CHECK_SECONDS)
            for task in pending:
                task.cancel()
        self._tasks = [asyncio.create_task(monitor.watch()) for monitor in monitors]
        self._tasks.append(asyncio.create_task(self._keep_time()))
        self._tasks.append(asyncio.create_task(self._watch_clients()))
        self._tasks.append(asyncio.create_task(self.giving_way.watch()))

    @property
    def live(self) -> int:
        return len(self._live)

    def abort_exchanges(self) -> int:
        """Ends every exchange in flight, each counted and told to its client; returns how many there were."""
        exchanges = list(self._live)
        for exchange in exchanges:
            exchange.on_drain_timeout()
        return len(exchanges)

    async def ended(self) -> None:
        while self._live:
            self._all_ended.clear()
            await self._all_ended.wait()

    async def stop(self, drain_seconds: float) -> None:
        """Waits for relays in flight, ends those that are not done after `drain_seconds`, closes every connection."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(drain_seconds):
                await self.ended()
        self.abort_exchanges()
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self._tasks.clear()
        for upstream in self.upstreams:
            await upstream.pool.close()
        if self.mitigation is not None:
            await self.mitigation.aclose()
        if self._http is not None:
            await self._http.aclose()

    def exchange_began(self, exchange: LiveExchange) -> None:
        """The clock checks it from now on."""
        self._live.add(exchange)

    def exchange_ended(self, exchange: LiveExchange) -> None:
        """Counterpart of `exchange_began`, also for exchanges that never began."""
        self._live.discard(exchange)
        if not self._live:
            self._all_ended.set()

    def choose(self, head: RequestHead, body: RequestBody, *, exclude: Sequence[Upstream] = ()) -> Upstream | None:
        if self._affinity is None:
            return self._balancer.choose(body.served_model, exclude=exclude)
        key = self._affinity.key(head, body.content)
        choice = None if key is None else partial(self._affinity.choose, key=key)
        return self._balancer.choose(body.served_model, exclude=exclude, choice=choice)

    def model_label(self, name: str | None) -> str:
        """The name when some upstream or alias is known to serve it, else "other": a closed set of labels."""
        if name is None:
            return "other"
        for upstream in self._balancer.all:
            if name in upstream.models:
                return name
        return name if name in self.config.aliases else "other"

    def answers_itself(self, method: bytes, path: bytes) -> bool:
        """GET /v1/models is merged here, unless one upstream's own answer says it all."""
        if path != MODELS_PATH or method not in (b"GET", b"HEAD"):
            return False
        return len(self.upstreams) > 1 or bool(self.config.aliases)

    def unknown_model(self, path: bytes, body: RequestBody) -> Refusal | None:
        """Return the answer with all upstreams' models to a 404; None where the upstream's own answer is right."""
        model_name = body.model
        is_merged = len(self.upstreams) > 1 or bool(self.config.aliases)
        if model_name is None or not is_merged or path not in _ASKING_MODELS:
            return None
        if any(body.served_model in upstream.models for upstream in self.upstreams):
            return None
        served = {model for upstream in self.upstreams if upstream.is_up for model in upstream.models}
        if not served:
            return None  # no upstream has told its models yet
        return model_not_found(model_name, sorted((served | set(self.config.aliases)) - {model_name}))

    def models_body(self) -> bytes | None:
        """The merged model list as JSON; None when no upstream is up."""
        up = [upstream for upstream in self.upstreams if upstream.is_up]
        return merged_models(up, self.config.aliases) if up else None

    def ready(self) -> dict[str, str]:
        """Named checks; "ok" or what is wrong, with addresses where the control plane is open: any client may ask."""
        server = self.config.server
        is_open = not (server.admin_key_env or server.control_keys)
        is_up = any(upstream.is_up for upstream in self.upstreams)
        problems = ", ".join(
            f"{upstream.name}{f' ({upstream.url})' if is_open else ''} {problem}"
            for upstream in self.upstreams
            if (problem := upstream.list_problem if is_up else upstream.down_reason)
        )
        if is_up:
            return {UPSTREAMS: f"{OK}, but {problems}" if problems else OK}
        return {UPSTREAMS: f"none is up: {problems}" if problems else "none is configured: add [[upstreams]]"}

    async def _watch_clients(self) -> None:
        while True:
            await next_tick(CLIENT_TICK_SECONDS)
            now = perf_counter()
            for client in list(self.clients):
                try:
                    client.check_client(now)
                except Exception:  # as in _keep_time
                    logger.exception("checking a client's connection failed")

    async def _keep_time(self) -> None:
        unchecked: list[LiveExchange] = []

        def tick(_: float) -> None:
            now = perf_counter()
            if not unchecked:
                unchecked.extend(self._live)
            self._check(unchecked[-CHECKS_PER_TICK:], now)
            del unchecked[-CHECKS_PER_TICK:]
            self._balancer.tick(now)

        await every(TICK_SECONDS, tick)

    def _check(self, exchanges: list[LiveExchange], now: float) -> None:
        for exchange in exchanges:
            if exchange not in self._live:
                continue
            try:
                exchange.check(now)
            except Exception:  # one broken exchange must not stop the clock of all others
                logger.exception("checking the time limits of an exchange failed")


def merged_models(upstreams: Iterable[Upstream], aliases: Mapping[str, str]) -> bytes:
    """The OpenAI list of every model of the upstreams given (those up), each once, then the aliases."""
    entries: dict[str, dict[str, Any]] = {}
    for upstream in upstreams:
        for entry in upstream.model_entries:
            if upstream.is_wildcard or entry["id"] in upstream.models:
                entries.setdefault(entry["id"], entry)
        for name in sorted(upstream.models):
            entries.setdefault(name, _entry(name, root=name))
    for alias, target in aliases.items():
        entries.setdefault(alias, {**_entry(alias, root=target), "created": entries.get(target, {}).get("created", 0)})
    return msgspec.json.encode({"object": "list", "data": list(entries.values())})


def _entry(name: str, *, root: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "biasgate", "root": root}
