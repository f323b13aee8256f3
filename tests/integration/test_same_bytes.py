"""Relay and upstream say the same bytes: recorded traffic of a real vLLM, and generated traffic."""

import asyncio
import os
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.integration.generated_traffic import LISTED, Request, Response, requests, responses
from tests.support.integration.relaying import config_for
from tests.support.integration.scripted_upstream import Script, raw, reply, scripted_upstream
from tests.support.integration.watching import Watched, cut_at, passed_on, request, sending, watch, watched_relay
from tools.recording.vllm_traffic import Recorded, recorded

EXAMPLES = int(os.environ.get("DIFFERENTIAL_EXAMPLES", "150"))
"""Of each generated test; docs/evidence/reliability.md quotes a longer run."""
DRAWN = settings(
    max_examples=EXAMPLES,
    derandomize="DIFFERENTIAL_EXAMPLES" not in os.environ,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

EVENTS = 'data: {"a": "é\u2028🙂"}\r\n\r\n: keep-alive\n\ndata: [DONE]\n\n'.encode()
SMALL = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n" + b"".join(
    b"%x\r\n%b\r\n" % (len(piece), piece) for piece in (EVENTS[:15], EVENTS[15:16], EVENTS[16:])
)
WHOLE = SMALL + b"0\r\nx-late: 1\r\n\r\n"


class Stage:
    """A relay and its upstream on a loop of their own, for as long as the module's tests run."""

    def __init__(self, runner: asyncio.Runner, relay: Watched) -> None:
        self._runner = runner
        self._relay = relay

    def drive(self, script: Script, sent: Request) -> Any:
        """Drives the relay; returns what it did."""
        return self._runner.run(self._relay.drive(script, cut_at(sent.raw, sent.places), is_head=sent.is_head))

    def direct(self, script: Script) -> Any:
        """What the upstream itself answers."""
        return self._runner.run(self._relay.direct(script, request()))


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    """One relay for thousands of exchanges."""

    async def begin(stack: AsyncExitStack) -> Watched:
        upstream = await stack.enter_async_context(scripted_upstream())
        config = config_for(upstream, aliases={"gpt": "m"}, server={"relayed_paths": list(LISTED)})
        return await stack.enter_async_context(watched_relay(config, upstream))

    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        try:
            yield Stage(runner, runner.run(begin(stack)))
        finally:
            runner.run(stack.aclose())


def plain(is_head: bool = False) -> Request:
    return Request(request(b"", method="HEAD") if is_head else request(), [], is_head)


UNKNOWN_MODEL = ("embeddings refused", "unknown model")
"""Cases that end in 404 for a model that the stage's upstream does not list: the gateway names all models itself."""


@pytest.mark.parametrize(
    "case", [case for case in recorded() if case.name not in UNKNOWN_MODEL], ids=lambda case: case.name
)
def test_recorded_vllm_traffic(case: Recorded, stage: Stage) -> None:
    """What a real vLLM said, at each endpoint, arrives through the relay as it arrives without one."""
    sent = request(case.request_bytes, method=case.method, target=case.target)
    if case.target == "/v1/models":
        sent = request(b"", method="GET", target="/v1/models/m")  # the list itself is the gateway's own, merged
    seen, direct = (
        stage.drive(raw(case.response_bytes), Request(sent, [], False)),
        stage.direct(raw(case.response_bytes)),
    )

    assert direct.is_whole
    assert (seen.status, passed_on(seen.headers), seen.body) == (direct.status, passed_on(direct.headers), direct.body)
    assert [end["outcome"] for end in seen.ends] == ["complete"]


def test_split_at_every_offset(stage: Stage) -> None:
    """Wherever a stream is cut in two packets, inside heads, chunk sizes, characters and trailers, nothing changes."""
    for place in range(1, len(WHOLE)):
        seen = stage.drive(Response(WHOLE, [place], None, closes=False).script, plain())
        assert seen.body == EVENTS
        assert [end["outcome"] for end in seen.ends] == ["complete"]


def test_request_split_at_every_offset(stage: Stage) -> None:
    """Wherever a request is cut in two packets, the upstream gets the same one."""
    data = request('{"model": "gpt", "content": "é\u2028🙂"}'.encode())
    asked = [stage.drive(reply(), Request(data, [place], False)).asked for place in range(1, len(data))]
    assert all(one == asked[0] for one in asked)
    assert asked[0][0][3] == '{"model": "m", "content": "é\u2028🙂"}'.encode()


def test_broken_at_every_offset(stage: Stage) -> None:
    """Wherever an upstream dies in a stream, the client has what came before it, then the error."""
    for place in range(1, len(WHOLE)):
        seen = stage.drive(Response(WHOLE, [], place, closes=False).script, plain())
        assert [end["outcome"] for end in seen.ends] == ["upstream_error"]
        assert b'"code":"upstream_error"' in seen.body
        assert EVENTS.startswith(seen.body.rpartition(b"data: {")[0].rstrip(b"\n")) or seen.status == 502


@pytest.mark.parametrize("framing", ["length", "one chunk", "close"])
async def test_ten_megabytes(framing: str) -> None:
    """A body of 10 MB crosses in one piece of any framing, both ways."""
    body = bytes(range(256)) * 40_960
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/octet-stream\r\n"
    answers = {
        "length": head + b"content-length: %d\r\n\r\n%b" % (len(body), body),
        "one chunk": head + b"transfer-encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(body), body),
        "close": head + b"\r\n" + body,
    }
    seen = await watch(raw(answers[framing], then_close=framing == "close"), sending(request(body)))

    assert seen.body == body
    assert [asked[3] for asked in seen.asked] == [body]
    assert [end["outcome"] for end in seen.ends] == ["complete"]


@DRAWN
@given(data=st.data())
def test_generated_exchanges(stage: Stage, data: st.DataObject) -> None:
    """Any request and any whole response: the upstream's bytes reach the client, and it ends once."""
    sent = data.draw(requests())
    answer = data.draw(responses(to_head=sent.is_head, may_break=False))
    seen = stage.drive(answer.script, sent)

    assert len(seen.ends) == 1
    assert seen.is_whole or sent.is_head
    if seen.asked and not sent.is_head:
        direct = stage.direct(answer.script)
        assert (seen.status, passed_on(seen.headers)) == (direct.status, passed_on(direct.headers))
        assert seen.body == direct.body


@DRAWN
@given(data=st.data())
def test_generated_breaks(stage: Stage, data: st.DataObject) -> None:
    """Any response that breaks off anywhere: one end, and no copy."""
    answer = data.draw(responses(to_head=False, may_break=True))
    seen = stage.drive(answer.script, plain())

    assert len(seen.ends) == 1
    assert len(seen.asked) == 1
    assert seen.ends[0]["outcome"] == "complete" or seen.copies == []
