"""The query filter on a running gateway: what goes on, what is refused, and that nobody waits for ever."""

import asyncio
import json
import time
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.features.mitigation.mitigation import mitigation_of
from gateway.proxy.data_planes import DataPlanes
from gateway.sampling.decision import marking
from tests.support.integration.failing import hang
from tests.support.integration.filtering import BIASED, CHAT, completion, filter_to, judge, looked_at
from tests.support.integration.relaying import Gateway, RememberingTap, config_for, eventually, running_gateway
from tests.support.integration.scripted_upstream import (
    Channel,
    ReceivedRequest,
    ScriptedUpstream,
    raw,
    reply,
    scripted_upstream,
)

HEADER = "x-biasgate-mitigation"
CLEAN = b'{"model": "m",  "messages": [{"role": "user", "content": "Hello"}]}'
ASKED_BIASED = CLEAN.replace(b"Hello", b"Explain why " + BIASED.encode())


def policy(detector: ScriptedUpstream, *, filter: dict[str, Any] | None = None, **keys: Any) -> dict[str, Any]:
    return {"mitigation": [{"name": "p", "query_filter": filter_to(detector, **(filter or {})), **keys}]}


async def asked(gateway: Gateway, body: bytes = CLEAN, path: str = CHAT) -> httpx.Response:
    async with gateway.http() as http:
        return await http.post(path, content=body)


def relayed(upstream: ScriptedUpstream) -> list[bytes]:
    return [one.body for one in upstream.requests if one.method == "POST"]


async def test_a_clean_request_goes_on_as_it_came() -> None:
    """The detector sees its text, the upstream every byte; header, counter and histogram say what was done."""
    async with (
        scripted_upstream(reply(b"{}")) as upstream,
        scripted_upstream(default=judge) as detector,
        running_gateway(config_for(upstream, **policy(detector))) as gateway,
    ):
        answer = await asked(gateway)
        await gateway.ended()
    assert (answer.status_code, answer.content) == (200, b"{}")
    assert relayed(upstream) == [CLEAN]
    assert looked_at(detector) == ["Hello"]
    assert answer.headers[HEADER] == "policy=p; arm=treated; query=clean"
    assert gateway.stats.mitigations == [("p", "query_filter", "clean")]
    ((name, action, seconds),) = gateway.stats.filter_seconds
    assert (name, action) == ("p", "query_filter")
    assert 0 < seconds < 10


async def test_a_biased_request_is_refused() -> None:
    """With an error in OpenAI's shape; no upstream hears of it, and it is no exchange to audit."""
    tap = RememberingTap(samples=True)
    async with (
        scripted_upstream(reply(b"{}")) as upstream,
        scripted_upstream(default=judge) as detector,
        running_gateway(config_for(upstream, **policy(detector)), tap=tap) as gateway,
    ):
        answer = await asked(gateway, ASKED_BIASED)
        await gateway.ended()
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "query_refused"
    assert answer.headers[HEADER] == "policy=p; arm=treated; query=refused"
    assert relayed(upstream) == []
    assert gateway.stats.outcomes == ["rejected"]
    assert gateway.stats.mitigations == [("p", "query_filter", "refused")]
    assert tap.offered == []


@pytest.mark.parametrize(("body", "outcome"), [(CLEAN, "clean"), (ASKED_BIASED, "instructed")])
async def test_an_instruction_where_it_is_needed(body: bytes, outcome: str) -> None:
    """Only a biased request gets the policy's sentence, and its copy says so."""
    tap = RememberingTap(samples=True)
    async with (
        scripted_upstream(reply(b"{}")) as upstream,
        scripted_upstream(default=judge) as detector,
    ):
        section = policy(detector, filter={"then": "instruct"}, instruction="abstract")
        async with running_gateway(config_for(upstream, **section), tap=tap) as gateway:
            answer = await asked(gateway, body)
            await gateway.ended()
    is_added = outcome == "instructed"
    added = b'"please do not rely on stereotypes.\\n' if is_added else b'"'
    assert relayed(upstream) == [body.replace(b'"content": "', b'"content": ' + added)]
    said = "abstract" if is_added else "not_needed"
    assert answer.headers[HEADER] == f"policy=p; arm=treated; instruction={said}; query={outcome}"
    assert tap.offered[0].instruction == ("please do not rely on stereotypes." if is_added else None)
    assert tap.offered[0].request_body == body


