"""Runs canaries: claims one in the store, draws pairs, keeps each before it counts, and ends with a verdict."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from auditors.clients.cancellation import all_of
from auditors.clients.completion import served_models
from auditors.clients.model_list import fingerprint_of
from auditors.types import Auditor, CompletionError, Exchange, KnowsWhatIsMissing
from gateway.auditor.clients import upstream_serving
from gateway.auditor.part import AuditorContext
from gateway.config.schema import Config, UpstreamConfig
from gateway.errors import ConfigError, StoreError
from gateway.features.canary import store as canaries
from gateway.features.canary.comparison import Comparison, Findings, Pair, Verdict
from gateway.features.canary.plan import Due, Plan, drawn, strata_of
from gateway.features.canary.replay import Replay
from gateway.features.canary.request import CanaryRequest, Side
from gateway.features.canary.store import Canary
from gateway.features.canary.webhook import Webhook
from gateway.store import exchanges
from gateway.store.database import Database

logger = logging.getLogger(__name__)

MOST_EXCHANGES = 2_000
"""Newest stored exchanges that are looked at."""
PAGE = 50


class NothingToReplayError(Exception):
    """No stored exchange can be replayed; the message says why and what to do."""


async def plan_of(config: Config, database: Database, request: CanaryRequest, auditors: Mapping[str, Auditor]) -> Plan:
    """Plan exchanges, upstreams and models. Raises ConfigError (model not served), NothingToReplayError, StoreError."""
    sides = {side: await served_by(config, getattr(request, side), side) for side in ("stable", "canary")}
    if sides["stable"].name == sides["canary"].name and request.stable.model == request.canary.model:
        raise ConfigError(
            f'stable and canary are both "{request.stable.model}" on upstream "{sides["stable"].name}": nothing differs'
        )
    ids = await canaries.sampled_ids(database, request.stable.model, limit=MOST_EXCHANGES)
    due: list[Due] = []
    for first in range(0, len(ids), PAGE):
        for exchange in await exchanges.load(database, ids[first : first + PAGE]):
            if exchange.request_body:
                due += await _due(exchange, auditors)
    strata, left_out = strata_of(entry for entry in due if not request.axes or entry.axis in request.axes)
    if not strata:
        raise NothingToReplayError(_nothing(request, len(ids), left_out))
    return Plan(
        upstreams={side: upstream.name for side, upstream in sides.items()},
        fingerprints={
            side: await fingerprint(config, upstream, getattr(request, side).model) for side, upstream in sides.items()
        },
        strata=strata,
        n_looked_at=len(ids),
        left_out=left_out,
    )


async def served_by(config: Config, requested: Side, side: str) -> UpstreamConfig:
    """Finds the upstream of a side. Raises ConfigError when it is not configured, or no upstream serves the model."""
    if requested.upstream is None:
        return await upstream_serving(config, requested.model)
    for upstream in config.upstreams:
        if upstream.name == requested.upstream:
            return upstream
    raise ConfigError(f'{side}: upstream "{requested.upstream}" is not configured any more')


async def fingerprint(config: Config, upstream: UpstreamConfig, model: str) -> str | None:
    """Return the served model's fingerprint; None if the upstream does not say. Raises ConfigError if not served."""
    try:
        named = await served_models(upstream.origin, config.secret(upstream.api_key_env))
    except CompletionError:
        return None
    if model not in named:
        raise ConfigError(f'upstream "{upstream.name}" does not serve "{model}": GET /v1/models lists what is served')
    return fingerprint_of([named[model]])


async def _due(exchange: Exchange, auditors: Mapping[str, Auditor]) -> Sequence[Due]:
    entries = []
    for name, auditor in auditors.items():
        if not isinstance(auditor, KnowsWhatIsMissing):
            continue
        owed = await asyncio.to_thread(auditor.missing, exchange)
        if owed and owed[0].axis and owed[0].group:
            metrics = [measurement.metric for measurement in owed]
            entries.append(Due(exchange.id, name, owed[0].axis, owed[0].group, metrics))
    return entries


def _nothing(request: CanaryRequest, n: int, left_out: Mapping[str, int]) -> str:
    model = request.stable.model
    if not n:
        return (
            f'no sampled exchange of "{model}" is stored with its text: send it traffic first (sampling.rate, '
            "store.keep_text), or name the model that has some as stable"
        )
    few = "; too few: " + ", ".join(f"{name} ({count})" for name, count in left_out.items()) if left_out else ""
    return f'of {n} stored exchanges of "{model}" too few name a group that can be swapped{few}: wait for more traffic'


PAIRS_AT_ONCE = 4
PAIRS_A_LOOK = 20
"""Bounds and verdict are looked at so often; looking more often would be as valid, and cost processor time."""
HEARTBEAT_SECONDS = 1.0


