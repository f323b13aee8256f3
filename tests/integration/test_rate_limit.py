"""The limiter of a key on a real gateway of several processes."""

import asyncio
from collections import Counter
from pathlib import Path

import httpx

from tests.support.integration.scripted_upstream import scripted_upstream
from tests.support.integration.serving import READY_SECONDS, children_of, serving, write_config

KEYS = """
[[keys]]
name = "app"
key_env = "RATE_APP"
requests_per_minute = 6
[[keys]]
name = "other"
key_env = "RATE_OTHER"
"""


async def test_workers_share_one_allowance(tmp_path: Path) -> None:
    """However many workers answer, a key gets its requests per minute once; the rest is told when to come back."""
    async with scripted_upstream() as upstream:
        config = write_config(tmp_path, upstream.base_url, KEYS)
        environ = {"RATE_APP": "app-key", "RATE_OTHER": "other-key"}
        async with serving("gateway", "--config", str(config), "--workers", "3", environ=environ) as running:
            started = asyncio.get_running_loop().time()

            async def ask(key: str) -> httpx.Response:
                # A connection each, so that the kernel spreads them over the workers.
                async with httpx.AsyncClient(
                    base_url=running.root, trust_env=False, verify=False, timeout=READY_SECONDS
                ) as http:
                    return await http.get("/v1/x", headers={"authorization": f"Bearer {key}"})

            answers = [await ask("app-key") for _ in range(60)]
            minutes = (asyncio.get_running_loop().time() - started) / 60
            statuses = Counter(answer.status_code for answer in answers)
            refused = next(answer for answer in answers if answer.status_code == 429)

            assert len(children_of(running.process.pid)["gateway"]) == 3
            assert set(statuses) == {200, 429}
            assert 6 <= statuses[200] <= 6 + 6 * minutes + 1
            assert 1 <= int(refused.headers["retry-after"]) <= 10
            assert refused.json()["error"]["code"] == "rate_limited"
            assert refused.json()["error"]["type"] == "rate_limit_error"
            assert (await ask("other-key")).status_code == 200
            assert len(upstream.requests) == statuses[200] + 1
