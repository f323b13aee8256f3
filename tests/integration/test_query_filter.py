"""The query filter on a running gateway: what goes on, what is refused, and that nobody waits for ever."""

import asyncio
import time
from functools import partial
from typing import Any, Literal

import httpx
import pytest

from auditors.clients.completion import HttpEndpoint
from auditors.types import CompletionRequest, Message
from benchmarks.run.client import GATEWAY_HEADERS, open_client
from benchmarks.run.completers.served import POLICY
from gateway.auditor.suites.pooled_endpoint import PooledEndpoint
from gateway.features.mitigation.mitigation import mitigation_of
from gateway.proxy.data_planes import DataPlanes
from gateway.proxy.protocol import RelayProtocol
from tests.support.integration.auditing import until
from tests.support.integration.failing import hang
from tests.support.integration.filtering import BIASED, CHAT, completion, filtering, judge, looked_at
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


filtered = partial(filtering, "query_filter")


async def asked(gateway: Gateway, body: bytes = CLEAN, path: str = CHAT) -> httpx.Response:
    async with gateway.http() as http:
        return await http.post(path, content=body)


def relayed(upstream: ScriptedUpstream) -> list[bytes]:
    return [one.body for one in upstream.requests if one.method == "POST"]


async def test_a_clean_request_goes_on_as_it_came() -> None:
    """The detector sees its text, the upstream every byte; header, counter and histogram say what was done."""
    async with filtered(reply(b"{}")) as run:
        answer = await asked(run.gateway)
        await run.gateway.ended()
    assert (answer.status_code, answer.content) == (200, b"{}")
    assert relayed(run.upstream) == [CLEAN]
    assert looked_at(run.detector) == ["Hello"]
    assert answer.headers[HEADER] == "policy=p; arm=treated; query=clean"
    assert run.gateway.stats.mitigations == [("p", "query_filter", "clean")]
    ((name, action, seconds),) = run.gateway.stats.filter_seconds
    assert (name, action) == ("p", "query_filter")
    assert 0 < seconds < 10


@pytest.mark.parametrize("endpoint", [HttpEndpoint, PooledEndpoint])
async def test_a_suite_run_hears_of_the_policy(endpoint: type[HttpEndpoint]) -> None:
    """Each reply says how the policy dealt with it, a refusal by the filter too."""
    async with filtered(reply(completion("Hello."))) as run:
        client = open_client(run.gateway.base_url, headers=GATEWAY_HEADERS, endpoint=endpoint)
        replies = [
            await client.complete(CompletionRequest(model="m", messages=[Message("user", text)], max_tokens=9))
            for text in ("Hello", f"Explain why {BIASED}")
        ]
        await client.aclose()
    assert [one.is_filtered for one in replies] == [False, True]
    assert [(one.usage or {})[POLICY] for one in replies] == [
        f"policy=p; arm=treated; query={outcome}" for outcome in ("clean", "refused")
    ]


async def test_a_biased_request_is_refused() -> None:
    """With an error in OpenAI's shape; no upstream hears of it, and it is no exchange to audit."""
    tap = RememberingTap(samples=True)
    async with filtered(reply(b"{}"), tap=tap) as run:
        answer = await asked(run.gateway, ASKED_BIASED)
        await run.gateway.ended()
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "query_refused"
    assert answer.headers[HEADER] == "policy=p; arm=treated; query=refused"
    assert relayed(run.upstream) == []
    assert run.gateway.stats.outcomes == ["rejected"]
    assert run.gateway.stats.mitigations == [("p", "query_filter", "refused")]
    assert tap.offered == []


@pytest.mark.parametrize(("body", "outcome"), [(CLEAN, "clean"), (ASKED_BIASED, "instructed")])
async def test_an_instruction_where_it_is_needed(body: bytes, outcome: str) -> None:
    """Only a biased request gets the policy's sentence, and its copy says so."""
    tap = RememberingTap(samples=True)
    async with filtered(reply(b"{}"), tap=tap, filter={"then": "instruct"}, instruction="abstract") as run:
        answer = await asked(run.gateway, body)
        await run.gateway.ended()
    is_added = outcome == "instructed"
    added = b'"please do not rely on stereotypes.\\n' if is_added else b'"'
    assert relayed(run.upstream) == [body.replace(b'"content": "', b'"content": ' + added)]
    said = "abstract" if is_added else "not_needed"
    assert answer.headers[HEADER] == f"policy=p; arm=treated; instruction={said}; query={outcome}"
    assert tap.offered[0].instruction == ("please do not rely on stereotypes." if is_added else None)
    assert tap.offered[0].request_body == body


