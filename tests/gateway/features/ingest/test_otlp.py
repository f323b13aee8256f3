"""What the OTLP door makes of spans and events, on a real store: each exchange counted once, in whatever order."""

import json
import time

import pytest

from tests.support.gateway.control_plane import ControlPlane
from tests.support.gateway.ingested import outcomes, said, stored
from tests.support.gateway.otlp import any_value, log, span

ASKED = [{"role": "user", "content": "Who leads better, men or women?"}]
ASKED_SHORT = {"role": "user", "content": "Who leads?"}
CONTENT = {
    "gen_ai.operation.name": "chat",
    "gen_ai.request.model": "qwen",
    "gen_ai.request.temperature": 0.5,
    "gen_ai.input.messages": json.dumps([{"role": "user", "parts": [{"type": "text", "content": "Who leads?"}]}]),
    "gen_ai.output.messages": json.dumps(
        [{"role": "assistant", "parts": [{"type": "text", "content": "She does."}], "finish_reason": "stop"}]
    ),
}


async def test_a_span_with_content(plane: ControlPlane) -> None:
    """Today's attributes become a chat completion's bodies."""
    answer = await plane.http.post("/ingest/otlp/v1/traces", json=span(CONTENT))

    [one] = await stored(plane)
    assert (answer.status_code, answer.json()) == (200, {})
    assert said(one) == ([{"role": "user", "content": "Who leads?"}], "She does.")
    assert json.loads(one.request_body)["temperature"] == 0.5
    assert one.seconds == pytest.approx(1.0)


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
    counted = {(door, what): n for door, what, n in plane.stats.snapshot().ingested}
    assert (counted["otlp", "no_content"], counted["otlp", "half"]) == (1, 1)


async def test_other_spans_are_ignored(plane: ControlPlane) -> None:
    """A database call and an embedding are no exchanges, and are counted."""
    for attributes in ({"db.system": "postgresql"}, {"gen_ai.operation.name": "embeddings"}):
        assert (await plane.http.post("/ingest/otlp/v1/traces", json=span(attributes))).json() == {}

    assert plane.stats.snapshot().ingested == [("otlp", "ignored", 2)]
    assert await outcomes(plane) == {}


async def test_a_failed_request_without_an_answer(plane: ControlPlane) -> None:
    """No answer will come: filtered at once, and not half of an exchange that waits."""
    asked = {name: value for name, value in CONTENT.items() if name != "gen_ai.output.messages"}
    failed = asked | {"error.type": "timeout"}
    sent = await plane.http.post("/ingest/otlp/v1/traces", json=span(failed))
    assert sent.status_code == 200
    assert await outcomes(plane) == {"filtered": 1}


async def test_older_forms(plane: ControlPlane) -> None:
    """Numbered attributes of OpenLLMetry, and the span events before them."""
    numbered = {
        "gen_ai.request.model": "qwen",
        "llm.request.type": "chat",
        "gen_ai.prompt.0.role": "system",
        "gen_ai.prompt.0.content": "Be brief.",
        "gen_ai.prompt.1.role": "user",
        "gen_ai.prompt.1.content": "Who leads?",
        "gen_ai.completion.0.role": "assistant",
        "gen_ai.completion.0.content": "Both.",
    }
    await plane.http.post("/ingest/otlp/v1/traces", json=span(numbered, span_id="1111111111111111"))
    events = [
        {"name": name, "attributes": [{"key": key, "value": any_value(json.dumps(value))}]}
        for name, key, value in (
            ("gen_ai.content.prompt", "gen_ai.prompt", ASKED),
            ("gen_ai.content.completion", "gen_ai.completion", [{"role": "assistant", "content": "Nobody."}]),
        )
    ]
    model = {"gen_ai.request.model": "qwen", "gen_ai.operation.name": "chat"}
    await plane.http.post("/ingest/otlp/v1/traces", json=span(model, events=events, span_id="2222222222222222"))

    found = sorted((said(one) for one in await stored(plane)), key=lambda one: str(one[1]))
    assert found[0] == ([{"role": "system", "content": "Be brief."}, ASKED_SHORT], "Both.")
    assert found[1] == (ASKED, "Nobody.")


async def sweep_all(plane: ControlPlane) -> int:
    """As if every part had waited for long enough."""
    return await plane.intake.sweep(now=time.time() + 86_400)
