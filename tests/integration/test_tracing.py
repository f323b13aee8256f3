"""Traces of a real gateway process, decoded from what the real exporter sends to a collector."""

import asyncio
import contextlib
import re
import signal
import sqlite3
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from gateway.features.evaluations import tracing
from gateway.features.evaluations.tracing import Tracer, span_attributes
from gateway.proxy.instrumentation import SpanContext, SpanData
from tests.support.integration.collector import Collector, ReceivedSpan, collecting
from tests.support.integration.scraping import Scrape, scrape
from tests.support.integration.scripted_upstream import reply, scripted_upstream
from tests.support.integration.serving import serving, write_config
from tests.support.waiting import eventually

CHAT = {"model": "m", "messages": [{"role": "user", "content": "a secret question"}]}
COMPLETIONS = "/v1/chat/completions"
ANSWER = (
    b'{"id": "chatcmpl-1", "model": "served-m", "choices": [{"finish_reason": "stop", "message": {"role": "assistant", '
    b'"content": "a secret answer"}}], "usage": {"prompt_tokens": 7, "completion_tokens": 5}}'
)
EVENTS = (
    b'data: {"id": "chatcmpl-2", "model": "served-m", "choices": [{"delta": {"content": "secret"}}]}\n\n'
    b'data: {"id": "chatcmpl-2", "model": "served-m", "choices": [{"delta": {}, "finish_reason": "length"}]}\n\n'
    b'data: {"id": "chatcmpl-2", "model": "served-m", "choices": [], '
    b'"usage": {"prompt_tokens": 3, "completion_tokens": 9}}\n\n'
    b"data: [DONE]\n\n"
)
STREAM = reply(EVENTS, headers=b"content-type: text/event-stream\r\n")
NO_PROXY = {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}


def traced(directory: Path, upstream: str, collector: Collector, extra: str = "") -> Path:
    return write_config(directory, upstream, f'[telemetry]\notlp_endpoint = "{collector.url}"\n{extra}')


async def spans_of(collector: Collector, count: int) -> list[ReceivedSpan]:
    await eventually(lambda: len(collector.spans) >= count, within_seconds=40)
    return collector.spans


async def test_span_follows_the_conventions_and_the_trace_goes_on_upstream(tmp_path: Path) -> None:
    """Name, kind, attributes and parents are as the conventions say; neither prompt nor reply nor key is among them."""
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    headers = {"traceparent": parent, "tracestate": "v=1", "x-request-id": "r1", "authorization": "Bearer secret-key"}
    async with collecting() as collector, scripted_upstream(reply(ANSWER), STREAM) as upstream:
        path = traced(tmp_path, upstream.base_url, collector)
        async with serving("gateway", "--config", str(path), environ=NO_PROXY) as running, running.http() as http:
            await http.post(COMPLETIONS, json=CHAT, headers=headers)
            await http.post("/v1/completions", json={"model": "m", "prompt": "a secret question", "stream": True})
            whole, streamed = await spans_of(collector, 2)

    assert (whole.name, streamed.name) == ("chat m", "text_completion m")
    assert (whole.kind, whole.status) == (3, 0)
    assert (whole.trace_id, whole.parent_id) == (parent.split("-")[1], parent.split("-")[2])
    assert upstream.requests[0].header("traceparent") == f"00-{whole.trace_id}-{whole.span_id}-01"
    assert upstream.requests[0].header("tracestate") == "v=1"
    assert upstream.requests[1].header("traceparent") == f"00-{streamed.trace_id}-{streamed.span_id}-01"
    assert streamed.parent_id == ""
    assert 0 < whole.end - whole.start < 30e9
    assert whole.resource["service.name"] == "biasgate"
    first_chunk = whole.attributes.pop("gen_ai.response.time_to_first_chunk")
    assert 0 < first_chunk < 30
    assert whole.attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "vllm",
        "gen_ai.request.model": "m",
        "gen_ai.response.model": "served-m",
        "gen_ai.response.id": "chatcmpl-1",
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.usage.output_tokens": 5,
        "server.address": "127.0.0.1",
        "server.port": upstream.port,
        "http.request.method": "POST",
        "http.response.status_code": 200,
        "url.path": COMPLETIONS,
        "biasgate.request_id": "r1",
        "biasgate.upstream": "up",
        "biasgate.outcome": "complete",
    }
    assert streamed.attributes["gen_ai.response.finish_reasons"] == ["length"]
    assert streamed.attributes["gen_ai.usage.output_tokens"] == 9
    assert "secret" not in repr(collector.spans)


