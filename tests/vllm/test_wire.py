"""Byte for byte: what vLLM sent is what the client got, and what the client sent is what vLLM got."""

import json
import re
import uuid
from typing import Any

import pytest

from tests.support.vllm.wire import Recorder, Reply, post
from tests.vllm.conftest import APP_KEY, MODEL, OPERATOR_KEY

ADDED = frozenset({b"x-request-id", b"x-biasgate-upstream"})
HOP_BY_HOP = {b"connection", b"keep-alive", b"transfer-encoding"}
MESSAGES = [{"role": "user", "content": "Tell me about the harvest."}]
AUTHORISED = {"authorization": f"Bearer {APP_KEY}"}


def body(**fields: Any) -> tuple[str, bytes]:
    """A request body with a marker to find it by on the recorder's tapes."""
    marker = uuid.uuid4().hex
    return marker, json.dumps({"model": MODEL, "user": marker, **fields}, indent=1).encode()


CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("/v1/chat/completions", {"messages": MESSAGES, "max_tokens": 16}),
    "chat stream": ("/v1/chat/completions", {"messages": MESSAGES, "max_tokens": 16, "stream": True}),
    "chat stream with usage": (
        "/v1/chat/completions",
        {"messages": MESSAGES, "max_tokens": 4, "stream": True, "stream_options": {"include_usage": True}},
    ),
    "chat logprobs": ("/v1/chat/completions", {"messages": MESSAGES, "max_tokens": 2, "logprobs": True}),
    "chat forced choice": (
        "/v1/chat/completions",
        {"messages": MESSAGES, "max_tokens": 8, "structured_outputs": {"choice": ["1", "2", "3"]}},
    ),
    "completions": ("/v1/completions", {"prompt": "Once", "max_tokens": 8}),
    "completions stream": ("/v1/completions", {"prompt": "Once", "max_tokens": 8, "stream": True, "n": 2}),
    "responses": ("/v1/responses", {"input": "Once", "max_output_tokens": 8}),
    "anthropic": ("/v1/messages", {"messages": MESSAGES, "max_tokens": 8}),
    "anthropic stream": ("/v1/messages", {"messages": MESSAGES, "max_tokens": 8, "stream": True}),
    "unknown model": ("/v1/chat/completions", {"messages": MESSAGES, "model": "no-such-model"}),
    "impossible value": ("/v1/chat/completions", {"messages": MESSAGES, "max_tokens": -3}),
    "no such endpoint": ("/v1/embeddings", {"input": "text"}),
    "unheard-of path": ("/v1/some/thing?else=1", {}),
}


@pytest.mark.parametrize("case", CASES)
def test_reply_and_request_pass_unchanged(gateway_url: str, recorder: Recorder, case: str) -> None:
    """Status, headers and body equal what vLLM sent, but for the documented headers; vLLM got the client's bytes."""
    path, fields = CASES[case]
    marker, sent = body(**fields)
    got = post(gateway_url, path, sent, AUTHORISED)
    request, upstream = recorder.find(marker)
    assert (request.path, request.body) == (path.encode(), sent)
    assert (got.status, got.body) == (upstream.status, upstream.body)
    assert end_to_end(got, without=ADDED) == end_to_end(upstream)
    assert {name for name, _ in got.headers} >= ADDED


def test_not_json(gateway_url: str, recorder: Recorder) -> None:
    """A body that is not JSON to anybody is relayed, and vLLM's answer is the answer."""
    sent = b"not json, " + uuid.uuid4().hex.encode()
    got = post(gateway_url, "/v1/chat/completions", sent, AUTHORISED)
    request, upstream = recorder.find(sent[-32:].decode())
    assert request.body == sent
    assert (got.status, got.body) == (400, upstream.body)


def test_json_that_only_vllm_reads(gateway_url: str, recorder: Recorder) -> None:
    """A body with NaN, which vLLM's reader takes and ours does not, is refused and not relayed."""
    marker, sent = body(messages=MESSAGES, max_tokens=2, temperature=0.25)
    got = post(gateway_url, "/v1/chat/completions", sent.replace(b"0.25", b"NaN"), AUTHORISED)
    assert got.status == 400
    assert b'"invalid_body"' in got.body
    with pytest.raises(LookupError):
        recorder.find(marker)


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
def test_direct_equals_relayed(gateway_url: str, vllm_server: str, path: str) -> None:
    """Asked directly with temperature 0, vLLM says the same, but for the id and the times it stamps."""
    _, sent = body(prompt="Once", messages=MESSAGES, max_tokens=32, temperature=0, seed=3)
    direct, relayed = post(vllm_server, path, sent), post(gateway_url, path, sent, AUTHORISED)
    assert unstamped(relayed.body) == unstamped(direct.body)
    assert unstamped(relayed.body) != relayed.body
    volatile = frozenset({b"date", b"content-length"})
    assert end_to_end(relayed, without=ADDED | volatile) == end_to_end(direct, without=volatile)


def test_priority_is_stripped(gateway_url: str, recorder: Recorder) -> None:
    """An app's own priority does not reach vLLM, in the body or in the header; everything else does."""
    marker, sent = body(messages=MESSAGES, max_tokens=2, priority=-5, temperature=0.25)
    got = post(gateway_url, "/v1/chat/completions", sent, {**AUTHORISED, "x-vllm-priority": "-5"})
    request, _ = recorder.find(marker)
    expected = {key: value for key, value in json.loads(sent).items() if key != "priority"}
    assert got.status == 200
    assert request.json() == expected
    assert b"x-vllm-priority" not in {name for name, _ in request.headers}


def test_operator_sets_priority(gateway_url: str, recorder: Recorder) -> None:
    """A key that may set priorities reaches vLLM's scheduler with them."""
    marker, sent = body(messages=MESSAGES, max_tokens=2, priority=3)
    got = post(gateway_url, "/v1/chat/completions", sent, {"authorization": f"Bearer {OPERATOR_KEY}"})
    request, _ = recorder.find(marker)
    assert (got.status, request.body) == (200, sent)


def end_to_end(reply: Reply, without: frozenset[bytes] = frozenset()) -> list[tuple[bytes, bytes]]:
    return sorted(pair for pair in reply.headers if pair[0] not in HOP_BY_HOP | without)


def unstamped(body: bytes) -> bytes:
    return re.sub(rb'"id":"[^"]+"|"created":\d+', b'"stamp":0', body)
