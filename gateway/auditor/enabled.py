"""The live auditors that are enabled, built with what each needs. The embedder is loaded in the background."""

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from auditors import registry
from auditors.clients.embedders import CachedEmbedder, EmbedderError, RemoteEmbedder, load_embedder
from auditors.text.fencing import mark
from auditors.types import Auditor, Completer, CompletionError, Embedder, Exchange, Servers
from gateway.auditor import known_good
from gateway.auditor.backpressure.circuit_breaker import Fault, current_attempt, fault_of
from gateway.auditor.backpressure.limiter import ConcurrencyLimiters
from gateway.auditor.checks import require_sections
from gateway.auditor.clients import AuditorClients, Counted, own_server
from gateway.config.schema import Config
from gateway.store.circuits import Key

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

logger = logging.getLogger(__name__)

EMBEDDER = own_server("embedding")
"""The name that circuits use for the embedder, served or not, for every auditor that uses it."""


class EnabledAuditors:
    """Call `start` in a running loop, `get` an auditor by its name, `close` at the end."""

    def __init__(self, config: Config, limiters: ConcurrencyLimiters, secret: bytes) -> None:
        """Open no connection. Raises ConfigError. `secret`: of the sampling decision; marks what auditors ask."""
        self._config = config
        self.settings = {name: section for name, section in config.auditors.sections.items() if section.enabled}
        require_sections(config, self.settings)
        self.counted: Counted = Counter()
        """Increments of the store's counters since the caller last took them away."""
        self.clients = {
            name: AuditorClients(config, settings, limiters, name=name, secret=secret, counted=self.counted)
            for name, settings in self.settings.items()
        }
        self._built: dict[str, Auditor] = {}
        self._embedder: asyncio.Future[CachedEmbedder] | None = None

    @property
    def names(self) -> list[str]:
        return list(self.settings)

    def start(self) -> None:
        """Begins to load the embedder, when an auditor needs one."""
        if registry.need_embedder(self.settings):
            self._embedder = asyncio.ensure_future(self._load_embedder())
            self._embedder.add_done_callback(_log_failure)

    async def get(self, name: str) -> Auditor:
        """Waits for the embedder where it is needed. Raises EmbedderError when that cannot be had."""
        if name not in self._built:
            embedder = await self.embedder() if self._embedders(name) else None
            clients = self.clients[name]
            self._built[name] = registry.build(
                name,
                self.settings[name],
                Servers(
                    completer_for=clients.of_exchange,
                    judge=clients.outside,
                    embedder=embedder,
                    decider_for=clients.decider_of_exchange,
                ),
            )
        return self._built[name]

    async def embedder(self) -> Embedder | None:
        """Waits for it; None when no auditor needs one. Raises EmbedderError when it cannot be had."""
        return None if self._embedder is None else await asyncio.shield(self._embedder)

    async def embed_known_good(self, name: str) -> None:
        """Embed a known good text within an auditor's time limit; a new mark each time evades every cache."""
        try:
            async with asyncio.timeout(self.settings[name].timeout_seconds):
                if (embedder := await self.embedder()) is not None:
                    await embedder.embed([f"{known_good.TEXT} {mark()}"])
        except EmbedderError as exc:
            current_attempt().failed(EMBEDDER, Fault("unavailable", str(exc), True))
        except (TimeoutError, CompletionError, ValueError):
            return

    @property
    def judge(self) -> Completer | None:
        """Return the completer that asks the judge's own server; None if the judge has none or is not enabled."""
        return self.clients["judge"].outside if "judge" in self.clients else None

    def servers(self, name: str, exchange: Exchange) -> list[str]:
        """Return the names that circuits use for the servers that this auditor may ask about an exchange."""
        return [*self.clients[name].servers(exchange), *self._embedders(name)]

    @property
    def circuits(self) -> list[Key]:
        return [
            Key(name, server)
            for name, clients in self.clients.items()
            for server in [*clients.all_servers, *self._embedders(name)]
        ]

    def _embedders(self, name: str) -> list[str]:
        return [EMBEDDER] if registry.form_of(name, self.settings[name]).needs_embedder else []

    async def close(self) -> None:
        if self._embedder is not None and not self._embedder.cancel() and not self._embedder.exception():
            await self._embedder.result().aclose()
        for clients in self.clients.values():
            await clients.aclose()

    async def _load_embedder(self) -> CachedEmbedder:
        settings = self._config.auditors.embedding
        if settings.base_url is None:
            local = partial(load_embedder, settings.model or "minilm", backend=settings.backend)
            return CachedEmbedder(_WatchedEmbedder(await asyncio.to_thread(local)))
        key = self._config.secret(settings.api_key_env)
        timeout = settings.timeout_seconds
        remote = RemoteEmbedder(settings.base_url, settings.model or "", key, timeout=timeout, on_tokens=self._embedded)
        return CachedEmbedder(_WatchedEmbedder(remote))

    def _embedded(self, tokens: int) -> None:
        self.counted["audit_tokens", ("embedding", "input")] += tokens


class _WatchedEmbedder:
    """An embedder that tells its audit how it behaved; the cache stands before it, as old vectors say nothing."""

    def __init__(self, inner: Embedder) -> None:
        self._inner = inner

    @property
    def name(self) -> str:
        return self._inner.name

    async def embed(self, texts: Sequence[str]) -> "NDArray[np.float32]":
        """Embed as `Embedder` does; NotSentError while the audit that asks is held up by an open circuit."""
        attempt = current_attempt()
        attempt.refuse_if_blocked()
        try:
            vectors = await self._inner.embed(texts)
        except asyncio.CancelledError as exc:
            if not exc.args:
                attempt.failed(EMBEDDER, Fault("timeout", "no vectors before the audit's time was up", False))
            raise
        except CompletionError as exc:
            attempt.failed(EMBEDDER, fault_of(exc))
            raise
        except ValueError:
            attempt.failed(EMBEDDER, Fault("malformed", "a vector without a direction", False))
            raise
        attempt.answered(EMBEDDER)
        return vectors

    async def aclose(self) -> None:
        if isinstance(self._inner, RemoteEmbedder):
            await self._inner.aclose()


def _log_failure(embedder: asyncio.Future[CachedEmbedder]) -> None:
    if not embedder.cancelled() and (exc := embedder.exception()) is not None:
        level = logging.WARNING if isinstance(exc, EmbedderError) else logging.ERROR
        logger.log(level, "the embedding auditor cannot work: %s", exc)