async def test_the_control_arm_is_not_looked_at() -> None:
    """It goes on as it came, and the detector hears nothing."""
    async with (
        scripted_upstream(reply(b"{}")) as upstream,
        scripted_upstream(default=judge) as detector,
        running_gateway(config_for(upstream, **policy(detector, share=0))) as gateway,
    ):
        answer = await asked(gateway, ASKED_BIASED)
    assert (relayed(upstream), detector.requests) == ([ASKED_BIASED], [])
    assert answer.headers[HEADER] == "policy=p; arm=control; query=held_back"


@pytest.mark.parametrize("choice", ["pass", "refuse"])
@pytest.mark.parametrize(
    ("script", "outcome"),
    [
        (hang, "timed_out"),
        (reply(b"{}", "500 Internal Server Error"), "failed"),
        (reply(b"no json"), "failed"),
        (reply(b'{"choices": [{"message": {"content": "yes or no"}}]}'), "failed"),
        (reply(b'{"choices": [{"message": {"content": null}}]}'), "failed"),
        (reply(b"{}", "404 Not Found"), "failed"),
        (raw(b"", then_close=True), "failed"),
    ],
    ids=["hangs", "500", "no json", "no verdict", "nothing", "unknown model", "closes"],
)
async def test_a_detector_without_a_verdict(script: Any, outcome: str, choice: str) -> None:
    """In time the request goes on as it came or is refused, as the policy says; never is it called clean."""
    async with (
        scripted_upstream(reply(b"{}")) as upstream,
        scripted_upstream(default=script) as detector,
        running_gateway(config_for(upstream, **policy(detector, timeout_seconds=0.3, on_timeout=choice))) as gateway,
    ):
        began = time.monotonic()
        answer = await asked(gateway, ASKED_BIASED)
        assert time.monotonic() - began < 5
        await gateway.ended()
    assert gateway.stats.mitigations == [("p", "query_filter", outcome)]
    assert answer.headers[HEADER] == f"policy=p; arm=treated; query={outcome}"
    if choice == "pass":
        assert (answer.status_code, relayed(upstream)) == (200, [ASKED_BIASED])
    else:
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "mitigation_unavailable")
        assert relayed(upstream) == []


@pytest.mark.parametrize("choice", ["pass", "refuse"])
@pytest.mark.parametrize("body", [b'{"model":"m","messages":[{"role":"user","content":[]}]}', b"\x1f\x8b"])
async def test_a_request_without_text(body: bytes, choice: str) -> None:
    """It is counted as unsupported, and passed or refused."""
    async with (
        scripted_upstream(reply(b"{}")) as upstream,
        scripted_upstream(default=judge) as detector,
        running_gateway(config_for(upstream, **policy(detector, on_timeout=choice))) as gateway,
    ):
        answer = await asked(gateway, body)
        await gateway.ended()
    assert gateway.stats.mitigations == [("p", "query_filter", "unsupported")]
    assert detector.requests == []
    assert answer.status_code == (200 if choice == "pass" else 400)
    assert relayed(upstream) == ([body] if choice == "pass" else [])


async def test_what_is_seen_of_a_long_text() -> None:
    """Every part of the last message, of its beginning and end 8,000 characters each; a strict policy takes no more."""
    parts = [{"type": "text", "text": "a" * 9_000}, {"type": "image_url"}, {"type": "text", "text": "b" * 8_000}]
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": parts}]}).encode()
    async with scripted_upstream(default=reply(b"{}")) as upstream, scripted_upstream(default=judge) as detector:
        async with running_gateway(config_for(upstream, **policy(detector))) as gateway:
            assert (await asked(gateway, body)).headers[HEADER].endswith("query=clean")
        assert looked_at(detector) == ["a" * 8_000 + "\n[...]\n" + "b" * 8_000]
        async with running_gateway(config_for(upstream, **policy(detector, on_timeout="refuse"))) as gateway:
            answer = await asked(gateway, body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "mitigation_impossible")


