"""The auditors' clients, within their token budgets; they tell the audit how the server behaved, and count outcomes."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from auditors import registry
from auditors.clients.completion import HttpCompleter, Sign, served_models
from auditors.clients.pacing import NEVER_SENT, OPEN
from auditors.clients.thinking_switch import ThinkingCompleter
from auditors.text.thinking import parse_thinking
from auditors.types import (
    Completer,
    Completion,
    CompletionError,
    CompletionRequest,
    Decider,
    DecisionRequest,
    Exchange,
    JudgeOutcome,
)
from gateway.auditor.backpressure.circuit_breaker import Fault, current_attempt, fault_of
from gateway.auditor.backpressure.limiter import ConcurrencyLimiter, ConcurrencyLimiters
from gateway.auditor.backpressure.token_budget import (
    TokenBudget,
    Usage,
    estimated_decision_tokens,
    estimated_tokens,
    read_usage,
    usage_of,
)
from gateway.config.schema import AuditorConfig, Config, UpstreamConfig, origin_of
from gateway.errors import ConfigError
from gateway.sampling.decision import marking

T = TypeVar("T")
Counted = Counter[tuple[str, tuple[str, ...]]]
"""Increments of the store's counters, by name and label values: requests to judges, and tokens."""


class MeteredCompleter:
    """A completer that keeps to a token budget, counts its tokens, and tells how its server behaved."""

    def __init__(self, inner: Completer, budget: TokenBudget, counted: Counted, auditor: str, server: str) -> None:
        self._inner = inner
        self._budget = budget
        self._counted = counted
        self._auditor = auditor
        self._server = server

    async def complete(self, request: CompletionRequest) -> Completion:
        """Complete as `Completer` does; NotSentError while the audit that asks is held up by an open circuit."""
        # The server may have written all of it.
        at_timeout = estimated_tokens(request) + request.max_tokens
        completion = await self._sent(lambda: self._inner.complete(request), at_timeout)
        self._spend(read_usage(completion.usage), estimated_tokens(request, completion))
        return completion

    async def decide(self, request: DecisionRequest) -> bytes:
        """Decide as `Decider` does; NotSentError while the audit that asks is held up by an open circuit."""
        inner = self._inner
        if not isinstance(inner, Decider):
            raise CompletionError("internal", "this completer asks for no decisions")
        reply = await self._sent(lambda: inner.decide(request), estimated_decision_tokens(request))
        self._spend(usage_of(reply), estimated_decision_tokens(request))
        return reply

    def _spend(self, usage: Usage, estimated: int) -> None:
        """Charge what the server counted, else what is estimated; only what it counted is shown as spent."""
        self._budget.spend(usage.total or estimated)
        for direction, tokens in usage.by_direction.items():
            if tokens:
                self._counted["audit_tokens", (self._auditor, direction)] += tokens

    async def _sent(self, send: Callable[[], Awaitable[T]], at_timeout: int) -> T:
        """Return the result of `send` within the budget; tell how the server behaved, and charge for a timeout."""
        attempt = current_attempt()
        attempt.refuse_if_blocked()
        await self._turn()
        try:
            reply = await send()
        except asyncio.CancelledError as exc:
            if NEVER_SENT not in exc.args:  # the audit's time was up before the request's own
                self._budget.spend(at_timeout)
            if not exc.args:
                attempt.failed(self._server, Fault("timeout", "no reply before the audit's time was up", False))
            raise
        except CompletionError as exc:
            if exc.kind == "timeout":
                self._budget.spend(at_timeout)
            attempt.failed(self._server, fault_of(exc))
            raise
        attempt.answered(self._server)
        return reply

    def on_judged(self, outcome: JudgeOutcome) -> None:
        """See `auditors.types.HearsOfJudgements`."""
        self._counted["judge_requests", (outcome,)] += 1
        if outcome == "malformed":
            current_attempt().unreadable(self._server)

    async def _turn(self) -> None:
        try:
            await self._budget.wait()
        except asyncio.CancelledError as exc:
            raise asyncio.CancelledError(NEVER_SENT) from exc

    async def aclose(self) -> None:
        await self._inner.aclose()


