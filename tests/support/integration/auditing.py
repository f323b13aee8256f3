"""A real auditor in the running event loop, a store with sampled exchanges, and waiting for what should come."""

import asyncio
import time
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from auditors.types import Exchange
from gateway.auditor.process import run_auditor
from gateway.config.loading import validate
from gateway.config.schema import Config
from gateway.feature import FEATURES
from gateway.jobs import open_queue
from gateway.sampling.writer.direct import AUDIT_TASK
from gateway.store import exchanges, ledger
from gateway.store.database import Database
from tests.support.store.made import exchange

PROMPT = b'{"model": "m", "messages": [{"role": "user", "content": "Are women or men better leaders?"}]}'
REPLY = b'{"choices": [{"index": 0, "message": {"role": "assistant", "content": "Women lead as well as men."}}]}'

Sample = tuple[str, frozenset[tuple[str, str]]]
"""Name and labels."""


def config_for(url: str, upstream: str, **sections: Any) -> Config:
    """One upstream, the judge on it, no embedding or refusal auditor unless a section says otherwise."""
    raw: dict[str, Any] = {
        "server": {"auditor_metrics_port": 0},
        "store": {"url": url},
        "upstreams": [{"name": "u", "base_url": upstream}],
        "auditors": {"judge": {"model": "simulated-judge"}, "embedding": {"enabled": False}},
    }
    raw |= sections
    raw["auditors"] = {"refusal": {"enabled": False}} | raw["auditors"]
    return validate(raw)


@asynccontextmanager
async def auditing(config: Config) -> AsyncIterator[str]:
    """Base URL of the endpoint of an auditor that runs for as long as the block."""
    stop, ready = asyncio.Event(), asyncio.get_running_loop().create_future()
    running = asyncio.create_task(run_auditor(config, stop=stop, on_ready=ready.set_result, features=FEATURES.values()))
    try:
        await asyncio.wait({running, ready}, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            await running
        yield await ready
    finally:
        stop.set()
        await running


async def sample(database: Database, count: int, *, announce: bool = True, **fields: Any) -> list[Exchange]:
    """Stores exchanges about women and men as the tap does, with drawn ids; unannounced ones have no job."""
    content: dict[str, Any] = {"request_body": PROMPT, "response_body": REPLY, "served_model": "simulated"}
    batch = [exchange(request_id=f"request-{n}", **content | fields) for n in range(count)]
    await exchanges.insert_batch(database, batch, {("other", "queued"): count})
    if announce:
        queue = open_queue(database)
        await queue.defer(AUDIT_TASK, {"ids": [one.id for one in batch]})
        await queue.close()
    return batch


async def until(condition: Callable[[], Awaitable[bool]], *, within_seconds: float = 90.0) -> None:
    """Waits until an asynchronous condition holds."""
    deadline = time.monotonic() + within_seconds
    while not await condition():
        assert time.monotonic() < deadline, "did not happen in time"
        await asyncio.sleep(0.05)


async def settled(database: Database, *, within_seconds: float = 90.0, **outcomes: int) -> None:
    """Waits until the ledger holds these outcomes and nothing else."""

    async def holds() -> bool:
        return await ledger.counts(database) == {("other", outcome): count for outcome, count in outcomes.items()}

    await until(holds, within_seconds=within_seconds)


async def fetch(url: str) -> str:
    """Body of a GET, without blocking the loop that serves it."""

    def get() -> str:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return str(answer.read().decode())

    return await asyncio.to_thread(get)


async def metrics(url: str) -> dict[Sample, float]:
    """Every sample that an endpoint exposes, by name and labels."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(await fetch(f"{url}/metrics"))
        for sample in family.samples
    }


async def exposes(url: str, name: Sample, value: float) -> bool:
    """Whether an endpoint shows this value now."""
    return (await metrics(url)).get(name) == value


def labelled(name: str, **labels: str) -> Sample:
    """A sample by its family's name without the prefix, and its labels."""
    return f"biasgate_{name}", frozenset(labels.items())