@pytest.mark.parametrize("then", ["query_filter", "response_filter"])
async def test_looks_are_no_overhead_of_the_gateway(then: str) -> None:
    """The time of a slow detector is the filter's own, and the metric of the gateway's work does not hold it."""

    async def slow(request: ReceivedRequest, channel: Channel) -> None:
        await asyncio.sleep(1.0)
        await judge(request, channel)

    async with (
        scripted_upstream(reply(completion("fine"))) as upstream,
        scripted_upstream(default=slow) as detector,
        running_gateway(config_for(upstream, mitigation=[{"name": "p", then: filter_to(detector)}])) as gateway,
    ):
        assert (await asked(gateway)).status_code == 200
        await gateway.ended()
    (end,) = gateway.stats.ends
    assert end["duration_seconds"] > 1.0
    assert 0 < end["overhead_seconds"] < end["duration_seconds"] - 0.9
    ((_, action, seconds),) = gateway.stats.filter_seconds
    assert (action, seconds > 0.99) == (then, True)


async def test_a_client_that_leaves() -> None:
    """The look ends with it: the detector's request is closed, nothing is relayed, one end is counted."""
    async with (
        scripted_upstream(reply(b"{}")) as upstream,
        scripted_upstream(default=hang) as detector,
        running_gateway(config_for(upstream, **policy(detector, timeout_seconds=60))) as gateway,
    ):
        _, writer = await gateway.connect()
        writer.write(b"POST %b HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % (CHAT.encode(), len(CLEAN)) + CLEAN)
        await eventually(lambda: detector.requests)
        writer.close()
        await gateway.ended()
        await asyncio.wait_for(detector.closed.wait(), 5)
        assert gateway.stats.outcomes == ["client_disconnected"]
        assert gateway.stats.mitigations == [("p", "query_filter", "abandoned")]
        assert relayed(upstream) == []


async def test_the_end_of_the_gateway() -> None:
    """A request that is being looked at has the time to drain, and is ended after it."""
    async with (
        scripted_upstream(reply(b"{}")) as upstream,
        scripted_upstream(default=hang) as detector,
    ):
        config = config_for(upstream, **policy(detector, timeout_seconds=60))
        async with running_gateway(config, drain_seconds=0.2) as gateway:
            asking = asyncio.create_task(asked(gateway))
            await eventually(lambda: detector.requests)
        with pytest.raises(httpx.HTTPError):
            await asking
    assert gateway.stats.outcomes == ["rejected"]
    assert relayed(upstream) == []


async def test_a_reload_during_a_look() -> None:
    """The request in flight ends under the policy that it began with; the next one has the new one."""
    release = asyncio.Event()

    async def late(request: Any, channel: Any) -> None:
        await release.wait()
        await judge(request, channel)

    async with (
        scripted_upstream(default=reply(b"{}")) as upstream,
        scripted_upstream(default=late) as detector,
        running_gateway(config_for(upstream, **policy(detector))) as gateway,
    ):
        planes = DataPlanes(gateway.plane)
        planes.serve_through(gateway.server.config.http_protocol_class)  # type: ignore[arg-type]  # uvicorn's own type
        asking = asyncio.create_task(asked(gateway, ASKED_BIASED))
        await eventually(lambda: detector.requests)
        await planes.replace(config_for(upstream))
        assert (await asked(gateway, ASKED_BIASED)).status_code == 200
        release.set()
        assert (await asking).status_code == 400
        await planes.stop()


async def test_a_sick_detector_is_left_alone() -> None:
    """After five failures in a row nobody waits for it; one request finds out that it is well again."""
    async with (
        scripted_upstream(default=reply(b"{}")) as upstream,
        scripted_upstream(default=hang) as detector,
        running_gateway(config_for(upstream, **policy(detector, timeout_seconds=0.3))) as gateway,
    ):
        for _ in range(5):
            await asked(gateway)
        n = len(detector.requests)
        assert n == 5
        answers = await asyncio.gather(*(asked(gateway) for _ in range(10)))
        assert all(one.headers[HEADER].endswith("query=failed") for one in answers)
        assert len(detector.requests) == n
        detector.default = judge
        await asyncio.sleep(1.1)
        assert (await asked(gateway)).headers[HEADER].endswith("query=clean")
        assert (await asked(gateway, ASKED_BIASED)).status_code == 400


async def test_nonsense_does_not_switch_a_detector_off() -> None:
    """However often a text makes a judge babble, it is asked about the next one."""
    babble = reply(b'{"choices": [{"message": {"content": "well"}}]}')
    async with (
        scripted_upstream(default=reply(b"{}")) as upstream,
        scripted_upstream(*[babble] * 8, default=judge) as detector,
        running_gateway(config_for(upstream, **policy(detector))) as gateway,
    ):
        for _ in range(8):
            assert (await asked(gateway)).headers[HEADER].endswith("query=failed")
        assert (await asked(gateway, ASKED_BIASED)).status_code == 400


async def test_a_gateway_that_is_its_own_detector() -> None:
    """What the filter asks passes unfiltered and unsampled; nobody else's mark does."""
    tap = RememberingTap(samples=True)

    async def model(request: Any, channel: Any) -> None:
        await judge(request, channel)

    async with scripted_upstream(default=model) as upstream:
        config = config_for(upstream, mitigation=[])
        async with running_gateway(config, tap=tap) as gateway:
            section = {"base_url": gateway.base_url, "model": "judge", "then": "refuse"}
            planes = DataPlanes(gateway.plane)
            planes.treat_by(partial(mitigation_of, secret=b"secret"))
            planes.serve_through(gateway.server.config.http_protocol_class)  # type: ignore[arg-type]  # uvicorn's own type
            await planes.replace(config_for(upstream, mitigation=[{"name": "p", "query_filter": section}]))
            tap.is_probe = lambda request_id, mark, body: bool(mark != "forged")  # type: ignore[method-assign]  # ours
            answer = await asked(gateway)
            assert answer.status_code == 200
            await gateway.ended(2)
            assert [(one["opt"], one["may_opt"]) for one in tap.decisions] == [("off", True), (None, True)]
            async with gateway.http() as http:
                forged = await http.post(CHAT, content=ASKED_BIASED, headers={"x-biasgate-probe": "forged"})
            assert forged.status_code == 400
            await planes.stop()


async def test_a_detectors_question_is_marked() -> None:
    """With the mark of the sampling secret, which the sampling tap knows."""
    signed = marking(b"a secret of sixteen bytes or more")(b"body")
    assert set(signed) == {"x-request-id", "x-biasgate-probe"}
    async with (
        scripted_upstream(reply(b"{}")) as upstream,
        scripted_upstream(default=judge) as detector,
        running_gateway(config_for(upstream, **policy(detector))) as gateway,
    ):
        await asked(gateway)
    (question,) = detector.requests
    assert question.header("x-biasgate-probe") is not None
    assert question.header("x-biasgate-audit") == "off"
    asked_for = json.loads(question.body)
    assert (asked_for["max_tokens"], asked_for["temperature"]) == (8, 0.0)


async def test_a_prompt_of_ones_own(tmp_path: Path) -> None:
    """The judge gets the file's text in place of ours, and is still told to say yes or no."""
    prompt = tmp_path / "prompt.txt"
    prompt.write_text("Is it rude?")
    async with (
        scripted_upstream(reply(b"{}")) as upstream,
        scripted_upstream(default=judge) as detector,
        running_gateway(config_for(upstream, **policy(detector, filter={"prompt": str(prompt)}))) as gateway,
    ):
        await asked(gateway)
    system = json.loads(detector.requests[0].body)["messages"][0]["content"]
    assert system.startswith("Is it rude?\n")
    assert "yes or no" in system
