"""Exchanges that others recorded, from real senders: LiteLLM's proxy, the command; and kill -9."""

import asyncio
import json
import os
import shutil
import signal
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.integration.serving import Command, command, serving
from tests.support.processes import free_port, running
from tests.support.required import lacking
from tests.support.simulated import running_simulator
from tests.support.waiting import eventually

pytestmark = pytest.mark.long

SECRET = {"INGEST_SECRET": "0123456789abcdef0123456789abcdef", "INGEST_KEY": "sender-key"}
QUESTION = "Who leads better, men or women?"
OF_A_CLIENT = {"x-request-id": "always the same", "x-biasgate-sampling-rate": "1e-160"}
"""What an application's user may write, and must not decide by."""


def config_in(directory: Path, extra: str = "", upstream: str = "http://127.0.0.1:9") -> Path:
    path = directory / "biasgate.toml"
    path.write_text(
        f'[store]\nurl = "sqlite:///{directory / "biasgate.db"}"\n'
        f'[[upstreams]]\nname = "up"\nbase_url = "{upstream}"\nmodels = ["simulated"]\n'
        '[[keys]]\nname = "sender"\nkey_env = "INGEST_KEY"\nmay_state_rate = true\n'
        '[sampling]\nsecret_env = "INGEST_SECRET"\nrate = 0.5\n[ingest]\nenabled = true\n' + extra
    )
    return path


def outcomes_in(directory: Path) -> Counter[str]:
    """Of the ledger, as they stand in the file."""
    with sqlite3.connect(directory / "biasgate.db") as connection:
        rows = connection.execute("SELECT outcome, sum(count) FROM ledger GROUP BY outcome").fetchall()
    return Counter({outcome: count for outcome, count in rows if count})


def stored_in(directory: Path) -> list[tuple[Any, ...]]:
    """Model, sender's rate, probability and both bodies of each stored exchange."""
    with sqlite3.connect(directory / "biasgate.db") as connection:
        columns = "served_model, sender_rate, inclusion_probability, request_body, response_body"
        return connection.execute(f"SELECT {columns} FROM exchanges ORDER BY id").fetchall()


@asynccontextmanager
async def gateway(config: Path) -> AsyncIterator[Command]:
    async with serving("gateway", "--config", str(config), environ=SECRET) as found:
        yield found


def pair(number: int) -> dict[str, Any]:
    request = {"model": "simulated", "messages": [{"role": "user", "content": f"{QUESTION} {number}"}]}
    answer = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "Anyone may."}}]}
    return {"id": f"pair-{number}", "request": request, "response": answer, "sampling_rate": 0.1}


async def test_kill_9_loses_nothing_and_doubles_nothing(tmp_path: Path) -> None:
    """A sender that repeats what was not answered: each exchange is in the ledger once, whenever the gateway died."""
    config = config_in(tmp_path)
    n_kills = 3
    n_pairs = 600
    batches = [[pair(number) for number in range(first, first + 20)] for first in range(0, n_pairs, 20)]
    answered = 0
    for start in range(n_kills + 1):
        async with gateway(config) as running_gateway, httpx.AsyncClient(trust_env=False, timeout=30) as http:
            killing = asyncio.create_task(kill_soon(running_gateway)) if start < n_kills else None
            while answered < len(batches):
                try:
                    answer = await http.post(
                        f"{running_gateway.root}/ingest/http",
                        json=batches[answered],
                        headers={"authorization": "Bearer sender-key"},
                    )
                except httpx.TransportError:
                    break
                assert answer.status_code == 200, answer.text
                answered += 1
                await asyncio.sleep(0.02)
            if killing is not None:
                await killing

    assert answered == len(batches)
    outcomes = outcomes_in(tmp_path)
    assert outcomes.total() == n_pairs
    rows = stored_in(tmp_path)
    assert len(rows) == outcomes["queued"]
    assert {(row[1], round(row[2], 9)) for row in rows} == {(0.1, 0.05)}


async def kill_soon(found: Command) -> None:
    await asyncio.sleep(0.25)
    os.kill(found.process.pid, signal.SIGKILL)


async def test_the_command(tmp_path: Path) -> None:
    """A file with bad lines: the summary names them; sent again, nothing counts twice."""
    lines = [json.dumps(pair(number)) for number in range(450)]
    without = [{name: value for name, value in pair(number).items() if name != "id"} for number in (1, 1)]
    lines[100:100] = ["{", '{"id": "x", "request": 3}', *map(json.dumps, without), "", "[]"]
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(lines) + "\n")
    async with gateway(config_in(tmp_path)) as found:
        arguments = ("ingest", str(path), "--gateway", found.root, "--api-key-env", "INGEST_KEY", "--json")
        first, again = [await run(*arguments) for _ in range(2)]
        wrong = await run("ingest", str(path), "--gateway", found.root)

    assert (first[0], first[1]["lines"]) == (1, 455)
    assert {name: first[1][name] for name in ("taken", "duplicate", "rejected")} == {
        "taken": 452,
        "duplicate": 0,
        "rejected": 3,
    }
    assert sorted(first[1]["errors"]) == [
        "line 101: no JSON object",
        "line 102: request is neither an object nor text",
        "line 106: no JSON object",
    ]
    assert (again[1]["taken"], again[1]["duplicate"]) == (0, 452)
    assert outcomes_in(tmp_path).total() == 452
    assert wrong[0] == 2
    assert "missing or unknown API key" in wrong[2]


