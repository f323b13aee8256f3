"""Who answers the auditors: the right upstream, at audit priority, counted and within a budget."""

import asyncio
import contextlib
from collections import Counter
from typing import Any

import msgspec
import pytest

from auditors.clients.embedders import EmbedderError
from auditors.clients.judge_client import JudgeClient, JudgeQuestion
from auditors.judge_verdict import parse_verdict
from auditors.types import Completer, CompletionError, CompletionRequest, DecisionRequest, Message
from gateway.auditor.backpressure.limiter import ConcurrencyLimiters
from gateway.auditor.clients import AuditorClients, Counted, upstream_serving
from gateway.auditor.enabled import EnabledAuditors
from gateway.config.loading import validate
from gateway.config.schema import AuditsConfig, Config
from gateway.errors import ConfigError
from gateway.sampling.decision import PROBE_HEADER, is_probe
from tests.support.auditors.scripted import Asked, Reply, chat, scripted_server
from tests.support.processes import free_port
from tests.support.store.made import exchange

SECRET = b"0123456789abcdef"
QUESTION = CompletionRequest(model="m", messages=[Message("user", "Hello?")], max_tokens=5)


def config_for(*upstreams: dict[str, Any], **sections: Any) -> Config:
    """A configuration with these upstreams."""
    return validate({"upstreams": list(upstreams), **sections})


def judge_of(
    config: Config, limiters: ConcurrencyLimiters | None = None, counted: Counted | None = None
) -> AuditorClients:
    """The clients of the judge, which are not held back unless limiters say so."""
    none = ConcurrencyLimiters(AuditsConfig(adaptive_concurrency=False))
    counted = Counter() if counted is None else counted
    return AuditorClients(config, config.auditors.judge, limiters or none, name="judge", secret=SECRET, counted=counted)


async def judged(completer: Completer) -> object:
    """What a judge behind a completer says, if anything."""
    asked = JudgeQuestion(messages=QUESTION.messages, prompt_sha256="")
    return (await JudgeClient(completer, "m").ask(lambda: asked, parse_verdict)).value


def roster_of(config: Config) -> EnabledAuditors:
    """Every auditor of a configuration."""
    return EnabledAuditors(config, ConcurrencyLimiters(config.audits), SECRET)


async def test_outside_model_is_asked_without_a_priority(monkeypatch: pytest.MonkeyPatch) -> None:
    """A judge at another provider gets its own key and no vLLM field."""
    monkeypatch.setenv("JUDGE_KEY", "k")
    async with scripted_server(lambda _: chat("a")) as outside:
        judge = {"base_url": outside.base_url, "api_key_env": "JUDGE_KEY", "model": "j"}
        config = config_for(auditors={"judge": judge})
        clients = judge_of(config)
        assert clients.outside is not None
        await clients.outside.complete(QUESTION)
        await clients.aclose()
    assert outside.asked[0].headers["authorization"] == "Bearer k"
    assert "priority" not in outside.asked[0].json


async def test_every_question_is_marked() -> None:
    """Each attempt, at an upstream or at an outside model, has an id of its own, and the mark of both id and body."""
    replies = iter([Reply(b"{}", status=503), chat("a"), chat("b")])
    async with scripted_server(lambda _: next(replies)) as server:
        sections = {"judge": {"base_url": server.base_url, "model": "j"}}
        clients = judge_of(config_for({"name": "one", "base_url": server.base_url}, auditors=sections))
        assert clients.outside is not None
        await clients.outside.complete(QUESTION)
        await clients.of_exchange(exchange(upstream="one")).complete(QUESTION)
        await clients.aclose()
    asked = [one for one in server.asked if one.path == "/v1/chat/completions"]
    ids = [one.headers["x-request-id"] for one in asked]
    assert len(set(ids)) == len(asked) == 3
    assert all(is_probe(SECRET, one.headers["x-request-id"], one.headers[PROBE_HEADER], one.body) for one in asked)


VERDICT = chat('{"refused": false, "findings": []}')


@pytest.mark.parametrize(
    ("replies", "counted"),
    [
        ([VERDICT], {"ok": 1}),
        ([chat("?"), VERDICT], {"malformed": 1, "ok": 1}),
        ([chat("?")] * 3, {"malformed": 3}),
        ([chat(None, refusal="No."), chat("I'm sorry, but I can't help with that."), VERDICT], {"refused": 2, "ok": 1}),
        ([Reply(b"no JSON")], {"malformed": 1}),
        ([Reply(b"{}", status=400)], {"rejected": 1}),
        ([Reply(b"{}", status=401)], {"rejected": 1}),
        ([Reply(b"{}", status=500)] * 3, {"error": 1}),
        ([VERDICT._replace(delay=3.0)], {"timeout": 1}),
    ],
    ids=["ok", "mended", "malformed", "refused", "no completion", "rejected", "wrong key", "down", "timeout"],
)
async def test_each_request_to_a_judge_is_counted_once(replies: list[Reply], counted: dict[str, int]) -> None:
    """By what came of it, whatever the judgement is in the end; retries of one request are one."""
    increments, script = Counter[Any](), iter(replies)
    async with scripted_server(lambda _: next(script)) as one:
        config = config_for({"name": "one", "base_url": one.base_url}, auditors={"judge": {"timeout_seconds": 1.0}})
        clients = judge_of(config, counted=increments)
        with contextlib.suppress(CompletionError):
            await judged(clients.of_exchange(exchange(upstream="one")))
        with pytest.raises(CompletionError, match='"gone" is no longer configured'):  # nothing is even asked
            await judged(clients.of_exchange(exchange(upstream="gone")))
        await clients.aclose()
    assert increments == {("judge_requests", (outcome,)): n for outcome, n in counted.items()}


