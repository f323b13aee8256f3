"""A whole gateway under clients that mean harm: the others are answered, everything is stored, nothing is lost."""

import asyncio
import time
from pathlib import Path

import httpx
import pytest

from gateway.store import exchanges, ledger
from gateway.store.database import Database
from tests.support.integration.serving import serving
from tests.support.simulated import running_simulator

pytestmark = pytest.mark.long

CHAT = "/v1/chat/completions"
N_ORDINARY = 20
PROMPTS = {
    "keys": "eyJ-",
    "names": "A-",
    "cards": "4111 1111 ",
    "quotes": "“",
    "addresses": "a@b.",
    "numbers": "1:2.",
    "words": "Mr Ann-Bo’Cé ",
}
BODIES = {
    "small values": b'{"model": "simulated", "priority": 1, "x": [' + b"1," * 15_000_000 + b"1]}",
    "no number": b'{"model": "simulated", "x": "' + b"words " * 5_000_000 + b'", "y": NaN}',
    "models": b'{"model": "simulated", "x": "' + b"words " * 5_000_000 + b'", "model": "simulated"}',
}
LONGEST_WAIT_SECONDS = 5.0
"""Of a bystander, on a machine that runs other tests. It was 25 to 42 s before."""


def configuration(directory: Path, upstream: str) -> Path:
    path = directory / "biasgate.toml"
    path.write_text(
        f"""
[store]
url = "sqlite:///{directory}/biasgate.db"
redact = ["email", "phone", "card", "key", "iban", "ip", "number", "name"]
[[upstreams]]
name = "u"
base_url = "{upstream}"
[aliases]
alias = "simulated"
[server]
admin_key_env = "TEST_ADMIN_KEY"
[sampling]
rate = 1.0
"""
    )
    return path


def chat(text: str) -> dict[str, object]:
    return {"model": "simulated", "messages": [{"role": "user", "content": text}]}


async def attack(http: httpx.AsyncClient) -> None:
    """Prompts that are slow to redact, bodies that are slow to read, and looks at what was stored of them."""
    for unit in PROMPTS.values():
        await http.post(CHAT, json=chat(unit * (120_000 // len(unit.encode()))))
    for body in BODIES.values():
        await http.post(CHAT, content=body)
    await http.post(CHAT, content=b"[" * 1_000_000)
    for _ in range(2):
        await http.get("/live/exchanges", params={"limit": 200})


async def stand_by(http: httpx.AsyncClient, until_done: asyncio.Task[None]) -> float:
    """The longest that an ordinary request took while the attack went on, in seconds."""
    longest = 0.0
    while not until_done.done():
        started = time.monotonic()
        assert (await http.get("/v1/models")).status_code == 200
        longest = max(longest, time.monotonic() - started)
        await asyncio.sleep(0.01)
    return longest


async def test_they_slow_nobody_and_nothing_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bystanders are served meanwhile; each sampled exchange is in the store, also what a SIGTERM met on the way."""
    monkeypatch.setenv("TEST_ADMIN_KEY", "sesame")
    async with running_simulator() as upstream:
        config = configuration(tmp_path, upstream)
        async with serving("gateway", "--config", str(config)) as running:
            database = await Database.open(f"sqlite:///{tmp_path}/biasgate.db", migrate=False)
            headers = {"authorization": "Bearer sesame"}
            async with httpx.AsyncClient(base_url=running.root, headers=headers, trust_env=False, timeout=60) as http:
                attacking = asyncio.create_task(attack(http))
                longest = await stand_by(http, attacking)
                await attacking
                for number in range(N_ORDINARY):
                    await http.post(CHAT, json=chat(f"What is a good soup, {number}?"))
                await http.post(CHAT, json=chat(PROMPTS["keys"] * 30_000))  # the end comes while this is redacted
                running.process.terminate()
                assert await running.exit_code() == 0
            waiting, _ = await exchanges.backlog(database)
            counts = await ledger.counts(database)
            await database.close()

    assert longest < LONGEST_WAIT_SECONDS
    assert waiting == sum(n for (_, outcome), n in counts.items() if outcome == "queued")
    assert waiting >= N_ORDINARY + len(PROMPTS) + 1
    assert not any(outcome == "failed" for _, outcome in counts)