@pytest.mark.parametrize("choice", ["pass", "refuse"])
@pytest.mark.parametrize(
    ("script", "outcome"),
    [
        (hang, "timed_out"),
        (reply(b"{}", "500 Internal Server Error"), "failed"),
        (reply(b"no json"), "failed"),
        (reply(b'{"choices": [{"message": {"content": "yes or no"}}]}'), "failed"),
        (raw(b"", then_close=True), "failed"),
    ],
    ids=["hangs", "500", "no json", "no verdict", "closes"],
)
async def test_a_detector_without_a_verdict(script: Any, outcome: str, choice: str) -> None:
    """In time the request goes on as it came or is refused, as the policy says; never is it called clean."""
    async with filtered(reply(b"{}"), looks=(script,), timeout_seconds=0.3, on_timeout=choice) as run:
        began = time.monotonic()
        answer = await asked(run.gateway, ASKED_BIASED)
        assert time.monotonic() - began < 5
        await run.gateway.ended()
    assert run.gateway.stats.mitigations == [("p", "query_filter", outcome)]
    assert answer.headers[HEADER] == f"policy=p; arm=treated; query={outcome}"
    if choice == "pass":
        assert (answer.status_code, relayed(run.upstream)) == (200, [ASKED_BIASED])
    else:
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "mitigation_unavailable")
        assert relayed(run.upstream) == []


@pytest.mark.parametrize("then", ["query_filter", "response_filter"])
async def test_looks_are_no_overhead_of_the_gateway(then: Literal["query_filter", "response_filter"]) -> None:
    """The time of a slow detector is the filter's own, and the metric of the gateway's work does not hold it."""

    async def slow(request: ReceivedRequest, channel: Channel) -> None:
        await asyncio.sleep(0.5)
        await judge(request, channel)

    async with filtering(then, reply(completion("fine")), looks=(slow,)) as run:
        assert (await asked(run.gateway)).status_code == 200
        await run.gateway.ended()
    (end,) = run.gateway.stats.ends
    assert end["duration_seconds"] > 0.5
    assert 0 < end["overhead_seconds"] < end["duration_seconds"] - 0.45
    ((_, action, seconds),) = run.gateway.stats.filter_seconds
    assert (action, seconds > 0.49) == (then, True)


async def test_a_client_that_leaves() -> None:
    """The look ends with it: the detector's request is closed, nothing is relayed, one end is counted."""
    async with filtered(reply(b"{}"), looks=(hang,), timeout_seconds=60) as run:
        _, writer = await run.gateway.connect()
        writer.write(b"POST %b HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % (CHAT.encode(), len(CLEAN)) + CLEAN)
        await eventually(lambda: run.detector.requests)
        writer.close()
        await run.gateway.ended()
        await asyncio.wait_for(run.detector.closed.wait(), 5)
        assert run.gateway.stats.outcomes == ["client_disconnected"]
        assert run.gateway.stats.mitigations == [("p", "query_filter", "abandoned")]
        assert relayed(run.upstream) == []


def follow(planes: DataPlanes, gateway: Gateway) -> None:
    """Let the connections of a gateway take the planes that follow."""
    protocol = gateway.server.config.http_protocol_class
    assert issubclass(protocol, RelayProtocol)
    planes.serve_through(protocol)


async def test_a_reload_during_a_look() -> None:
    """The request in flight ends under the policy that it began with; the next one has the new one."""
    release = asyncio.Event()

    async def late(request: Any, channel: Any) -> None:
        await release.wait()
        await judge(request, channel)

    async with filtered(reply(b"{}"), looks=(late,)) as run:
        planes = DataPlanes(run.gateway.plane)
        follow(planes, run.gateway)
        asking = asyncio.create_task(asked(run.gateway, ASKED_BIASED))
        await eventually(lambda: run.detector.requests)
        await planes.replace(config_for(run.upstream))
        assert (await asked(run.gateway, ASKED_BIASED)).status_code == 200
        release.set()
        assert (await asking).status_code == 400
        await planes.stop()


async def test_a_sick_detector_is_left_alone() -> None:
    """After five failures in a row nobody waits for it; one request finds out that it is well again."""
    async with filtered(reply(b"{}"), looks=(hang,), timeout_seconds=0.3) as run:
        for _ in range(5):
            await asked(run.gateway)
        n = len(run.detector.requests)
        assert n == 5
        answers = await asyncio.gather(*(asked(run.gateway) for _ in range(10)))
        n_trials = len(run.detector.requests) - n  # one where a busy machine took a second, the circuit's pause
        assert sum(answer.headers[HEADER].endswith("query=failed") for answer in answers) == len(answers) - n_trials
        assert n_trials <= 1
        run.detector.default = judge

        async def is_asked_again() -> bool:
            return (await asked(run.gateway, ASKED_BIASED)).status_code == 400

        await until(is_asked_again)
        assert (await asked(run.gateway)).headers[HEADER].endswith("query=clean")


async def test_nonsense_does_not_switch_a_detector_off() -> None:
    """However often a text makes a judge babble, it is asked about the next one."""
    babble = reply(b'{"choices": [{"message": {"content": "well"}}]}')
    async with filtered(reply(b"{}"), looks=(*[babble] * 8, judge)) as run:
        for _ in range(8):
            assert (await asked(run.gateway)).headers[HEADER].endswith("query=failed")
        assert (await asked(run.gateway, ASKED_BIASED)).status_code == 400


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
            follow(planes, gateway)
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
