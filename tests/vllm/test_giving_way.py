"""Audits give way on a real vLLM: while live requests queue for its few slots, a suite run sends nothing."""

import asyncio
import contextlib
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.integration.auditing import until
from tests.integration.load import steady_load
from tests.processes import free_port
from tests.vllm.conftest import MODEL, serving
from tests.vllm.wire import Recorder, recording

SLOTS = 4
PLACES = 16
"""Of the suite run, where nobody else asks."""
AUDIT_PRIORITY = 10
"""The default of audits.priority."""
QUEUEING = {"model": MODEL, "messages": [{"role": "user", "content": "Hello?"}], "max_tokens": 256, "ignore_eos": True}


@pytest.fixture(scope="module")
def crowded_vllm(vllm_env: Path, model_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    log = tmp_path_factory.mktemp("crowded") / "log"
    with serving(vllm_env, model_dir, log, "--max-num-seqs", str(SLOTS)) as url:
        yield url


async def answers(url: str) -> bool:
    with contextlib.suppress(httpx.HTTPError):
        async with httpx.AsyncClient(trust_env=False) as http:
            return (await http.get(url)).is_success
    return False


def audits_in_flight(recorder: Recorder) -> int:
    """Answers that vLLM owes to requests of an audit's priority."""
    asked = [request for tape in list(recorder.tapes) for request in tape.unanswered() if request.body]
    return sum(request.json().get("priority") == AUDIT_PRIORITY for request in asked)


async def are_all_out(recorder: Recorder) -> bool:
    return audits_in_flight(recorder) == PLACES


async def stay_away(recorder: Recorder) -> bool:
    """Whether no audit is in flight now and for a while: between two batches of a run there may be none either."""
    for _ in range(8):
        if audits_in_flight(recorder):
            return False
        await asyncio.sleep(0.25)
    return True


async def test_a_suite_run_leaves_a_server_where_live_requests_queue(
    crowded_vllm: str, start_gateway: Callable[..., str]
) -> None:
    """While they do, none of it is in flight any more; afterwards all of it is answered, without one error."""
    port = free_port()
    with recording(crowded_vllm) as recorder:
        gateway = start_gateway(
            "serve",
            f"""
            [server]
            auditor_metrics_port = {port}
            [[upstreams]]
            name = "cpu"
            base_url = "{recorder.origin}"
            [sampling]
            rate = 0.0
            [audits]
            max_concurrency = {PLACES}
            max_pause_seconds = 600  # no pause ends within the test
            live_latency_budget_ratio = 0  # the queue alone decides
            """,
        )
        await until(partial(answers, f"http://127.0.0.1:{port}/readyz"), within_seconds=60)
        async with httpx.AsyncClient(base_url=gateway, trust_env=False, timeout=30) as control:

            async def run() -> Any:
                return (await control.get(f"/audits/{run_id}")).raise_for_status().json()

            async def has_ended() -> bool:
                return (await run())["status"] in ("done", "failed")

            wanted = {"suites": ["unqover"], "model": MODEL, "data": "embedded", "samples": 3}
            run_id = (await control.post("/audits", json=wanted)).raise_for_status().json()["id"]
            await until(partial(are_all_out, recorder), within_seconds=60)
            async with steady_load(gateway, connections=3 * SLOTS, chat=QUEUEING) as live:
                await until(partial(stay_away, recorder), within_seconds=120)
                before, answered = await run(), live.answered
                await live.more(3 * SLOTS)
                assert audits_in_flight(recorder) <= PLACES // 4
                assert before["status"] == "running"
            assert live.failures == []
            assert live.answered > answered
            await until(partial(are_all_out, recorder), within_seconds=60)
            await until(has_ended, within_seconds=300)
            ended = await run()
            replies = (await control.get(f"/audits/{run_id}/responses")).raise_for_status().text.splitlines()
    assert ended["status"] == "done"
    assert len(replies) == ended["progress"]["total"]
    assert [reply for reply in map(json.loads, replies) if reply["status"] == "error"] == []