async def run(*arguments: str) -> tuple[int, dict[str, Any], str]:
    """Exit code, the last line as JSON, and all that was written."""
    async with command(*arguments, environ=SECRET) as found:
        code = await found.exit_code()
        await asyncio.sleep(0)
        await eventually(lambda: bool(found.lines), within_seconds=30)
    last = found.lines[-1]
    return code, json.loads(last) if last.startswith("{") else {}, "\n".join(found.lines)


async def test_the_real_litellm_proxy(tmp_path: Path) -> None:
    """In front of the simulated model, with guardrail and callback: one exchange each, streamed or not, both ways."""
    program = os.environ.get("BIASGATE_TEST_LITELLM") or shutil.which("litellm")
    if program is None:
        lacking("litellm is not installed: set BIASGATE_TEST_LITELLM to what .ci/litellm prints", "LITELLM")
    async with (
        running_simulator() as model,
        gateway(config_in(tmp_path, "models = ['chat']\nsampling_rate = 1.0\n")) as found,
    ):
        port = free_port()
        config = tmp_path / "litellm.yaml"
        config.write_text(LITELLM.format(model=model, root=found.root))
        environ = {
            "GENERIC_LOGGER_ENDPOINT": f"{found.root}/ingest/litellm",
            "GENERIC_LOGGER_HEADERS": "Authorization=Bearer sender-key",
            "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
            "LITELLM_LOG": "ERROR",
            "DEFAULT_FLUSH_INTERVAL_SECONDS": "1",
        }
        argv = [program, "--config", str(config), "--host", "127.0.0.1", "--port", str(port), "--num_workers", "1"]
        root = f"http://127.0.0.1:{port}"
        with running(argv, ready_url=f"{root}/health/liveliness", log=tmp_path / "litellm.log", environ=environ):
            said = [await ask(root, number, stream=number % 2 == 1) for number in range(6)]
            await eventually(lambda: outcomes_in(tmp_path).total() >= 6, within_seconds=60)
            await asyncio.sleep(7)  # the guardrail's calls come after the callback, and change nothing
        outcomes = outcomes_in(tmp_path)
        metrics = (await get(f"{found.root}/metrics")).text

    assert all(said)
    assert outcomes.total() == 6, outcomes
    assert 'biasgate_ingested_total{door="litellm",outcome="duplicate"}' in metrics
    rows = stored_in(tmp_path)
    assert {row[0] for row in rows} <= {"chat"}
    assert all(json.loads(row[3])["messages"][-1]["content"].startswith(QUESTION) for row in rows)
    answers = {json.loads(row[4])["choices"][0]["message"]["content"] for row in rows}
    assert answers <= set(said)


LITELLM = """
model_list:
  - model_name: chat
    litellm_params:
      model: openai/simulated
      api_base: {model}/v1
      api_key: none
litellm_settings:
  callbacks: ["generic_api"]
guardrails:
  - guardrail_name: biasgate
    litellm_params:
      guardrail: generic_guardrail_api
      mode: [pre_call, post_call]
      default_on: true
      api_base: {root}/ingest/litellm
      api_key: sender-key
      unreachable_fallback: fail_open
      streaming_end_of_stream_only: true
"""


async def ask(root: str, number: int, *, stream: bool, model: str = "chat") -> str:
    """What the proxy answers, which the guardrail must not change."""
    body = {"model": model, "stream": stream, "messages": [{"role": "user", "content": f"{QUESTION} {number}"}]}
    async with httpx.AsyncClient(trust_env=False, timeout=60) as http:
        answer = await http.post(f"{root}/v1/chat/completions", json=body, headers=OF_A_CLIENT)
    assert answer.status_code == 200, answer.text
    if not stream:
        return str(answer.json()["choices"][0]["message"]["content"])
    events = [line[6:] for line in answer.text.splitlines() if line.startswith("data: {")]
    deltas = [choice["delta"].get("content") for event in events for choice in json.loads(event)["choices"]]
    return "".join(filter(None, deltas))


async def get(url: str) -> httpx.Response:
    async with httpx.AsyncClient(trust_env=False, timeout=30) as http:
        return await http.get(url)
