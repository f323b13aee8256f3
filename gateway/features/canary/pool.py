"""Chooses what a canary draws from: stored exchanges of the stable model about which the auditors owe a contrast."""

import asyncio
from collections.abc import Mapping, Sequence

from auditors.clients.completion import served_models
from auditors.clients.model_list import fingerprint_of
from auditors.types import Auditor, CompletionError, Exchange, KnowsWhatIsMissing
from gateway.auditor.clients import upstream_serving
from gateway.config.schema import Config, UpstreamConfig
from gateway.errors import ConfigError
from gateway.features.canary import store as canaries
from gateway.features.canary.plan import Due, Plan, strata_of
from gateway.features.canary.request import CanaryRequest
from gateway.store import exchanges
from gateway.store.database import Database

MOST_EXCHANGES = 2_000
"""Newest stored exchanges that are looked at."""
PAGE = 50


class NothingToReplayError(Exception):
    """No stored exchange can be replayed; the message says why and what to do."""


async def plan_of(config: Config, database: Database, request: CanaryRequest, auditors: Mapping[str, Auditor]) -> Plan:
    """Plans a canary: the exchanges to draw from, and the upstreams and models that both sides serve now. Raises
    ConfigError for a model that no upstream serves, NothingToReplayError, StoreError.
    """
    sides = {side: await served_by(config, request, side) for side in ("stable", "canary")}
    if sides["stable"].name == sides["canary"].name and request.stable.model == request.canary.model:
        raise ConfigError(
            f'stable and canary are both "{request.stable.model}" on upstream "{sides["stable"].name}": nothing differs'
        )
    ids = await canaries.sampled_ids(database, request.stable.model, limit=MOST_EXCHANGES)
    due: list[Due] = []
    for first in range(0, len(ids), PAGE):
        for exchange in await exchanges.load(database, ids[first : first + PAGE]):
            if exchange.request_body:
                due += [
                    entry for entry in await _due(exchange, auditors) if not request.axes or entry.axis in request.axes
                ]
    strata, left_out = strata_of(due)
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


async def served_by(config: Config, request: CanaryRequest, side: str) -> UpstreamConfig:
    """Finds the upstream of a side. Raises ConfigError when it is not configured, or no upstream serves the model."""
    requested = getattr(request, side)
    if requested.upstream is None:
        return await upstream_serving(config, requested.model)
    for upstream in config.upstreams:
        if upstream.name == requested.upstream:
            return upstream
    raise ConfigError(f'{side}: upstream "{requested.upstream}" is not configured any more')


async def fingerprint(config: Config, upstream: UpstreamConfig, model: str) -> str | None:
    """Reads the fingerprint of the model served under the name now; None when the upstream does not say. Raises
    ConfigError when it answers and does not serve the model.
    """
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
            entries.append(
                Due(exchange.id, name, owed[0].axis, owed[0].group, [measurement.metric for measurement in owed])
            )
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
