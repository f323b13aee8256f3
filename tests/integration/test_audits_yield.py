"""Audits that run are cut off when live requests wait: a real gateway and auditor, a simulated server of few slots."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from auditors.types import CompletionRequest, Message
from benchmarks.run.client import GATEWAY_HEADERS, open_client
from benchmarks.simulator.loading import load
from benchmarks.simulator.profile import Latency
from gateway.store import ledger
from gateway.store.database import Database
from tests.support.integration.auditing import auditing, config_for, labelled, metrics, sample, until
from tests.support.integration.relaying import Gateway, running_gateway
from tests.support.integration.relaying import config_for as relay_config
from tests.support.integration.scripted_upstream import reply, scripted_upstream
from tests.support.simulated import running_simulator
from tests.support.waiting import eventually

SLOTS = 4
PROFILE = msgspec.structs.replace(load("default"), latency=Latency(tokens_per_second=10, max_running=SLOTS))
"""A verdict takes seconds; the first token of whoever gets a slot comes at once."""
SOON = 1.0
"""Seconds within which a live request has its first token on a busy machine; an audit takes longer."""
AUDITS = {"max_pause_seconds": 600.0, "max_kv_usage_ratio": 1.0}
CHAT = {"model": "simulated", "messages": [{"role": "user", "content": "Hello?"}], "max_tokens": 4, "stream": True}


class Upstream:
    """So much of a `ScriptedUpstream` as a configuration asks for."""

    def __init__(self, base_url: str) -> None:
        self.base_url = base_url


@asynccontextmanager
async def gateway_for(upstream: str, **sections: Any) -> AsyncIterator[Gateway]:
    """A gateway's data plane before the simulator."""
    async with running_gateway(relay_config(Upstream(upstream), **sections)) as gateway:  # type: ignore[arg-type]
        yield gateway


async def busy(upstream: str) -> bool:
    async with httpx.AsyncClient() as http:
        lines = (await http.get(f"{upstream}/metrics")).text.splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith("vllm:num_requests_running{")) == SLOTS


async def first_token_seconds(gateway: Gateway) -> float:
    """Of one live stream, which is read to its end."""
    async with gateway.http() as http:
        began = time.monotonic()
        async with http.stream("POST", "/v1/chat/completions", json=CHAT) as answer:
            assert answer.status_code == 200
            chunks = answer.aiter_raw()
            await anext(chunks)
            seconds = time.monotonic() - began
            async for _ in chunks:
                pass
    return seconds


@pytest.mark.stores("sqlite")
@pytest.mark.parametrize(("is_shared", "seconds"), [(True, SOON), (False, SOON + 1.0)], ids=["shared", "elsewhere"])
async def test_live_audits_are_cut_off_and_finished_later(
    database: Database, tmp_path: Path, is_shared: bool, seconds: float
) -> None:
    """A live stream gets its first token before a judgement ends, as audits are cut off; all finish once, later."""
    shared = {"metrics_dir": str(tmp_path / "shared")} if is_shared else {}
    judge = {"model": "simulated-judge", "max_concurrency": SLOTS, "timeout_seconds": 30.0}
    auditors = {"judge": judge, "embedding": {"enabled": False}}
    async with running_simulator(PROFILE) as upstream, gateway_for(upstream, server=shared) as gateway:
        config = config_for(
            database.url, upstream, server={"auditor_metrics_port": 0} | shared, auditors=auditors, audits=AUDITS
        )
        async with auditing(config) as url:
            await sample(database, 6)
            await until(partial(busy, upstream))
            assert await first_token_seconds(gateway) < seconds

            await until(partial(all_audited, database, 6))
            cut_off = labelled("audits_evicted_total", upstream="u", reason="live_waiting")
            await until(partial(shows_some, url, cut_off))
            counted = await metrics(url)
    assert counted[labelled("exchanges_total", outcome="audited", auditor="judge")] <= 6
    assert labelled("exchanges_total", outcome="failed", auditor="judge") not in counted
    assert labelled("judge_requests_total", outcome="timeout") not in counted
    assert counted[labelled("audit_tokens_wasted_total", upstream="u", kind="prompt")] > 0


async def shows_some(url: str, name: Any) -> bool:
    return (await metrics(url)).get(name, 0) > 0


async def all_audited(database: Database, count: int) -> bool:
    return await ledger.counts(database) == {("other", "audited"): count}


QUESTION = CompletionRequest(model="simulated", messages=[Message("user", "Tell a story.")], max_tokens=40)


