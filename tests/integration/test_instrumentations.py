"""Exchanges from the instrumentations that applications use, of the real `openai` client in front of a model."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_ingest import config_in, gateway, get, outcomes_in, stored_in
from tests.support.integration.instrumented_app import CONVERSATIONS, KINDS
from tests.support.simulated import running_simulator


@pytest.mark.parametrize("kind", KINDS)
async def test_what_was_said_is_what_is_stored(kind: str, tmp_path: Path) -> None:
    """A whole answer, a streamed one and a conversation with tools, word for word, each counted once."""
    config = config_in(tmp_path, "join_seconds = 60\n")
    config.write_text(config.read_text().replace("rate = 0.5", "rate = 1.0"))
    async with running_simulator() as model, gateway(config) as found:
        answers = await said_by_app(kind, model, f"{found.root}/ingest/otlp")
        outcomes = outcomes_in(tmp_path)
        metrics = (await get(f"{found.root}/metrics")).text

    assert outcomes == {"queued": len(CONVERSATIONS)}
    assert f'biasgate_ingested_total{{door="otlp",outcome="taken"}} {len(CONVERSATIONS)}.0' in metrics
    asked = {said: words(conversation["messages"]) for said, conversation in zip(answers, CONVERSATIONS, strict=True)}
    stored = {}
    for model_name, _, _, request, response in stored_in(tmp_path):
        assert model_name == "simulated"
        assert json.loads(request)["temperature"] == 0.5
        [choice] = json.loads(response)["choices"]
        stored[choice["message"]["content"]] = words(json.loads(request)["messages"])
    assert stored == asked


def words(messages: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Who said what in each message, and which functions it calls with what, however it is written."""
    return [(one["role"], text_of(one.get("content")), *map(called, one.get("tool_calls", []))) for one in messages]


def text_of(content: str | list[dict[str, Any]] | None) -> str:
    return "".join(part["text"] for part in content) if isinstance(content, list) else content or ""


def called(call: dict[str, Any]) -> tuple[str, Any]:
    return call["function"]["name"], json.loads(call["function"]["arguments"])


async def said_by_app(*arguments: str) -> list[str]:
    """What the model told the instrumented application, which has sent its spans when this returns."""
    app = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.support.integration.instrumented_app", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, errors = await asyncio.wait_for(app.communicate(), 120)
    assert app.returncode == 0, errors.decode()
    found: list[str] = json.loads(out)
    return found
