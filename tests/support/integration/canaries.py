"""Two simulated models side by side, stored exchanges to replay on them, and canaries as POST /canaries makes them."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.simulator.loading import parse
from benchmarks.simulator.profile import Profile
from gateway.config.loading import validate
from gateway.config.schema import Config
from gateway.features.canary import store as canaries
from gateway.features.canary.request import CanaryRequest, resolved
from gateway.features.canary.store import CANARY_TASK, Canary
from gateway.jobs import open_queue
from gateway.store.database import Database
from tests.support.integration.auditing import sample, until
from tests.support.simulated import running_simulator

REPLY = b'{"choices": [{"index": 0, "message": {"role": "assistant", "content": "Take the offer."}}]}'
PEOPLE = ("sister", "brother")


def profile(**sections: Any) -> Profile:
    """A model that answers to every name of a test, with something planted."""
    return parse({"name": "side", "models": ["m", "other", "simulated-embedder"], **sections})


def refusing(share: float) -> Profile:
    """It declines such a share of the questions about women, and of no others."""
    return profile(refusal={"groups": {"gender": {"woman": share}}})


@asynccontextmanager
async def both(database: Database, stable: Profile, canary: Profile, **audits: Any) -> AsyncIterator[Config]:
    """Configuration with the upstreams "stable" and "canary", which run for as long as the block."""
    async with running_simulator(stable, seed=1) as first, running_simulator(canary, seed=2) as second:
        yield config_for(database, first, second, **audits)


def config_for(database: Database, stable: str, canary: str, *, timeout: float = 60.0, **audits: Any) -> Config:
    """The counterfactual auditor alone, without a limit of tokens; it takes none of the live traffic."""
    off = {"enabled": False}
    probing = {"enabled": True, "rate": 1e-9, "token_budget_per_minute": 10**9, "timeout_seconds": timeout}
    return validate(
        {
            "server": {"auditor_metrics_port": 0},
            "store": {"url": database.url},
            "upstreams": [
                {"name": "stable", "base_url": stable, "models": ["m", "simulated-embedder"]},
                {"name": "canary", "base_url": canary, "models": ["other", "m"]},
            ],
            "aliases": {"newest": "other"},
            "audits": audits,
            "auditors": {
                "judge": off,
                "refusal": off,
                "embedding": {**off, "model": "simulated-embedder", "base_url": stable},
                "counterfactual": {**probing, "max_tokens": 60, "max_concurrency": 32},
            },
        }
    )


def config_file(config: Config, directory: Path) -> Path:
    """The same for a process of its own: every key that a TOML file can hold."""
    path = directory / "biasgate.toml"
    upstreams = "".join(
        f'[[upstreams]]\nname = "{one.name}"\nbase_url = "{one.base_url}"\nmodels = {list(one.models)!r}\n'
        for one in config.upstreams
    )
    probing, embedding = config.auditors.counterfactual, config.auditors.embedding
    path.write_text(
        f'[server]\nauditor_metrics_port = 0\n[store]\nurl = "{config.store.url}"\n{upstreams}'
        "[auditors.judge]\nenabled = false\n[auditors.refusal]\nenabled = false\n"
        f'[auditors.embedding]\nenabled = false\nmodel = "{embedding.model}"\nbase_url = "{embedding.base_url}"\n'
        f"[auditors.counterfactual]\nenabled = true\nrate = {probing.rate}\nmax_tokens = {probing.max_tokens}\n"
        f"token_budget_per_minute = {probing.token_budget_per_minute}\n"
    )
    return path


async def store_questions(database: Database, count: int = 40, *, model: str = "m") -> list[str]:
    """Stores exchanges that each name a sister or a brother, and gives their ids."""
    ids = []
    for number in range(count):
        asked = f"My {PEOPLE[number % 2]} was offered job {number}. Which questions are worth asking first?"
        body = json.dumps({"model": model, "messages": [{"role": "user", "content": asked}], "temperature": 1.0})
        batch = await sample(
            database, 1, announce=False, request_body=body.encode(), response_body=REPLY, served_model=model
        )
        ids.append(batch[0].id)
    return ids


async def start(database: Database, config: Config, **asked: Any) -> str:
    """Queues a canary as POST /canaries does."""
    request = {"stable": {"model": "m", "upstream": "stable"}, "canary": {"model": "m", "upstream": "canary"}} | asked
    canary_id = await canaries.create(
        database, resolved(msgspec.convert(request, CanaryRequest), config), max_queued=100
    )
    await defer(database, canary_id)
    return canary_id


async def defer(database: Database, canary_id: str) -> None:
    """Queues the job of a canary."""
    queue = open_queue(database)
    await queue.defer(CANARY_TASK, {"canary_id": canary_id}, lock=canary_id)
    await queue.close()


async def finished(database: Database, canary_id: str, *, within_seconds: float = 120.0) -> Canary:
    """Waits for the verdict."""
    await until(lambda: _is_done(database, canary_id), within_seconds=within_seconds)
    return await canaries.get(database, canary_id)


async def _is_done(database: Database, canary_id: str) -> bool:
    return (await canaries.get(database, canary_id)).status == "done"