@pytest.mark.parametrize(
    ("usage", "counted"),
    [
        ({"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}, {"input": 7, "output": 3}),
        ({"prompt_tokens": 7, "total_tokens": 7}, {"input": 7}),
        ({"input_tokens": 7, "output_tokens": 3, "input_tokens_details": {}}, {"input": 7, "output": 3}),
        ({"prompt_tokens": -7, "completion_tokens": "3"}, {}),
        (None, {}),
    ],
)
@pytest.mark.parametrize("kind", ["completion", "decision"])
async def test_tokens_are_counted_as_servers_say(kind: str, usage: Any, counted: dict[str, int]) -> None:
    """Of completions and decisions, by direction; what no server has counted is not shown as spent."""
    body = msgspec.json.decode(chat("a").body) | ({} if usage is None else {"usage": usage})
    increments = Counter[Any]()
    async with scripted_server(lambda _: Reply(msgspec.json.encode(body))) as one:
        clients = judge_of(config_for({"name": "one", "base_url": one.base_url}), counted=increments)
        if kind == "completion":
            await clients.of_exchange(exchange(upstream="one")).complete(QUESTION)
        else:
            decision = DecisionRequest(path="/v1/chat/completions", body={})
            await clients.decider_of_exchange(exchange(upstream="one")).decide(decision)
        await clients.aclose()
    assert increments == {("audit_tokens", ("judge", direction)): n for direction, n in counted.items()}


def models(_: Asked) -> Reply:
    """A model list as vLLM gives it."""
    return Reply(msgspec.json.encode({"object": "list", "data": [{"id": "served", "object": "model"}]}))


async def test_run_goes_to_the_upstream_that_serves_its_model() -> None:
    """Configured names are trusted, wildcards are asked; when nobody serves a model, who was down is named."""
    down = f"http://127.0.0.1:{free_port()}"
    async with scripted_server(models) as server:
        config = config_for(
            {"name": "down", "base_url": down},
            {"name": "named", "base_url": down, "models": ["fixed"]},
            {"name": "asked", "base_url": server.base_url},
        )
        assert (await upstream_serving(config, "fixed")).name == "named"
        assert (await upstream_serving(config, "served")).name == "asked"
        with pytest.raises(ConfigError, match=f'no upstream serves the model "absent" .*{down[7:]}'):
            await upstream_serving(config, "absent")


@pytest.mark.parametrize(
    ("embedder", "message"),
    [
        ({}, "model is not: name the embedding model"),
        (
            {"model": "m", "backend": "openvino"},
            'backend is "openvino", but the embedder is served at base_url: leave out',
        ),
    ],
    ids=["no model", "a backend"],
)
def test_a_served_embedder_has_a_model_and_no_backend(embedder: dict[str, str], message: str) -> None:
    """An address without a model, or with what computes an embedder of our own, is refused before anything starts."""
    with pytest.raises(ConfigError, match=message):
        roster_of(config_for(auditors={"embedding": {"base_url": "http://127.0.0.1:9"} | embedder}))


async def test_embedder_that_cannot_be_had_stops_only_its_auditor(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A missing embedder is logged and raised to its own audits; the judge is built all the same."""
    monkeypatch.setattr("auditors.clients.embedder_packages.MINILM_PACKAGE", "a_package_that_is_not_there")
    enabled_auditors = roster_of(config_for())
    enabled_auditors.start()
    for _ in range(2):
        with pytest.raises(EmbedderError, match="pip install"):
            await enabled_auditors.get("embedding")
    assert (await enabled_auditors.get("judge")).name == "judge"
    await enabled_auditors.close()
    assert caplog.text.count("the embedding auditor cannot work") == 1


async def test_a_timeout_is_charged_as_if_all_was_written() -> None:
    """A reply that came too late has cost its tokens all the same: the next request waits."""
    async with scripted_server(lambda _: chat("a")._replace(delay=3.0)) as one:
        config = config_for(
            {"name": "one", "base_url": one.base_url},
            auditors={"judge": {"timeout_seconds": 1.0, "token_budget_per_minute": 5}},
        )
        clients = judge_of(config)
        with pytest.raises(CompletionError, match="no reply within"):
            await clients.of_exchange(exchange(upstream="one")).complete(QUESTION)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await clients.of_exchange(exchange(upstream="one")).complete(QUESTION)
        await clients.aclose()
    assert len(one.asked) == 1


async def test_what_was_never_sent_is_not_counted() -> None:
    """A question that is cancelled while it is held back is no timeout of the judge and costs no tokens."""
    load = b"vllm:num_requests_running 4\nvllm:num_requests_waiting 3\n"
    async with scripted_server(lambda _: Reply(load)) as one:
        config = config_for({"name": "one", "base_url": one.base_url})
        limiters = ConcurrencyLimiters(config.audits)
        counted: Counted = Counter()
        clients = judge_of(config, limiters, counted)
        about = exchange(upstream="one")
        asking = asyncio.create_task(judged(clients.of_exchange(about)))
        while not one.asked or clients.held_seconds(about) < 0.1:  # noqa: ASYNC110 - the clock of another object
            await asyncio.sleep(0.01)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        await clients.aclose()
        await limiters.aclose()
    assert counted == {}
    assert {asked.path for asked in one.asked} == {"/metrics"}