async def test_collector_that_hangs_or_refuses_harms_no_request(tmp_path: Path) -> None:
    """Requests are answered while it hangs, and every span is counted as exported or failed."""
    async with collecting() as collector, scripted_upstream() as upstream:
        collector.waiting = asyncio.Event()
        path = traced(tmp_path, upstream.base_url, collector)
        async with serving("gateway", "--config", str(path), environ=NO_PROXY) as running, running.http() as http:
            await http.post(COMPLETIONS, json=CHAT)
            await eventually(lambda: collector.requests > 0, within_seconds=40)
            answers = [await http.post(COMPLETIONS, json=CHAT) for _ in range(50)]
            assert await fate(http) == {}
            collector.status = b"400 Bad Request"
            collector.waiting.set()
            await running.line("spans are not taken by")
            collector.status = b"200 OK"
            await http.post(COMPLETIONS, json=CHAT)
            await running.line("are taken by .* again")
            async with asyncio.timeout(40):
                while sum((counts := await fate(http)).values()) < 52:  # noqa: ASYNC110 - another process
                    await asyncio.sleep(0.1)

    assert {answer.status_code for answer in answers} == {200}
    assert counts == {"failed": 52 - len(collector.spans), "exported": len(collector.spans)}
    assert counts["failed"] > 0


async def test_a_collector_that_redirects_takes_nothing(tmp_path: Path) -> None:
    """Spans are for the collector that was named: a redirect is not followed, and they count as failed."""
    async with collecting() as elsewhere, collecting() as collector, scripted_upstream() as upstream:
        collector.status = b"307 Temporary Redirect\r\nlocation: " + elsewhere.url.encode() + b"/v1/traces"
        path = traced(tmp_path, upstream.base_url, collector)
        async with serving("gateway", "--config", str(path), environ=NO_PROXY) as running, running.http() as http:
            await http.post(COMPLETIONS, json=CHAT)
            await running.line("spans are not taken by")
            async with asyncio.timeout(40):
                while not (counts := await fate(http)):  # noqa: ASYNC110 - another process
                    await asyncio.sleep(0.1)

    assert counts == {"failed": 1}
    assert collector.requests == 1
    assert elsewhere.requests == 0