class CanaryRuns:
    """The handler of "run_canary" jobs: `{"canary_id": ...}`."""

    def __init__(self, context: AuditorContext) -> None:
        self._config, self._database, self._stop = context.config, context.database, context.stop
        self._replay = Replay(context.config, context.enabled_auditors, context.limiters, context.secret)
        self.webhook = Webhook(context.config, context.database, context.stop)
        """Delivers the verdicts; to be called every now and then."""

    async def __call__(self, payload: dict[str, Any]) -> None:
        """Goes on with it to its verdict. One that this process cannot finish is queued again for another."""
        canary = await canaries.claim(self._database, payload["canary_id"])
        if canary is None:
            return
        running = asyncio.create_task(self._run(canary))
        try:
            await self._watch(canary.id, running)
        finally:
            if not running.done():
                running.cancel()
                with suppress(asyncio.CancelledError):
                    await running
                await canaries.release(self._database, canary.id)  # changes nothing when it was cancelled

    async def aclose(self) -> None:
        await self._replay.aclose()

    async def _watch(self, canary_id: str, running: "asyncio.Task[None]") -> None:
        """Waits until the canary or the process ends, or the store cancels the canary. Raises the canary's error."""
        stopping = asyncio.create_task(self._stop.wait())
        try:
            while not stopping.done():
                await asyncio.wait({running, stopping}, timeout=HEARTBEAT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                if running.done():
                    return await running
                if await canaries.heartbeat(self._database, canary_id) != "running":
                    return None
        finally:
            stopping.cancel()

    async def _run(self, canary: Canary) -> None:
        try:
            auditors = await self._replay.auditors(canary.request.auditors or [])
            plan = canary.plan
            if plan is None:
                plan = await plan_of(self._config, self._database, canary.request, auditors)
                await canaries.keep_plan(self._database, canary.id, plan)
            await self._compare(canary, plan)
        except (ConfigError, NothingToReplayError) as exc:
            await self._end(canary.id, "hold", [str(exc)])
        except (StoreError, asyncio.CancelledError):
            raise
        except Exception as exc:
            logger.exception("canary %s failed", canary.id)
            await self._end(canary.id, "hold", [f"internal error: {type(exc).__name__}: {exc}"])

    async def _compare(self, canary: Canary, plan: Plan) -> None:
        """Pairs until there is a verdict; those that the store has already count first, and are not asked again."""
        comparison = Comparison(canary.request, plan.gaps)
        await asyncio.to_thread(_add_all, comparison, await canaries.pairs(self._database, canary.id))
        while True:
            findings = await asyncio.to_thread(comparison.findings)
            if changed := await self._changed(canary, plan):
                await self._end(canary.id, "hold", [changed], findings)
                return
            if findings.verdict != "undecided":
                await self._end(canary.id, findings.verdict, findings.reasons, findings)
                return
            await canaries.note(self._database, canary.id, findings)
            looked_at = comparison.n_pairs
            while comparison.n_pairs < min(looked_at + PAIRS_A_LOOK, canary.request.max_pairs):
                left = canary.request.max_pairs - comparison.n_pairs
                numbers = range(comparison.n_pairs, comparison.n_pairs + min(PAIRS_AT_ONCE, left))
                # Kept together and in the order of their numbers, so that no quick answer counts before a slow one.
                pairs = await all_of(self._pair(canary, plan, number) for number in numbers)
                if not await canaries.add_pairs(self._database, canary.id, pairs):
                    logger.warning("canary %s was taken over by another auditor", canary.id)
                    return
                _add_all(comparison, pairs)

    async def _pair(self, canary: Canary, plan: Plan, number: int) -> Pair:
        stratum, exchange_id = drawn(plan, canary.id, number)
        exchange = await exchanges.get(self._database, exchange_id)
        if exchange is None or not exchange.request_body:
            return Pair(number=number, auditor=stratum.auditor, axis=stratum.axis, group=stratum.group, is_gone=True)
        return await self._replay.pair(number, stratum, exchange, canary.request, plan.upstreams)

    async def _changed(self, canary: Canary, plan: Plan) -> str | None:
        """Why pairs from now on would be of another model than those before; None while they are not."""
        for side in ("stable", "canary"):
            requested, before = getattr(canary.request, side), plan.fingerprints[side]
            try:
                named = msgspec.structs.replace(requested, upstream=plan.upstreams[side])
                upstream = await served_by(self._config, named, side)
                now = await fingerprint(self._config, upstream, requested.model)
            except ConfigError as exc:
                return f"the {side} model is gone: {exc}"
            if before is not None and now is not None and now != before:
                return (
                    f'the model behind "{requested.model}" on upstream "{upstream.name}" ({side}) changed during the '
                    f"run (fingerprint {before}, now {now}): start a new canary"
                )
        return None

    async def _end(
        self, canary_id: str, verdict: Verdict, reasons: list[str], findings: Findings | None = None
    ) -> None:
        is_delivered = self.webhook.is_configured
        if await canaries.finish(self._database, canary_id, verdict, reasons, findings, is_delivered=is_delivered):
            logger.warning("canary %s: %s: %s", canary_id, verdict, "; ".join(reasons))


def _add_all(comparison: Comparison, pairs: Sequence[Pair]) -> None:
    for pair in pairs:
        comparison.add(pair)
