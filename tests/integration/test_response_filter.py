"""The response filter on a running gateway: nothing biased goes out, and what is clean goes out byte for byte."""

import asyncio
import json
import re
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

import httpx
import pytest

from gateway.features.mitigation.mitigation import Mitigation
from tests.support.integration.failing import STREAM_HEAD, hang
from tests.support.integration.filtering import (
    BIASED,
    CHAT,
    DONE,
    Filtered,
    completion,
    event,
    events_of,
    filtering,
    judge,
    looked_at,
    streamed,
)
from tests.support.integration.relaying import Gateway, RememberingTap, eventually
from tests.support.integration.scripted_upstream import Channel, ReceivedRequest, Script, raw, reply

HEADER = "x-biasgate-mitigation"
BODY = b'{"model": "m",  "messages": [{"role": "user", "content": "Hello"}]}'
CLEAN_PIECES = ["The sky", " is blue", ", and", " the grass", " is green", "."]
BIASED_AT_THE_END = [*CLEAN_PIECES, " And ", BIASED, "."]


def filtered(
    *answers: Script, filter: dict[str, Any] | None = None, **keys: Any
) -> AbstractAsyncContextManager[Filtered]:
    return filtering("response_filter", *answers, filter={"window": 10} | (filter or {}), **keys)


async def asked(
    gateway: Gateway, body: bytes = BODY, path: str = CHAT, headers: Mapping[str, str] | None = None
) -> httpx.Response:
    async with gateway.http() as http:
        return await http.post(path, content=body, headers=headers)


