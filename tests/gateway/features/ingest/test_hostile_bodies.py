"""Bodies that are made to cost: what they take of memory and of the event loop does not grow as they would have it."""

import asyncio
import json
import threading
import time
from typing import Any

import pytest

from gateway.features.ingest import guardrail, otlp
from gateway.features.ingest.reading import LARGE_BYTES, MOST_CONTAINERS, BodyReader
from gateway.features.ingest.received import MOST_ERRORS, MOST_MESSAGES
from tests.support.gateway.control_plane import ControlPlane
from tests.support.gateway.ingested import counted

GUARDRAIL = "/ingest/litellm/beta/litellm_basic_guardrail_api"
JSON_DOORS = ("/ingest/http", "/ingest/litellm", "/ingest/otlp/v1/traces", "/ingest/otlp/v1/logs")
EXCHANGE = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "qwen", "gen_ai.prompt": "Who leads?"}


def export_of(span: dict[str, Any]) -> bytes:
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).encode()


def attributes(given: dict[str, str]) -> list[dict[str, Any]]:
    return [{"key": key, "value": {"stringValue": value}} for key, value in given.items()]


@pytest.mark.parametrize("path", JSON_DOORS)
async def test_brackets_alone(plane: ControlPlane, path: str) -> None:
    """Hundreds of thousands of empty objects are refused before they are made; a guardrail's request goes on."""
    body = b"[" + b",".join([b"{}"] * (MOST_CONTAINERS + 1)) + b"]"
    answer = await plane.http.post(path, content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 413
    assert f"more than {MOST_CONTAINERS} objects and lists: send smaller batches" in answer.json()["detail"]
    answer = await plane.http.post(GUARDRAIL, content=body, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()) == (200, {"action": "NONE"})
    assert counted(plane)["litellm", "rejected"] >= 1


def test_only_events_with_content_are_kept() -> None:
    """And of those no more than an exchange has messages."""
    events: list[dict[str, Any]] = [{"name": "noise"}] * 1000
    events += [{"name": "gen_ai.user.message", "attributes": attributes({"content": f"m{n}"})} for n in range(20_000)]
    body = export_of({"attributes": attributes(EXCHANGE | {"gen_ai.prompt": ""}), "events": events})
    started = time.process_time()
    sent = otlp.read(body, "traces", is_json=True, sender=None)
    assert len(sent.parts[0].asked) == MOST_MESSAGES
    assert time.process_time() - started < 20  # in the square of them it would be minutes


def test_an_id_is_no_place_for_text() -> None:
    """A span's id of a megabyte is cut where it names the request."""
    body = export_of({"traceId": "ab" * 16, "spanId": "c" * 1_000_000, "attributes": attributes(EXCHANGE)})
    [part] = otlp.read(body, "traces", is_json=True, sender=None).parts
    assert part.request_id == "c" * 200


async def test_reasons_are_counted_and_few_are_kept(plane: ControlPlane) -> None:
    """A list of nine thousand things that are nothing has nine thousand rejections and twenty reasons."""
    request = {"model": "qwen", "messages": [{"role": "user", "content": "Who?"}]}
    response = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "Anyone may."}}]}
    whole = json.dumps({"id": "w", "request": request, "response": response}).encode()
    body = b"[" + b",".join([b"1"] * 9_000 + [whole]) + b"]"
    answer = await plane.http.post("/ingest/http", content=body, headers={"content-type": "application/json"})
    found = answer.json()
    assert (found["rejected"], found["taken"], len(found["errors"])) == (9_000, 1, MOST_ERRORS)


async def test_large_bodies_are_read_one_after_the_other() -> None:
    """Small ones do not wait for them."""
    reading, at_once, most = BodyReader(), 0, 0
    lock = threading.Lock()

    def read(body: bytes) -> int:
        nonlocal at_once, most
        with lock:
            at_once += 1
            most = max(most, at_once)
        time.sleep(0.05)
        with lock:
            at_once -= 1
        return len(body)

    large = [asyncio.create_task(reading.read(read, b"x" * (LARGE_BYTES + 1))) for _ in range(4)]
    await asyncio.sleep(0.01)
    assert await reading.read(len, b"small") == 5
    assert not any(one.done() for one in large)
    assert await asyncio.gather(*large) == [LARGE_BYTES + 1] * 4
    assert most == 1


class TestGuardrail:
    """Calls of one exchange are put together as they come."""

    async def test_a_streamed_answer(self, plane: ControlPlane) -> None:
        """Each call has more of it; a hundred of them are taken, and room is counted once."""
        asked = {"litellm_call_id": "c", "model": "qwen", "input_type": "request", "texts": ["Who leads? " * 1000]}
        await plane.http.post(GUARDRAIL, json=asked)
        for n_words in range(1, 101):
            call = {"litellm_call_id": "c", "model": "qwen", "input_type": "response", "texts": ["word " * n_words]}
            await plane.http.post(GUARDRAIL, json=call)
        [held] = plane.guardrail_calls._held.values()
        assert held.part.answered[0]["message"]["content"] == "word " * 100
        assert held.part.asked == [{"role": "user", "content": "Who leads? " * 1000}]
        assert held.size < 20_000
        assert plane.guardrail_calls._bytes == held.size
        await plane.guardrail_calls.flush(everything=True)
        assert plane.guardrail_calls._bytes == 0
        assert counted(plane) == {("litellm", "taken"): 1}

    async def test_small_calls_about_a_large_answer(self, plane: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> None:
        """Each would be put together with all of it: there is a bound to that work."""
        monkeypatch.setattr(guardrail, "MOST_MERGED_BYTES", 1_000_000)
        for number in range(40):
            texts = ["x" * 100_000] if number == 0 else [f"{number}"]
            call = {"litellm_call_id": "c", "model": "qwen", "input_type": "response", "texts": texts}
            assert (await plane.http.post(GUARDRAIL, json=call)).json() == {"action": "NONE"}
        assert counted(plane) == {("litellm", "rejected"): 40 - 10}
