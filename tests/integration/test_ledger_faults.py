"""The ledger under kill -9: outcomes sum to the requests, each count agrees with its rows, nothing is scored twice."""

import asyncio
import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy as sa

from gateway.store import ledger
from gateway.store.database import Database
from tests.support.integration.auditing import until
from tests.support.integration.serving import Command, children_of, serving
from tests.support.simulated import running_simulator
from tests.support.store.scored import scores_of

pytestmark = pytest.mark.long

NAMING = {"model": "simulated", "messages": [{"role": "user", "content": "Do women lead better than men?"}]}
NEUTRAL = {"model": "simulated", "messages": [{"role": "user", "content": "What is a good soup?"}]}
BURST = 16
CHAT = "/v1/chat/completions"


def configuration(directory: Path, upstream: str, store: str = "") -> Path:
    path = directory / "biasgate.toml"
    path.write_text(
        f"""
[store]
url = "sqlite:///{directory}/biasgate.db"
{store}
[[upstreams]]
name = "u"
base_url = "{upstream}"
[server]
auditor_metrics_port = 0
drain_seconds = 5
[sampling]
rate = 0.3
strata = {{ identity_mention = 1.0 }}
[auditors.judge]
model = "simulated-judge"
[auditors.embedding]
enabled = false
"""
    )
    return path


async def send(http: httpx.AsyncClient, count: int) -> int:
    """Requests of every kind; returns how many were answered."""
    kinds: list[dict[str, Any]] = [
        {"json": NAMING},
        {"json": NEUTRAL},
        {"json": NAMING, "headers": {"x-biasgate-audit": "off"}},
        {"json": {"model": "simulated", "messages": "none"}},
    ]
    tasks = [http.post(CHAT, **kinds[number % 4]) for number in range(count)]
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    return sum(isinstance(answer, httpx.Response) for answer in answers)


async def states(database: Database) -> Counter[tuple[str, str]]:
    async with database.read() as connection:
        rows = await connection.execute(
            sa.text(
                "SELECT stratum, state, COUNT(*) FROM exchanges WHERE state != 'sampled_out' GROUP BY stratum, state"
            )
        )
        return Counter({(stratum, state): count for stratum, state, count in rows})


async def is_up(http: httpx.AsyncClient) -> bool:
    try:
        return (await http.get("/readyz")).status_code == 200
    except httpx.HTTPError:
        return False


def kill(running: Command, verb: str) -> None:
    for pid in children_of(running.process.pid)[verb]:
        os.kill(pid, signal.SIGKILL)


async def test_outcomes_sum_to_the_requests_whoever_is_killed(tmp_path: Path) -> None:
    """Auditor killed amid audits, gateway killed idle and amid traffic: nothing counted is lost or counted twice."""
    async with running_simulator() as upstream:
        config = configuration(tmp_path, upstream)
        async with serving("serve", "--config", str(config)) as running:
            database = await Database.open(f"sqlite:///{tmp_path}/biasgate.db")
            async with httpx.AsyncClient(base_url=running.root, trust_env=False, timeout=20) as http:
                sent = await send(http, 40)
                kill(running, "auditor")
                sent += await send(http, 20)
                assert sent == 60

                async def whole() -> bool:
                    return sum((await ledger.counts(database)).values()) == sent

                await until(whole, within_seconds=60)
                kill(running, "gateway")
                await until(lambda: is_up(http), within_seconds=60)
                sent += await send(http, 20)
                assert sent == 80
                await until(whole, within_seconds=60)

                burst = asyncio.create_task(send(http, BURST))
                await asyncio.sleep(0.05)
                kill(running, "gateway")
                await burst
                await until(lambda: is_up(http), within_seconds=60)

                async def settled() -> bool:
                    counts = await ledger.counts(database)
                    return not any(outcome == "queued" for _, outcome in counts)

                await until(settled, within_seconds=60)
                counts = await ledger.counts(database)
                assert sent <= sum(counts.values()) <= sent + BURST
                stored = Counter(
                    {key: n for key, n in counts.items() if key[1] in ("queued", "audited", "failed", "expired")}
                )
                rows = await states(database)
                lost = stored - rows  # copies that a killed worker held are counted as failed, and in no row
                assert rows == stored - lost
                assert {outcome for _, outcome in lost} <= {"failed"}
                assert counts["unclassified", "opted_out"] >= 20
                assert counts["identity_mention", "audited"] >= 20
                scores = await scores_of(database, limit=10_000)
                places = Counter((score.exchange.id, score.metric, score.group) for score in scores)
                assert set(places.values()) == {1}
                assert len({exchange_id for exchange_id, _, _ in places}) >= 20
            await database.close()
