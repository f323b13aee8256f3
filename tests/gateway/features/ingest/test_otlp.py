"""What the OTLP door makes of spans and events, on a real store: each exchange counted once, in whatever order."""

import json
import time

import pytest

from tests.support.gateway.control_plane import ControlPlane
from tests.support.gateway.ingested import counted, outcomes, said, stored
from tests.support.gateway.otlp import any_value, log, span

ASKED = [{"role": "user", "content": "Who leads better, men or women?"}]
CONTENT = {
    "gen_ai.operation.name": "chat",
    "gen_ai.request.model": "qwen",
    "gen_ai.request.temperature": 0.5,
    "gen_ai.input.messages": json.dumps([{"role": "user", "parts": [{"type": "text", "content": "Who leads?"}]}]),
    "gen_ai.output.messages": json.dumps(
        [{"role": "assistant", "parts": [{"type": "text", "content": "She does."}], "finish_reason": "stop"}]
    ),
}


async def test_span_and_event_are_one_exchange(plane: ControlPlane) -> None:
    """The same operation as a span and as the event of details counts once."""
    event = log("gen_ai.client.inference.operation.details", None)
    record = event["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0]
    record["attributes"] = [{"key": key, "value": any_value(value)} for key, value in CONTENT.items()]
    await plane.http.post("/ingest/otlp/v1/logs", json=event)
    await plane.http.post("/ingest/otlp/v1/traces", json=span(CONTENT))

    assert await outcomes(plane) == {"queued": 1}


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0), (1, 3, 0, 2)])
async def test_events_apart_in_any_order(plane: ControlPlane, order: tuple[int, ...]) -> None:
    """Messages, choice and span come in bodies of their own; the exchange is whole with the last of them."""
    start = time.time_ns() - 10**9
    posts = [
        ("logs", log("gen_ai.system.message", {"content": "Be brief."}, at=start)),
        ("logs", log("gen_ai.user.message", {"content": "Who leads?"}, at=start + 1000)),
        ("logs", log("gen_ai.choice", {"index": 0, "message": {"content": "Both."}}, at=start + 2000)),
        ("traces", span({"gen_ai.operation.name": "chat", "gen_ai.request.model": "qwen"})),
    ]
    found = []
    for number in order:
        signal, body = posts[number]
        await plane.http.post(f"/ingest/otlp/v1/{signal}", json=body)
        found.append(len(await stored(plane)))

    [one] = await stored(plane)
    asked, answered = said(one)
    assert answered == "Both."
    assert asked[-1] == {"role": "user", "content": "Who leads?"} or order != (0, 1, 2, 3)
    assert (one.model, await outcomes(plane)) == ("qwen", {"queued": 1})


async def test_without_content_it_is_not_auditable(plane: ControlPlane) -> None:
    """After the wait the ledger has it; sent again, it changes nothing."""
    bare = span({"gen_ai.operation.name": "chat", "gen_ai.request.model": "qwen"})
    half = log("gen_ai.user.message", {"content": "Who leads?"}, span_id="aaaaaaaaaaaaaaaa")
    for _ in range(2):
        await plane.http.post("/ingest/otlp/v1/traces", json=bare)
    await plane.http.post("/ingest/otlp/v1/logs", json=half)
    before = await outcomes(plane)
    swept = await sweep_all(plane)
    await plane.http.post("/ingest/otlp/v1/traces", json=bare)
    await sweep_all(plane)

    assert (before, swept) == ({}, 2)
    assert await outcomes(plane) == {"not_auditable": 2}
    counts = counted(plane)
    assert (counts["otlp", "no_content"], counts["otlp", "half"]) == (1, 1)


async def test_a_failed_request_without_an_answer(plane: ControlPlane) -> None:
    """No answer will come: filtered at once, and not half of an exchange that waits."""
    asked = {name: value for name, value in CONTENT.items() if name != "gen_ai.output.messages"}
    failed = asked | {"error.type": "timeout"}
    sent = await plane.http.post("/ingest/otlp/v1/traces", json=span(failed))
    assert sent.status_code == 200
    assert await outcomes(plane) == {"filtered": 1}


async def test_older_forms(plane: ControlPlane) -> None:
    """Events of a span; tests/integration/test_instrumentations.py has the numbered attributes that followed."""
    events = [
        {"name": name, "attributes": [{"key": key, "value": any_value(json.dumps(value))}]}
        for name, key, value in (
            ("gen_ai.content.prompt", "gen_ai.prompt", ASKED),
            ("gen_ai.content.completion", "gen_ai.completion", [{"role": "assistant", "content": "Nobody."}]),
        )
    ]
    model = {"gen_ai.request.model": "qwen", "gen_ai.operation.name": "chat"}
    await plane.http.post("/ingest/otlp/v1/traces", json=span(model, events=events))

    [one] = await stored(plane)
    assert said(one) == (ASKED, "Nobody.")


async def sweep_all(plane: ControlPlane) -> int:
    """As if every part had waited for long enough."""
    return await plane.intake.sweep(now=time.time() + 86_400)
