"""Exchanges from the instrumentations that applications use, of the real `openai` client in front of a model."""

import asyncio
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_ingest import config_in, gateway, get, outcomes_in, stored_in
from tests.support.integration.instrumented_app import CONVERSATIONS, KINDS
from tests.support.simulated import running_simulator

pytestmark = pytest.mark.long


async def test_what_was_said_is_what_is_stored(tmp_path: Path) -> None:
    """A whole answer, a streamed one and a conversation with tools, word for word, each counted once for each kind."""
    config = config_in(tmp_path, "join_seconds = 60\n")
    config.write_text(config.read_text().replace("rate = 0.5", "rate = 1.0"))
    before = Counter[tuple[Any, ...]]()
    async with running_simulator() as model, gateway(config) as running_gateway:
        for number, kind in enumerate(KINDS, start=1):
            answers = await said_by_app(kind, model, f"{running_gateway.root}/ingest/otlp")
            assert outcomes_in(tmp_path) == {"queued": number * len(CONVERSATIONS)}, kind
            asked = {text: words(talk["messages"]) for text, talk in zip(answers, CONVERSATIONS, strict=True)}
            stored = {}
            for row in Counter(stored_in(tmp_path)) - before:
                model_name, _, _, request, response = row
                assert (model_name, json.loads(request)["temperature"]) == ("simulated", 0.5), kind
                [choice] = json.loads(response)["choices"]
                stored[choice["message"]["content"]] = words(json.loads(request)["messages"])
            assert stored == asked, kind
            before = Counter(stored_in(tmp_path))
        metrics = (await get(f"{running_gateway.root}/metrics")).text

    n_taken = len(KINDS) * len(CONVERSATIONS)
    assert f'biasgate_ingested_total{{door="otlp",outcome="taken"}} {n_taken}.0' in metrics


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