class AuditorClients:
    """The completers of a single auditor: each upstream's own, and an outside model when it is configured."""

    def __init__(
        self,
        config: Config,
        settings: AuditorConfig,
        limiters: ConcurrencyLimiters,
        *,
        name: str,
        secret: bytes,
        counted: Counted,
    ) -> None:
        sign = marking(secret)
        self._limiters = {
            upstream.name: limiters.of(upstream.origin, upstream.name, config.secret(upstream.api_key_env))
            for upstream in config.upstreams
        }
        self._outside_limiter: ConcurrencyLimiter | None = None
        budget = TokenBudget(settings.token_budget_per_minute)
        self._by_upstream: Mapping[str, MeteredCompleter] = {
            upstream.name: MeteredCompleter(
                _to_upstream(config, upstream, settings, self._limiters[upstream.name], sign),
                budget,
                counted,
                name,
                upstream.name,
            )
            for upstream in config.upstreams
        }
        self._set_thinking: dict[str, ThinkingCompleter] = {}
        """By upstream, of an auditor for which it is set; the judge tells its servers itself."""
        if settings.thinking is not None and name != "judge":
            thinking = parse_thinking(settings.thinking)
            self._set_thinking = {
                at: ThinkingCompleter(completer, thinking) for at, completer in self._by_upstream.items()
            }
        self.outside: Completer | None = None
        if settings.base_url is not None and name != "embedding":  # whose own address is its embedder's
            key = config.secret(settings.api_key_env)
            self._outside_limiter = limiters.of(origin_of(settings.base_url), own_server(name), key)
            outside = HttpCompleter(
                settings.base_url,
                key,
                timeout=settings.timeout_seconds,
                max_concurrency=settings.max_concurrency,
                gate=self._outside_limiter or OPEN,
                sign=sign,
            )
            self.outside = MeteredCompleter(outside, budget, counted, name, own_server(name))
        self._own_servers = [own_server(name)] if self.outside is not None else []
        used_limiters = {self._outside_limiter}
        asks = registry.AUDITORS[name].asks_upstream
        self._asks_upstream = asks == "always" or (asks == "without a server of its own" and self.outside is None)
        if self._asks_upstream:
            used_limiters |= set(self._limiters.values())
        for limiter in filter(None, used_limiters):
            limiter.widen(settings.max_concurrency)

    def of_exchange(self, exchange: Exchange) -> Completer:
        """The upstream that served it; a completer that only fails when that is not configured any more."""
        served = self._set_thinking.get(exchange.upstream) or self._by_upstream.get(exchange.upstream)
        return served or _Gone(exchange.upstream)

    def decider_of_exchange(self, exchange: Exchange) -> Decider:
        """The same, for decisions."""
        return self._by_upstream.get(exchange.upstream) or _Gone(exchange.upstream)

    def lacks_server(self, exchange: Exchange) -> bool:
        """Return whether its upstream would be asked, and it has none: someone else relayed it."""
        return self._asks_upstream and not exchange.upstream

    def servers(self, exchange: Exchange) -> list[str]:
        """Return the names that circuits use for the servers that are asked about this exchange."""
        is_there = self._asks_upstream and exchange.upstream in self._by_upstream
        return [*self._own_servers, *([exchange.upstream] if is_there else [])]

    @property
    def all_servers(self) -> list[str]:
        return [*self._own_servers, *(self._by_upstream if self._asks_upstream else ())]

    def held_seconds(self, exchange: Exchange) -> float:
        """Return how long requests were held back, altogether, at the servers that are asked about this exchange."""
        passed = {self._limiters.get(exchange.upstream), self._outside_limiter}
        return sum(limiter.held_seconds() for limiter in passed if limiter is not None)

    async def aclose(self) -> None:
        for completer in [*self._by_upstream.values(), *filter(None, [self.outside])]:
            await completer.aclose()


class _Gone:
    def __init__(self, upstream: str) -> None:
        self._upstream = upstream

    async def complete(self, request: CompletionRequest) -> Completion:
        raise CompletionError("unavailable", f'upstream "{self._upstream}" is no longer configured')

    async def decide(self, request: DecisionRequest) -> bytes:
        raise CompletionError("unavailable", f'upstream "{self._upstream}" is no longer configured')

    async def aclose(self) -> None:
        """Nothing is open."""


def own_server(auditor: str) -> str:
    """Return the name that limiters and circuits use for the server of an auditor's own (`auditors.NAME.base_url`)."""
    return f"auditors.{auditor}"


def audit_priority(config: Config, upstream: UpstreamConfig) -> int | None:
    """The vLLM priority of audit requests to an upstream; None where the upstream would refuse the field."""
    return config.audits.priority if upstream.priority_scheduling else None


async def upstream_serving(config: Config, model: str) -> UpstreamConfig:
    """The first upstream that serves a model (after aliases). Raises ConfigError, naming what was not asked."""
    wildcards = [upstream for upstream in config.upstreams if "*" in upstream.models]
    for upstream in config.upstreams:
        if model in upstream.models:
            return upstream
    problems = []
    for upstream in wildcards:
        try:
            if model in await served_models(upstream.origin, config.secret(upstream.api_key_env)):
                return upstream
        except CompletionError as exc:
            problems.append(str(exc))
    because = f" ({'; '.join(problems)})" if problems else ""
    raise ConfigError(f'no upstream serves the model "{model}"{because}: GET /v1/models lists what is served')


def _to_upstream(
    config: Config, upstream: UpstreamConfig, settings: AuditorConfig, limiter: ConcurrencyLimiter | None, sign: Sign
) -> Completer:
    return HttpCompleter(
        upstream.origin,
        config.secret(upstream.api_key_env),
        timeout=settings.timeout_seconds,
        priority=audit_priority(config, upstream),
        max_concurrency=settings.max_concurrency,
        gate=limiter or OPEN,
        sign=lambda body: {**upstream.audit_headers, **sign(body)},
    )