class TestWhole:
    """An answer that comes at once."""

    @pytest.mark.parametrize("is_chunked", [False, True])
    async def test_clean(self, is_chunked: bool) -> None:
        """It goes out as the same bytes; the upstream was asked for no compression, and the copy is the answer."""
        answer = completion("The sky is blue.").replace(b'"id"', b'  "id"')
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        chunked = head + b"%x\r\n%b\r\n0\r\n\r\n" % (len(answer), answer)
        script = raw(chunked) if is_chunked else reply(answer)
        tap = RememberingTap(samples=True)
        async with filtered(script, tap=tap) as run:
            got = await asked(run.gateway, headers={"accept-encoding": "gzip, br"})
            await run.gateway.ended()
        assert (got.status_code, got.content) == (200, answer)
        assert ("content-length" in got.headers) is not is_chunked
        assert got.headers[HEADER] == "policy=p; arm=treated; response=clean"
        assert run.upstream.requests[-1].header("accept-encoding") == "identity"
        assert [name for name, _ in run.upstream.requests[-1].headers].count("accept-encoding") == 1
        assert looked_at(run.detector) == ["The sky is blue."]
        assert run.gateway.stats.mitigations == [("p", "response_filter", "clean")]
        assert run.gateway.stats.outcomes == ["complete"]
        assert tap.offered[0].response_body == answer
        assert [(name, action) for name, action, _ in run.gateway.stats.filter_seconds] == [("p", "response_filter")]

    async def test_repeatedly_on_one_connection(self) -> None:
        """Answers with a known head, which the relay takes unparsed, are looked at too."""
        scripts = [reply(completion("fine")), reply(completion("fine")), reply(completion(BIASED))]
        async with filtered(*scripts) as run, run.gateway.http() as http:
            answers = [await http.post(CHAT, content=BODY) for _ in scripts]
        assert [one.status_code for one in answers] == [200, 200, 400]
        assert {one.connection for one in run.upstream.requests if one.method == "POST"} == {
            run.upstream.requests[-1].connection
        }

    async def test_biased(self) -> None:
        """An error goes out in its place, none of the answer does, and no copy is offered."""
        tap = RememberingTap(samples=True)
        async with filtered(reply(completion(f"Surely {BIASED}.")), tap=tap) as run:
            got = await asked(run.gateway)
            await run.gateway.ended()
        assert (got.status_code, got.json()["error"]["code"]) == (400, "response_refused")
        assert BIASED not in got.text
        assert got.headers[HEADER] == "policy=p; arm=treated; response=refused"
        assert run.gateway.stats.outcomes == ["rejected"]
        assert run.gateway.stats.mitigations == [("p", "response_filter", "refused")]
        assert (tap.offered, tap.dropped) == ([], [("other", "filtered")])

    @pytest.mark.parametrize(
        "message",
        [
            {"content": [{"type": "text", "text": "Well, "}, {"type": "text", "text": BIASED}]},
            {"content": None, "refusal": BIASED},
            {"content": None, "audio": {"transcript": BIASED}},
            {"content": "\ud83d" + BIASED},
        ],
        ids=["parts", "refusal", "transcript", "half a character"],
    )
    async def test_wherever_text_is(self, message: Any) -> None:
        """Parts, refusals, transcripts, and what is no clean JSON."""
        async with filtered(reply(json.dumps({"choices": [{"message": message}]}).encode())) as run:
            assert (await asked(run.gateway)).status_code == 400

    async def test_calls_and_thoughts(self) -> None:
        """They are nothing that users read as the answer: the judge is not asked, and the header says so."""
        message = {"content": "", "reasoning": BIASED, "tool_calls": [{"function": {"arguments": BIASED}}]}
        body = json.dumps({"choices": [{"message": message}]}).encode()
        async with filtered(reply(body), on_timeout="refuse") as run:
            got = await asked(run.gateway)
        assert (got.content, run.detector.requests) == (body, [])
        assert got.headers[HEADER].endswith("response=no_text")

    @pytest.mark.parametrize("choice", ["pass", "refuse"])
    async def test_a_detector_without_a_verdict(self, choice: str) -> None:
        """The answer goes out as it came, or an error does, as the policy says."""
        async with filtered(reply(completion(BIASED)), looks=(reply(b"?"),), on_timeout=choice) as run:
            got = await asked(run.gateway)
            await run.gateway.ended()
        assert run.gateway.stats.mitigations == [("p", "response_filter", "failed")]
        assert got.headers[HEADER].endswith("response=failed")
        if choice == "pass":
            assert got.content == completion(BIASED)
        else:
            assert (got.status_code, got.json()["error"]["code"]) == (503, "mitigation_unavailable")

    @pytest.mark.parametrize("choice", ["pass", "refuse"])
    @pytest.mark.parametrize(
        ("body", "headers"),
        [
            (b"\x1f\x8b compressed", b"content-type: application/json\r\ncontent-encoding: gzip\r\n"),
            (b'{"choices": 1}', b"content-type: application/json\r\n"),
        ],
        ids=["compressed", "no answer"],
    )
    async def test_what_cannot_be_read(self, body: bytes, headers: bytes, choice: str) -> None:
        """It passes as it is or is refused, and is counted as unsupported."""
        async with filtered(reply(body, headers=headers), on_timeout=choice) as run:
            async with run.gateway.http() as http, http.stream("POST", CHAT, content=BODY) as got:
                sent = b"".join([one async for one in got.aiter_raw()])
            await run.gateway.ended()
        assert run.gateway.stats.mitigations == [("p", "response_filter", "unsupported")]
        assert (got.status_code, sent == body) == ((200, True) if choice == "pass" else (400, False))

    async def test_errors_of_the_upstream(self) -> None:
        """They pass as they are."""
        async with filtered(reply(b'{"error": "x"}', "422 Unprocessable Entity"), on_timeout="refuse") as run:
            got = await asked(run.gateway)
        assert (got.status_code, got.content, run.detector.requests) == (422, b'{"error": "x"}', [])
        assert got.headers[HEADER].endswith("response=no_text")

    async def test_an_answer_that_breaks_off(self) -> None:
        """Half of it is nothing that could be looked at: the client gets the gateway's error."""
        half = raw(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{", then_close=True)
        async with filtered(half) as run:
            got = await asked(run.gateway)
            await run.gateway.ended()
        assert (got.status_code, got.json()["error"]["code"]) == (502, "upstream_error")
        assert run.gateway.stats.outcomes == ["upstream_error"]

    @pytest.mark.parametrize("choice", ["pass", "refuse"])
    async def test_a_huge_answer(self, choice: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """What is longer than is held back passes whole, or is refused."""
        monkeypatch.setattr("gateway.features.mitigation.filters.answer.MOST_HELD_BYTES", 100_000)
        body = completion("a" * 300_000)
        async with filtered(reply(body), on_timeout=choice) as run:
            got = await asked(run.gateway)
            await run.gateway.ended()
        assert run.gateway.stats.mitigations == [("p", "response_filter", "unsupported")]
        assert (got.content == body) is (choice == "pass")
        assert got.status_code == (200 if choice == "pass" else 400)

    @pytest.mark.parametrize(
        ("second", "status", "said"),
        [("fine", 200, "instruction=abstract; response=instructed"), (BIASED, 400, "response=refused")],
    )
    async def test_asked_again(self, second: str, status: int, said: str) -> None:
        """With the policy's sentence, once; what is biased again is refused."""
        tap = RememberingTap(samples=True)

        async def first(request: ReceivedRequest, channel: Channel) -> None:
            await asyncio.sleep(0.5)
            await reply(completion(BIASED))(request, channel)

        async with filtered(
            first, reply(completion(second)), tap=tap, filter={"then": "instruct"}, instruction="abstract"
        ) as run:
            got = await asked(run.gateway)
            await run.gateway.ended()
        sent = [one.body for one in run.upstream.requests if one.method == "POST"]
        assert sent == [BODY, BODY.replace(b'"Hello"', b'"please do not rely on stereotypes.\\nHello"')]
        assert got.status_code == status
        assert got.headers[HEADER].endswith(said)
        assert (len(run.gateway.stats.starts), len(run.gateway.stats.ends)) == (1, 1)
        assert run.gateway.stats.ends[0]["overhead_seconds"] < run.gateway.stats.ends[0]["duration_seconds"] - 0.45
        if status == 200:
            assert got.content == completion(second)
            assert tap.offered[0].response_body == completion(second)
            assert tap.offered[0].instruction == "please do not rely on stereotypes."


class TestStream:
    """An answer that comes in events."""

    @pytest.mark.parametrize("size", [1, 7, 100_000])
    async def test_clean(self, size: int) -> None:
        """Every byte goes out as it came, however events and characters were cut."""
        pieces = ["Ein schöner Tag, ", "日本語のテキスト", " — 🙂 and", " so on. " * 20]
        sent = b": a comment\r\n\r\n" + b"".join(events_of(*pieces)).replace(b"\n\n", b"\r\n\r\n", 2)
        chunks = [sent[start : start + size] for start in range(0, len(sent), size)]
        async with filtered(streamed(chunks)) as run:
            got = await asked(run.gateway)
            await run.gateway.ended()
        assert got.content == sent
        assert got.headers[HEADER].split("; ")[-1] in ("response=streamed", "response=clean")
        assert run.gateway.stats.mitigations == [("p", "response_filter", "clean")]
        assert run.gateway.stats.outcomes == ["complete"]
        assert looked_at(run.detector)[-1] == "".join(pieces)

    async def test_what_is_looked_at_goes_out_while_more_comes(self) -> None:
        """The first window arrives before the answer's end, and nothing arrives that was not looked at."""
        script = streamed(events_of(*CLEAN_PIECES))
        async with filtered(script) as run, run.gateway.http() as http, http.stream("POST", CHAT, content=BODY) as got:
            seen = ""
            async for piece in got.aiter_text():
                seen += piece
                said = "".join(re.findall('"content": "([^"]*)"', seen))
                assert any(text.startswith(said) for text in looked_at(run.detector))
        assert got.headers[HEADER] == "policy=p; arm=treated; response=streamed"
        assert len(run.detector.requests) > 1
        assert seen.endswith(DONE.decode())

    async def test_biased_in_the_last_sentence(self) -> None:
        """The clean part went out; then an error event, no [DONE], and nothing of the sentence."""
        async with filtered(streamed(events_of(*BIASED_AT_THE_END))) as run:
            got = await asked(run.gateway)
            await run.gateway.ended()
        assert "The sky" in got.text
        assert "women" not in got.text
        assert "[DONE]" not in got.text
        assert (
            json.loads(got.text.strip().splitlines()[-1].removeprefix("data: "))["error"]["code"] == "response_refused"
        )
        assert run.gateway.stats.outcomes == ["rejected"]
        assert run.gateway.stats.mitigations == [("p", "response_filter", "refused")]

    async def test_cut_off_by_the_upstream(self) -> None:
        """What came is looked at and goes out, then the error event that says so."""
        events = events_of(*CLEAN_PIECES)[:-2]
        async with filtered(streamed(events, ends=False)) as run:
            got = await asked(run.gateway)
            await run.gateway.ended()
        assert got.content.startswith(b"".join(events))
        assert "upstream_error" in got.text
        assert run.gateway.stats.outcomes == ["upstream_error"]

    async def test_an_event_without_an_end(self) -> None:
        """Text in a last event that is not finished is looked at too: some clients read it."""
        events = [*events_of(*CLEAN_PIECES)[:-2], event({"content": BIASED}).rstrip(b"\n")]
        async with filtered(streamed(events)) as run:
            got = await asked(run.gateway)
        assert BIASED not in got.text
        assert "response_refused" in got.text

    @pytest.mark.parametrize("choice", ["pass", "refuse"])
    async def test_a_detector_that_begins_to_hang(self, choice: str) -> None:
        """After the time limit the rest goes out with a comment that says so, or an error event ends the stream."""
        sent = b"".join(events_of(*BIASED_AT_THE_END))
        async with filtered(
            streamed(events_of(*BIASED_AT_THE_END)), looks=(judge, hang), timeout_seconds=0.5, on_timeout=choice
        ) as run:
            got = await asked(run.gateway)
            await run.gateway.ended()
        assert run.gateway.stats.mitigations == [("p", "response_filter", "timed_out")]
        assert got.headers[HEADER].endswith("response=streamed")
        if choice == "pass":
            comment = b": x-biasgate-mitigation response=timed_out\n\n"
            assert got.content.count(comment) == 1
            assert got.content.replace(comment, b"") == sent
        else:
            assert "mitigation_unavailable" in got.text
            assert "[DONE]" not in got.text
            assert "women" not in got.text

    async def test_calls_and_thoughts_do_not_wait(self) -> None:
        """Events without text go out at once, while the answer is still far from its window."""
        script = streamed(
            [event({"reasoning": "hm"}), event({"tool_calls": [{"index": 0}]}), event({}, finish="stop"), DONE]
        )
        async with filtered(script, filter={"window": 8_000}) as run:
            async with run.gateway.http() as http, http.stream("POST", CHAT, content=BODY) as got:
                async for piece in got.aiter_bytes():
                    assert b"reasoning" in piece
                    break
            assert run.detector.requests == []

    async def test_a_client_that_leaves_during_a_look(self) -> None:
        """Detector and upstream are let go at once, and what was held is forgotten."""
        async with filtered(streamed([*events_of(*CLEAN_PIECES)] * 3), looks=(hang,), timeout_seconds=60) as run:
            _, writer = await run.gateway.connect()
            writer.write(
                b"POST %b HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % (CHAT.encode(), len(BODY)) + BODY
            )
            await eventually(lambda: run.detector.requests)
            writer.close()
            await run.gateway.ended()
            await asyncio.wait_for(run.detector.closed.wait(), 5)
            assert run.gateway.stats.outcomes == ["client_disconnected"]
            assert run.gateway.stats.mitigations == [("p", "response_filter", "abandoned")]
            mitigation = run.gateway.plane.mitigation
            assert isinstance(mitigation, Mitigation)
            assert mitigation._held.held == 0

    async def test_the_official_client(self) -> None:
        """It reads a clean stream, raises APIError at an error event and BadRequestError at a refusal."""
        import openai

        scripts = [streamed(events_of(*pieces)) for pieces in (CLEAN_PIECES, BIASED_AT_THE_END, [BIASED])]
        texts, errors = [], []
        async with (
            filtered(*scripts) as run,
            openai.AsyncOpenAI(base_url=f"{run.gateway.base_url}/v1", api_key="x", max_retries=0) as client,
        ):
            for _ in scripts:
                text, error = "", None
                try:
                    stream = await client.chat.completions.create(
                        model="m", messages=[{"role": "user", "content": "Hello"}], stream=True
                    )
                    async for chunk in stream:
                        text += chunk.choices[0].delta.content or ""
                except openai.APIError as exc:
                    error = exc
                texts.append(text)
                errors.append(error)
        clean, cut_off, refused = errors
        assert (texts[0], clean) == ("".join(CLEAN_PIECES), None)
        assert texts[1].startswith("The sky")
        assert cut_off is not None
        assert "biased" in cut_off.message
        assert isinstance(refused, openai.BadRequestError)
        assert refused.code == "response_refused"


@pytest.mark.parametrize(
    ("choice", "status", "is_relayed"), [("pass", 200, True), ("refuse", 400, False)], ids=["pass", "refuse"]
)
async def test_other_endpoints(choice: str, status: int, is_relayed: bool) -> None:
    """Their answers pass unfiltered and counted, or their requests are refused before anybody works on them."""
    async with filtered(reply(b"{}"), on_timeout=choice) as run:
        got = await asked(run.gateway, BODY, "/v1/messages")
    assert got.status_code == status
    if is_relayed:
        assert got.headers[HEADER] == "policy=p; arm=treated; response=unsupported"
    else:
        assert got.json()["error"]["code"] == "mitigation_impossible"
    assert any(one.method == "POST" for one in run.upstream.requests) == is_relayed


async def test_a_filtered_connection_leaves_nothing_behind() -> None:
    """On one connection, beside a policy for another model, unfiltered requests keep their own headers and bytes."""
    answer = raw(STREAM_HEAD + b"3\r\nabc\r\n0\r\n\r\n")

    def encoding(request: ReceivedRequest) -> str | None:
        return request.header("accept-encoding")

    async with filtered(answer, match={"model": "m"}) as run, run.gateway.http() as http:
        for model in ("m", "n", "m", "n"):
            await http.post(
                CHAT, content=BODY.replace(b'"m"', b'"%b"' % model.encode()), headers={"accept-encoding": "br"}
            )
    assert [encoding(one) for one in run.upstream.requests if one.method == "POST"] == ["identity", "br"] * 2
