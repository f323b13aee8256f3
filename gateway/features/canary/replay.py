"""Probes one exchange on both sides, with the probes of a live auditor, and makes a pair of what comes back."""

import logging
import time
from collections.abc import Mapping
from contextvars import ContextVar
from functools import partial

import msgspec

from auditors import registry
from auditors.answer_quality import is_json_object
from auditors.clients.cancellation import all_of
from auditors.clients.embedders import EmbedderError
from auditors.text.refusal_words import declines
from auditors.types import (
    AuditFailure,
    Auditor,
    Completer,
    Completion,
    CompletionRequest,
    Decider,
    DecisionRequest,
    Exchange,
    Measurement,
    Servers,
)
from gateway.auditor.backpressure.deadline import time_limit
from gateway.auditor.backpressure.limiter import ConcurrencyLimiters
from gateway.auditor.clients import AuditorClients
from gateway.auditor.enabled import EnabledAuditors
from gateway.config.schema import Config
from gateway.errors import ConfigError
from gateway.features.canary.comparison import Answers, Pair
from gateway.features.canary.plan import Stratum
from gateway.features.canary.request import DIRECTIONS, CanaryRequest, Side, score

logger = logging.getLogger(__name__)

_heard: ContextVar[list[Answers]] = ContextVar("heard")
"""Answers so far of the side that is being asked."""


class Replay:
    """Auditors of the canaries' own, with the settings of the live ones and budgets of their own."""

    def __init__(self, config: Config, enabled: EnabledAuditors, limiters: ConcurrencyLimiters, secret: bytes) -> None:
        """Opens nothing. `secret` marks what is asked as a probe."""
        self._config = config
        self._enabled = enabled
        self._limiters = limiters
        self._secret = secret
        self._clients: dict[str, AuditorClients] = {}
        self._auditors: dict[str, Auditor] = {}

    async def auditors(self, names: list[str]) -> Mapping[str, Auditor]:
        """Returns the named auditors, each built once. Raises ConfigError for one not enabled or without embedder."""
        for name in names:
            if name not in self._auditors:
                self._auditors[name] = await self._built(name)
        return {name: self._auditors[name] for name in names}

    async def pair(
        self, number: int, stratum: Stratum, exchange: Exchange, request: CanaryRequest, upstreams: Mapping[str, str]
    ) -> Pair:
        """The exchange probed on both sides at once. Never raises for what a server or an auditor does."""
        about = Pair(number=number, auditor=stratum.auditor, axis=stratum.axis, group=stratum.group)
        (stable, of_stable), (canary, of_canary) = await all_of(
            self._side(stratum.auditor, exchange, side, upstreams[name])
            for name, side in (("stable", request.stable), ("canary", request.canary))
        )
        outcomes = {"stable": stable, "canary": canary}
        failed = {side: outcome for side, outcome in outcomes.items() if isinstance(outcome, str)}
        if isinstance(stable, str) or isinstance(canary, str):
            return msgspec.structs.replace(about, failed=failed)
        scores: dict[str, tuple[float, float]] = {}
        excluded: dict[str, str] = {}
        for metric in stratum.metrics:
            x, y = stable.get(metric), canary.get(metric)
            if x is None or y is None:  # not owed by this exchange, though by others of its stratum
                continue
            if x.value is not None and y.value is not None:
                scores[metric] = score(metric, x.value), score(metric, y.value)
            else:
                sides = (("stable", x), ("canary", y))
                excluded[metric] = ", ".join(f"{side}: {each.status}" for side, each in sides if each.value is None)
        return msgspec.structs.replace(about, scores=scores, excluded=excluded, stable=of_stable, canary=of_canary)

    async def aclose(self) -> None:
        for clients in self._clients.values():
            await clients.aclose()

    async def _built(self, name: str) -> Auditor:
        settings = self._config.auditors.sections[name]
        if not settings.enabled:
            raise ConfigError(f'auditor "{name}" is not enabled where the auditor runs: set auditors.{name}.enabled')
        if settings.base_url is None:  # each side would judge itself
            settings = msgspec.structs.replace(settings, model=None)
        try:
            embedder = await self._enabled.embedder() if registry.form_of(name, settings).needs_embedder else None
        except EmbedderError as exc:
            raise ConfigError(f'auditor "{name}" needs an embedder: {exc}') from exc
        clients = self._clients[name] = AuditorClients(
            self._config, settings, self._limiters, name=name, secret=self._secret, counted=self._enabled.counted
        )
        servers = Servers(
            completer_for=lambda exchange: _Listening(clients.of_exchange(exchange)),
            judge=clients.outside,
            embedder=embedder,
            decider_for=lambda exchange: _ListeningDecider(clients.decider_of_exchange(exchange)),
        )
        return registry.build(name, settings, servers)

    async def _side(
        self, name: str, exchange: Exchange, side: Side, upstream: str
    ) -> tuple[dict[str, Measurement] | str, Answers]:
        """Measurements by metric, or why there are none; and what the answers were like."""
        retargeted = msgspec.structs.replace(exchange, served_model=side.model, upstream=upstream, model_label=None)
        heard: list[Answers] = []
        _heard.set(heard)  # each side runs in a task, so in a context, of its own
        clients, seconds = self._clients[name], self._config.auditors.sections[name].timeout_seconds
        try:
            async with time_limit(seconds, partial(clients.held_seconds, retargeted)):
                outcome = await self._auditors[name].audit(retargeted)
        except TimeoutError:
            return "timeout", _added(heard)
        except Exception:  # no fault of an auditor may end a canary
            logger.exception("auditor %s failed on exchange %s", name, exchange.id)
            return "internal", _added(heard)
        if isinstance(outcome, AuditFailure):
            return outcome.kind, _added(heard)
        measured = {measurement.metric: measurement for measurement in outcome if measurement.metric in DIRECTIONS}
        return measured, _added(heard)


class _Listening:
    """A completer that notes what each answer was like."""

    def __init__(self, inner: Completer) -> None:
        self._inner = inner

    async def complete(self, request: CompletionRequest) -> Completion:
        began = time.monotonic()
        completion = await self._inner.complete(request)
        text = (completion.text or "").strip()
        _heard.get().append(
            Answers(
                n=1,
                refused=int(bool(completion.refusal) or declines(text)),
                words=len(text.split()),
                seconds=time.monotonic() - began,
                calls=len(completion.tool_calls),
                valid_calls=sum(is_json_object(call.arguments) for call in completion.tool_calls),
            )
        )
        return completion

    async def aclose(self) -> None:
        await self._inner.aclose()


class _ListeningDecider:
    def __init__(self, inner: Decider) -> None:
        self._inner = inner

    async def decide(self, request: DecisionRequest) -> bytes:
        began = time.monotonic()
        reply = await self._inner.decide(request)
        _heard.get().append(Answers(n=1, seconds=time.monotonic() - began))
        return reply


def _added(heard: list[Answers]) -> Answers:
    names = [field.name for field in msgspec.structs.fields(Answers)]
    return Answers(**{name: sum(getattr(answers, name) for answers in heard) for name in names})