async def ask_all(gateway: Gateway, count: int) -> list[str | None]:
    """So many audit requests at once, as `biasgate audit run --gateway` sends them."""
    completer = open_client(gateway.base_url, concurrency=count, headers=GATEWAY_HEADERS)
    try:
        answers = await asyncio.gather(*(completer.complete(QUESTION) for _ in range(count)))
        return [answer.text for answer in answers]
    finally:
        await completer.aclose()


async def test_audits_through_a_gateway_are_cut_off_and_finished_later() -> None:
    """As `audit run --gateway` sends them: live requests get their slots at once, all audits are answered later."""
    async with running_simulator(PROFILE) as upstream, gateway_for(upstream) as gateway:
        asking = asyncio.create_task(ask_all(gateway, SLOTS))
        await until(partial(busy, upstream))
        assert await first_token_seconds(gateway) < SOON
        assert not asking.done()
        answers = await asking
    assert len(answers) == SLOTS
    assert all(answers)
    assert gateway.stats.evicted
    assert [name for name, _ in gateway.stats.evicted] == ["up0"] * len(gateway.stats.evicted)


async def test_audits_are_turned_away_while_live_requests_wait() -> None:
    """429 `audit_deferred` with Retry-After; one is let through after each pause, and it is not cut off."""
    latency = Latency(tokens_per_second=10, max_running=1)
    profile = msgspec.structs.replace(PROFILE, latency=latency)
    audits = {"max_pause_seconds": 0.5, "priority": 7}
    headers = {"x-biasgate-priority": "audit"}
    body = {"model": "simulated", "messages": [{"role": "user", "content": "Hello?"}], "max_tokens": 2}
    async with (
        running_simulator(profile) as upstream,
        gateway_for(upstream, audits=audits) as gateway,
        gateway.http() as http,
    ):
        http.timeout = httpx.Timeout(60)
        stop = asyncio.Event()

        async def keep_streaming() -> None:
            while not stop.is_set():
                await first_token_seconds(gateway)

        live = [asyncio.create_task(keep_streaming()) for _ in range(3)]
        waits = gateway.plane.upstreams[0].waits
        await eventually(lambda: len(waits.streams.waiting) >= 2)
        await asyncio.sleep(0.2)
        turned_away = await http.post("/v1/chat/completions", json=body, headers=headers)
        assert turned_away.status_code == 429
        assert turned_away.json()["error"]["code"] == "audit_deferred"
        assert turned_away.headers["retry-after"] == "1"
        await asyncio.sleep(0.5)
        asking = asyncio.create_task(http.post("/v1/chat/completions", json=body, headers=headers))
        await eventually(lambda: bool(waits.audits.waiting))
        await asyncio.sleep(0.5)
        assert waits.audits.waiting  # it stands at the end of the queue, and is left alone there
        stop.set()
        await asyncio.gather(*live)
        assert (await asking).status_code == 200
    assert gateway.stats.evicted == []


@pytest.mark.parametrize("key", ["plain", "able"])
async def test_anybody_may_lower_a_priority_and_nobody_raise_it_so(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    """The header sets the priority of audits, in place of whatever body and headers say, and reaches no upstream."""
    monkeypatch.setenv("PLAIN_KEY", "plain")
    monkeypatch.setenv("ABLE_KEY", "able")
    keys = [
        {"name": "plain", "key_env": "PLAIN_KEY"},
        {"name": "able", "key_env": "ABLE_KEY", "may_set_priority": True},
    ]
    sent = {"authorization": f"Bearer {key}", "x-biasgate-priority": "AUDIT", "x-vllm-priority": "-5"}
    async with scripted_upstream() as upstream:
        upstream.default = reply(b"{}")
        async with (
            running_gateway(relay_config(upstream, keys=keys, audits={"priority": 7})) as gateway,
            gateway.http() as http,
        ):
            for content in (b'{"model": "m", "priority": -5}', b"{}", b"no json"):
                await http.post("/v1/chat/completions", content=content, headers=sent)
            await http.post("/v1/tokenize", content=b"{}", headers=sent)
            await http.post("/v1/completions", content=b"{}", headers=sent | {"x-biasgate-priority": "urgent"})
    bodies = [asked.body for asked in upstream.requests]
    assert bodies == [b'{"priority":7,"model": "m"}', b'{"priority":7}', b"no json", b"{}", b"{}"]
    headers = [asked.header("x-vllm-priority") for asked in upstream.requests]
    assert headers == [None] * 4 + ([None] if key == "plain" else ["-5"])
    assert {asked.header("x-biasgate-priority") for asked in upstream.requests} == {None}
