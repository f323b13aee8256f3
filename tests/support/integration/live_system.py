"""`biasgate serve` with live auditors in front of a simulated model, and traffic of known composition through it."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from benchmarks.simulator.profile import Profile
from tests.support.integration.auditing import until
from tests.support.integration.serving import serving
from tests.support.simulated import running_simulator

CHAT = "/v1/chat/completions"
IN_FLIGHT = 8
AUDITORS = """
[auditors.judge]
model = "simulated-judge"
[auditors.embedding]
model = "simulated-embedder"
base_url = "{upstream}"
max_tokens = 400
[auditors.affinity]
enabled = true
rate = 1.0
max_tokens = 400
token_budget_per_minute = 100_000_000
[auditors.counterfactual]
enabled = true
rate = 1.0
max_tokens = 400
model = "simulated-judge"
token_budget_per_minute = 100_000_000
"""
"""All five, each on every sampled exchange."""

Place = tuple[str, str, str]
"""Metric, axis and group of a stream; empty where there is none."""


class LiveSystem:
    """The running system as its users see it: over HTTP."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http
        self.sent = 0

    async def ask(self, prompts: Sequence[str], headers: Sequence[Mapping[str, str]] = ({},)) -> None:
        """Sends every prompt, a few at a time and nearly in order, with the headers in turn; all must be answered."""
        requests = [
            (CHAT, {"model": "simulated", "max_tokens": 400, "messages": [{"role": "user", "content": prompt}]})
            for prompt in prompts
        ]
        await self.send(requests, headers)

    async def send(
        self, requests: Iterable[tuple[str, dict[str, Any]]], headers: Sequence[Mapping[str, str]] = ({},)
    ) -> None:
        """As `ask`, of whole requests: path and body."""
        slots = asyncio.Semaphore(IN_FLIGHT)

        async def one(number: int, path: str, body: dict[str, Any]) -> None:
            async with slots:
                answer = await self.http.post(path, json=body, headers=headers[number % len(headers)])
            assert answer.status_code == 200, answer.text
            self.sent += 1

        await asyncio.gather(*(one(number, *request) for number, request in enumerate(requests)))

    async def settled(self, within_seconds: float = 300.0) -> Counter[str]:
        """The ledger's outcomes, once every request is in one and none waits."""

        async def is_settled() -> bool:
            outcomes = await self.outcomes()
            return outcomes.total() == self.sent and not outcomes["queued"]

        await until(is_settled, within_seconds=within_seconds)
        return await self.outcomes()

    async def outcomes(self) -> Counter[str]:
        return Counter((await self.get("/live/ledger"))["outcomes"])

    async def estimates(self) -> dict[Place, dict[str, Any]]:
        found: list[dict[str, Any]] = await self.get("/live/estimates")
        places = [place_of(one) for one in found]
        assert len(set(places)) == len(places), "two instruments measured the same"
        return dict(zip(places, found, strict=True))

    async def get(self, path: str) -> Any:
        answer = await self.http.get(path)
        answer.raise_for_status()
        return answer.json()


def place_of(one: Mapping[str, Any]) -> Place:
    return one["metric"], one["axis"] or "", one["group"] or ""


@asynccontextmanager
async def live_system(
    directory: Path,
    store_url: str,
    profile: Profile,
    *,
    auditors: str = AUDITORS,
    sampling: str = "rate = 1.0",
    server: str = "",
) -> AsyncIterator[LiveSystem]:
    """Run simulator, gateway and auditor until the block ends; `{upstream}` is the simulator's address."""
    async with running_simulator(profile) as simulator:
        config = directory / "biasgate.toml"
        config.write_text(
            f'[server]\nauditor_metrics_port = 0\ndrain_seconds = 5\n{server}\n[store]\nurl = "{store_url}"\n'
            f'[[upstreams]]\nname = "u"\nbase_url = "{simulator}"\n'
            f"[sampling]\n{sampling}\n" + auditors.replace("{upstream}", simulator)
        )
        async with (
            serving("serve", "--config", str(config)) as running,
            httpx.AsyncClient(base_url=running.root, trust_env=False, timeout=60) as http,
        ):
            await running.line("auditor is ready")
            yield LiveSystem(http)
