"""Fast relay, slow oracle and the upstream itself say the same bytes and end for the same reason: recorded traffic of a
real vLLM, and generated traffic."""

import asyncio
import contextlib
import os
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.integration.differential import (
    Both,
    both,
    both_relays,
    cut_at,
    passed_on,
    request,
    sending,
    split_answer,
)
from tests.support.integration.generated_traffic import LISTED, Request, Response, requests, responses
from tests.support.integration.record_traffic import CASES, REFUSED, Recorded, recorded
from tests.support.integration.relaying import config_for
from tests.support.integration.scripted_upstream import Channel, ReceivedRequest, Script, raw, reply, scripted_upstream

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
    """Both relays and their upstream on a loop of their own, for as long as the module's tests run."""

    def __init__(self, runner: asyncio.Runner, pair: Both) -> None:
        self._runner = runner
        self._pair = pair

    def compare(self, script: Script, sent: Request) -> Any:
        """Drives both relays; returns what both did."""
        return self._runner.run(self._pair.drive(script, cut_at(sent.raw, sent.places), is_head=sent.is_head))

    def direct(self, script: Script) -> Any:
        """What the upstream itself answers."""
        return self._runner.run(self._pair.direct(script, request()))


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    """One set of relays for thousands of exchanges."""

    async def begin(stack: AsyncExitStack) -> Both:
        upstream = await stack.enter_async_context(scripted_upstream())
        config = config_for(upstream, aliases={"gpt": "m"}, server={"relayed_paths": list(LISTED)})
        return await stack.enter_async_context(both_relays(config, upstream))

    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        try:
            yield Stage(runner, runner.run(begin(stack)))
        finally:
            runner.run(stack.aclose())


def plain(is_head: bool = False) -> Request:
    return Request(request(b"", method="HEAD") if is_head else request(), [], is_head)


def test_recordings_are_what_they_are_called() -> None:
    """Each case is there and was answered, a refusal is called one, and tools were called, in pieces where streamed."""
    found = {case.name: case for case in recorded()}

    assert list(found) == list(CASES)
    assert {name for name, case in found.items() if not case.response.startswith("HTTP/1.1 200 ")} == set(REFUSED)
    assert all('"tool_calls":[{' in found[name].response for name in ("tool call", "tool call stream"))
    assert found["tool call stream"].response.count('"arguments":') > 1
    assert '"embedding":[' in found["embeddings"].response


UNKNOWN_MODEL = ("embeddings refused", "unknown model")
"""Cases that end in 404 for a model that the stage's upstream does not list: the gateway names all models itself."""


@pytest.mark.parametrize(
    "case", [case for case in recorded() if case.name not in UNKNOWN_MODEL], ids=lambda case: case.name
)
def test_recorded_vllm_traffic(case: Recorded, stage: Stage) -> None:
    """What a real vLLM said, at each endpoint, arrives through both relays as it arrives without any."""
    sent = request(case.request_bytes, method=case.method, target=case.target)
    if case.target == "/v1/models":
        sent = request(b"", method="GET", target="/v1/models/m")  # the list itself is the gateway's own, merged
    seen, direct = (
        stage.compare(raw(case.response_bytes), Request(sent, [], False)),
        stage.direct(raw(case.response_bytes)),
    )

    assert direct.is_whole
    assert (seen.status, passed_on(seen.headers), seen.body) == (direct.status, passed_on(direct.headers), direct.body)
    assert [end["outcome"] for end in seen.ends] == ["complete"]


@pytest.mark.parametrize("case", [case for case in recorded() if "stream" in case.name], ids=lambda case: case.name)
@pytest.mark.parametrize("size", [1, 7])
def test_recorded_streams_in_small_pieces(case: Recorded, size: int, stage: Stage) -> None:
    """A recorded stream that dribbles in arrives with the same bytes."""
    places = list(range(size, len(case.response_bytes), size))
    sent = Request(request(case.request_bytes, method=case.method, target=case.target), [], False)
    whole = stage.compare(raw(case.response_bytes), sent)
    assert stage.compare(Response(case.response_bytes, places, None, False).script, sent) == whole