async def test_queue_is_bounded_and_every_span_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the collector hangs, spans above the bound are dropped and counted; offering never waits."""
    monkeypatch.setattr(tracing, "QUEUE_SPANS", 40)
    monkeypatch.setattr(tracing, "BATCH_SPANS", 10)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    async with collecting() as collector:
        collector.waiting = asyncio.Event()
        tracer = Tracer(collector.url)
        tracer.start()
        tracer.on_end(ended())
        await eventually(lambda: collector.requests == 1, within_seconds=40)
        for _ in range(100):
            tracer.on_end(ended())
        dropped = tracer.outcomes["dropped"]
        collector.waiting.set()
        await asyncio.to_thread(tracer.close)

    assert dropped == 60
    assert tracer.outcomes == {"exported": 41, "dropped": 60}
    assert len(collector.spans) == 41


def ended() -> SpanData:
    return SpanData(
        context=SpanContext(1, 2, None),
        started_ns=1,
        duration_seconds=0.1,
        first_chunk_seconds=None,
        request_id="r",
        method="POST",
        endpoint=COMPLETIONS,
        model="m",
        upstream=None,
        server=None,
        status=200,
        outcome="complete",
        response=(b"", b""),
    )


@pytest.mark.parametrize(
    ("endpoint", "first", "last", "told"),
    [
        (
            "/v1/messages",
            b'event: message_start\ndata: {"type": "message_start", "message": {"id": "msg_1", "model": "s", "usage": '
            b'{"input_tokens": 4, "output_tokens": 1}}}\n\nevent: content_block_delta\ndata: {"del',
            b'lta"}\n\nevent: message_delta\ndata: {"delta": {"stop_reason": "end_turn"}, '
            b'"usage": {"output_tokens": 8}}\n\nevent: message_stop\ndata: {"type": "message_stop"}\n\n',
            {"id": "msg_1", "model": "s", "finish_reasons": ["end_turn"], "input": 4, "output": 8},
        ),
        (
            "/v1/responses",
            b'event: response.created\ndata: {"response": {"id": "resp_1", "model": "s"}}\n\n'
            b'event: response.output_text.delta\ndata: {"delta": "text"}\n\n',
            b'data: {"response": {"id": "resp_1", "model": "s", "usage": {"input_tokens": 2, "output_tokens": 3}}}\n\n',
            {"id": "resp_1", "model": "s", "input": 2, "output": 3},
        ),
        (
            "/v1/embeddings",
            b'{"id": "embd-1", "model": "s", "usage": {"prompt_tokens": 4, "total_tokens": 4, "completion_tokens": 0}}',
            b"",
            {"id": "embd-1", "model": "s", "input": 4, "output": 0},
        ),
        (
            "/v1/chat/completions",
            b'data: {"id": "chatcmpl-1", "model": "s", "choices": [{"index": 0, "delta": {"content": "A"}}]}\n\n',
            b'data: {"choices": [{"index": 1, "delta": {}, "finish_reason": "stop"}]}\n\n'
            b'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]}\n\ndata: [DONE]\n\n',
            {"id": "chatcmpl-1", "model": "s", "finish_reasons": ["length", "stop"]},
        ),
        ("/v1/chat/completions", b'{"id": "cut off after 64 KiB", "choices": [', b'"usage": {}}', {}),
        ("/v1/chat/completions", b'{"id": 7, "model": ["odd"], "usage": "much"}', b"", {}),
        ("/v1/chat/completions", b"\x1f\x8b\x08 packed", b"\xff\xfe", {}),
    ],
)
def test_answers_are_read_as_far_as_they_can_be(endpoint: str, first: bytes, last: bytes, told: dict[str, Any]) -> None:
    """Every dialect's id, model, reason and tokens; what cannot be read is left out."""
    attributes = span_attributes(msgspec.structs.replace(ended(), endpoint=endpoint, response=(first, last)))
    names = {"input": "usage.input_tokens", "output": "usage.output_tokens"}
    found = {name: value for name, value in attributes.items() if name.startswith(("gen_ai.response", "gen_ai.usage"))}

    assert found == {f"gen_ai.{names.get(name, 'response.' + name)}": value for name, value in told.items()}


async def fate(http: httpx.AsyncClient) -> dict[str, float]:
    seen: Scrape = await scrape(http)
    return {
        outcome: seen.totals("biasgate_trace_spans_total", outcome=outcome)[0]
        for outcome in seen.labels("biasgate_trace_spans_total", "outcome")
    }


async def test_request_id_is_the_same_from_end_to_end(tmp_path: Path) -> None:
    """Upstream, response, access log, stored sample and trace carry the client's id, or the one made in its place."""
    async with collecting() as collector, scripted_upstream(default=reply(ANSWER)) as upstream:
        extra = "access_log = true\n[sampling]\nrate = 1.0\n"
        path = traced(tmp_path, upstream.base_url, collector, extra)
        async with serving("gateway", "--config", str(path), environ=NO_PROXY) as running, running.http() as http:
            kept = await http.post(COMPLETIONS, json=CHAT, headers={"x-request-id": "my-id.1"})
            made = await http.post(COMPLETIONS, json=CHAT, headers={"x-request-id": "not one word"})
            ids = [answer.headers["x-request-id"] for answer in (kept, made)]
            spans = await spans_of(collector, 2)
            lines = [await running.line(f'"request_id": "{one}"') for one in ids]
            running.process.send_signal(signal.SIGTERM)
            await running.exit_code()
        stored = stored_ids(tmp_path)

    assert ids[0] == "my-id.1"
    assert re.fullmatch("[0-9a-f]{32}", ids[1])
    assert [request.header("x-request-id") for request in upstream.requests] == ids
    assert [span.attributes["biasgate.request_id"] for span in spans] == ids
    assert sorted(stored) == sorted(ids)
    assert all('"event": "request ended"' in line and '"outcome": "complete"' in line for line in lines)
    assert [span.trace_id in line for span, line in zip(spans, lines, strict=True)] == [True, True]
    assert "secret" not in "".join(lines)


def stored_ids(directory: Path) -> list[str]:
    with contextlib.closing(sqlite3.connect(directory / "biasgate.db")) as database:
        return [one for (one,) in database.execute("SELECT request_id FROM exchanges")]
