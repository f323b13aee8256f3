"""Audits give way on a real vLLM: while live requests queue for its few slots, a suite run sends nothing."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.integration.auditing import labelled, metrics, until
from tests.support.processes import free_port
from tests.support.vllm.wire import Recorder, recording
from tests.vllm.conftest import MODEL, RESTING, serving

SLOTS = 4
CROWD = 3 * SLOTS
"""Live clients that ask again at once, for answers so long that a queue always stands: no look at it can miss it."""
LIVE = {"model": MODEL, "messages": [{"role": "user", "content": "Hello?"}], "max_tokens": 3500, "ignore_eos": True}
AUDIT_PRIORITY = 10
"""The default of audits.priority."""


@pytest.fixture(scope="module")
def crowded_vllm(vllm_env: Path, model_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    log = tmp_path_factory.mktemp("crowded") / "log"
    with serving(vllm_env, model_dir, log, "--max-num-seqs", str(SLOTS), environ=RESTING) as url:
        yield url


def audits_sent(recorder: Recorder) -> int:
    """Requests of an audit's priority that have gone to vLLM so far."""
    asked = [request for tape in list(recorder.tapes) for request in tape.requests() if request.body]
    return sum(request.json().get("priority") == AUDIT_PRIORITY for request in asked)


async def test_a_suite_run_leaves_a_server_where_live_requests_queue(
    crowded_vllm: str, start_gateway: Callable[..., str]
) -> None:
    """Not one of its requests is sent while they do; afterwards all of it is answered, without one error."""
    port = free_port()
    live_answers = 0
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
            max_concurrency = {SLOTS}
            max_pause_seconds = 600  # no pause ends within the test
            live_latency_budget_ratio = 0  # the queue alone decides
            """,
        )

        async def is_ready() -> bool:
            with contextlib.suppress(httpx.HTTPError):
                return (await http.get(f"http://127.0.0.1:{port}/readyz")).is_success
            return False

        async def limiter() -> float:
            return (await metrics(f"http://127.0.0.1:{port}"))[labelled("audit_allowance", upstream="cpu")]

        async def allows(requests: float) -> bool:
            with contextlib.suppress(OSError):  # a page that is late on a busy machine is asked for again
                return await limiter() == requests
            return False

        async def has_sent(requests: int) -> bool:
            return audits_sent(recorder) >= requests

        async def has_answered(requests: int) -> bool:
            return live_answers >= requests

        async with httpx.AsyncClient(base_url=gateway, trust_env=False, timeout=300) as http:

            async def run() -> Any:
                return (await http.get(f"/audits/{run_id}")).raise_for_status().json()

            async def has_ended() -> bool:
                return (await run())["status"] in ("done", "failed")

            async def ask_for_ever() -> None:
                nonlocal live_answers
                while True:
                    (await http.post("/v1/chat/completions", json=LIVE)).raise_for_status()
                    live_answers += 1

            await until(is_ready, within_seconds=60)
            wanted = {"suites": ["unqover"], "model": MODEL, "data": "embedded", "samples": 4}
            run_id = (await http.post("/audits", json=wanted)).raise_for_status().json()["id"]
            await until(partial(has_sent, 2 * SLOTS), within_seconds=60)
            at_ease = await limiter()
            crowd = [asyncio.create_task(ask_for_ever()) for _ in range(CROWD)]
            await until(partial(allows, 0), within_seconds=120)
            await until(partial(has_answered, live_answers + 1), within_seconds=120)
            sent = audits_sent(recorder)
            await until(partial(has_answered, live_answers + SLOTS), within_seconds=120)
            assert audits_sent(recorder) == sent
            assert (await run())["status"] == "running"
            for client in crowd:
                client.cancel()
            ends = await asyncio.gather(*crowd, return_exceptions=True)
            assert all(isinstance(end, asyncio.CancelledError) for end in ends), ends
            await until(partial(allows, at_ease), within_seconds=60)
            await until(has_ended, within_seconds=300)
            ended = await run()
    assert at_ease >= SLOTS
    assert ended["status"] == "done", ended
    assert audits_sent(recorder) > sent
    assert ended["progress"]["done"] == ended["progress"]["total"]