def test_split_at_every_offset(stage: Stage) -> None:
    """Wherever a stream is cut in two packets, inside heads, chunk sizes, characters and trailers, nothing changes."""
    for place in range(1, len(WHOLE)):
        seen = stage.compare(Response(WHOLE, [place], None, closes=False).script, plain())
        assert seen.body == EVENTS
        assert [end["outcome"] for end in seen.ends] == ["complete"]


def test_request_split_at_every_offset(stage: Stage) -> None:
    """Wherever a request is cut in two packets, the upstream gets the same one."""
    data = request('{"model": "gpt", "content": "é\u2028🙂"}'.encode())
    asked = [stage.compare(reply(), Request(data, [place], False)).asked for place in range(1, len(data))]
    assert all(one == asked[0] for one in asked)
    assert asked[0][0][3] == '{"model": "m", "content": "é\u2028🙂"}'.encode()


def test_broken_at_every_offset(stage: Stage) -> None:
    """Wherever an upstream dies in a stream, both relays hand on the same bytes, the same error, the same end."""
    for place in range(1, len(WHOLE)):
        seen = stage.compare(Response(WHOLE, [], place, closes=False).script, plain())
        assert [end["outcome"] for end in seen.ends] == ["upstream_error"]


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
    seen = await both(raw(answers[framing], then_close=framing == "close"), sending(request(body)))

    assert seen.body == body
    assert [asked[3] for asked in seen.asked] == [body]
    assert [end["outcome"] for end in seen.ends] == ["complete"]


async def test_answer_before_the_request_is_read() -> None:
    """An upstream that answers a large upload at once, and reads it afterwards, is relayed alike."""

    async def early(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(b"HTTP/1.1 422 Unprocessable Entity\r\ncontent-length: 2\r\n\r\nno")
                await writer.drain()
                if head.startswith(b"POST"):
                    await reader.readexactly(4_000_000)

    server = await asyncio.start_server(early, "127.0.0.1", 0)
    async with scripted_upstream() as upstream:
        upstream.port = server.sockets[0].getsockname()[1]
        config = config_for(upstream, upstream={"models": ["m"]})
        async with both_relays(config, upstream) as pair:
            seen = await pair.drive(reply(), sending(request(b"x" * 4_000_000)))
    server.close()

    assert (seen.status, seen.body) == (422, b"no")
    assert [end["outcome"] for end in seen.ends] == ["complete"]


@DRAWN
@given(data=st.data())
def test_generated_exchanges(stage: Stage, data: st.DataObject) -> None:
    """Any request and any whole response: same bytes to the client, same request upstream, same end, same copy."""
    sent = data.draw(requests())
    answer = data.draw(responses(to_head=sent.is_head, may_break=False))
    seen = stage.compare(answer.script, sent)

    assert len(seen.ends) == 1
    assert seen.is_whole or sent.is_head
    if seen.asked and not sent.is_head:
        direct = stage.direct(answer.script)
        assert (seen.status, passed_on(seen.headers)) == (direct.status, passed_on(direct.headers))
        assert seen.body == direct.body


@DRAWN
@given(data=st.data())
def test_generated_breaks(stage: Stage, data: st.DataObject) -> None:
    """Any response that breaks off anywhere: same bytes, same error, same end, no copy."""
    answer = data.draw(responses(to_head=False, may_break=True))
    seen = stage.compare(answer.script, plain())

    assert len(seen.ends) == 1
    assert len(seen.asked) == 1


def test_a_wrong_byte_is_noticed(stage: Stage) -> None:
    """The comparison itself fails when the two relays are answered differently."""
    answers = iter([b"a", b"b"])

    async def script(received: ReceivedRequest, channel: Channel) -> None:
        await reply(next(answers))(received, channel)

    with pytest.raises(AssertionError):
        stage.compare(script, plain())


@pytest.mark.parametrize("more", [b"0\r\n\r\n", b"x-late: 1\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n"])
def test_bytes_behind_the_end_are_noticed(more: bytes) -> None:
    """What a relay writes behind a body is not taken for nothing."""
    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n"
    assert split_answer(head + b"\r\n").is_whole
    with pytest.raises((AssertionError, ValueError)):
        split_answer(head + (more if more.startswith(b"x") else b"\r\n" + more))
