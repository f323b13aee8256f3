"""Models that think before they answer, against a real vLLM: what was planted is found, thinking or not.

The tiny model's thoughts refuse and name the other choice, so a reader of thoughts inverts the planted odds. Its chat
template opens the thoughts, as Qwen3's does. One server parses them; the other leaves them in the text.
"""

import asyncio
import contextlib
import json
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import msgspec
import pytest

from auditors.clients.completion import HttpCompleter
from auditors.clients.thinking_switch import ThinkingSwitch
from auditors.judge import METRIC
from auditors.judge_verdict import Verdict, VerdictError, parse_verdict
from auditors.text.identity import groups_mentioned
from auditors.text.thinking import parse_thinking
from auditors.types import Completion, CompletionError, CompletionRequest
from benchmarks.run.plan import Plan
from benchmarks.run.runner import RunOptions, prepare
from benchmarks.suites.protocol import Item, Parsed
from tests.support.processes import free_port
from tests.support.vllm.wire import Recorder, recording
from tests.vllm.conftest import MODEL, ROOT, TINY_MODELS, VLLM_ENVIRON, serving
from tests.vllm.test_audits import eventually, get_json, samples

ITEMS = 2
CUT_AFTER = 4
"""Tokens of a thought, the line break after its opening mark among them, that end where CUT does."""
CUT = "I cannot help"
PLANTED = {"off": 0.2, "on": 0.8, f"budget={CUT_AFTER}": 0.5, "budget=40": 0.8}
"""Probability of the stereotyped choice by how much the model thinks; 40 tokens are more than a thought has."""
WITHIN = 0.07
"""How near the planted odds the model is taught."""
TOLERANCE = 0.24
"""WITHIN, and 3.7 standard errors of N samples an item."""
N = 60
MOST_NONSENSE = 0.25
"""Share of replies that were not taught: more than WITHIN of each, as the model was taught them."""


EXCHANGES = 6
"""Live ones that are judged."""


class Servers(NamedTuple):
    parsing: str
    """Base URL of one that tells thoughts apart and can limit them."""
    plain: str
    """Base URL of one that leaves them in the text."""


def exam() -> Plan:
    """Items of two choices, whose answers are of two tokens, with the thoughts left out."""
    return prepare(RunOptions(suite="crows_pairs", model=MODEL, data="embedded", protocol="paper", limit=ITEMS))


def lessons(plan: Plan) -> list[dict[str, Any]]:
    """What is taught of each item: thinking as long as it likes, cut off, and not at all."""
    found = []
    for item in plan.items:
        asked = {"messages": msgspec.to_builtins(item.messages)}
        one, other = (f"Choice{1 + place}" for place in _stereotyped_first(item))
        at_length = PLANTED["on"]
        found += [
            {**asked, "replies": {thought(other, one): at_length, thought(one, other): 1 - at_length}},
            {**asked, "begun": f"{CUT}</think>", "replies": _odds(one, other, PLANTED[f"budget={CUT_AFTER}"])},
            {**asked, "template": {"enable_thinking": False}, "replies": _odds(one, other, PLANTED["off"])},
        ]
    return found


def thought(named: str, chosen: str) -> str:
    """A reply that thinks of one choice, and chooses another."""
    return f"{CUT} with that request. {named} is the only answer that I can see here.\n</think>\n\n{chosen}"


def _stereotyped_first(item: Item) -> tuple[int, int]:
    place = [choice.role for choice in item.choices].index("stereotype")
    return place, 1 - place


def _odds(one: str, other: str, p: float) -> Mapping[str, float]:
    return {one: p, other: 1 - p}


@pytest.fixture(scope="module")
def thinker_dir(vllm_env: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that was taught to think, and never saw a text in which thinking helps."""
    built, taught = tmp_path_factory.mktemp("thinker"), tmp_path_factory.mktemp("taught-thinker")
    taught_lessons = lessons(exam())
    words = [message["content"] for lesson in taught_lessons for message in lesson["messages"]]
    words += [reply for lesson in taught_lessons for reply in lesson["replies"]]
    corpus = built / "corpus.txt"
    corpus.write_text("\n".join(words * 3))  # long prompts of few tokens are soon learned
    python, environ = str(vllm_env / "bin/python"), {**os.environ, **VLLM_ENVIRON}
    texts = [TINY_MODELS / "corpus.txt", corpus, ROOT / "LICENSE"]
    build = [python, *map(str, [TINY_MODELS / "build_model.py", built, *texts]), "--thinking"]
    subprocess.run(build, check=True, capture_output=True, env=environ)
    teach = [python, *map(str, [TINY_MODELS / "teach_model.py", "teach", built, taught, WITHIN])]
    given = "".join(json.dumps(lesson) + "\n" for lesson in taught_lessons)
    subprocess.run(teach, input=given, check=True, capture_output=True, text=True, env=environ)
    return taught


@pytest.fixture(scope="module")
def servers(vllm_env: Path, thinker_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """Both at once: they start in parallel."""
    logs = tmp_path_factory.mktemp("vllm-thinker")
    no_blanks = '{"backend": "xgrammar", "disable_any_whitespace": true}'
    both = ["--dtype", "float32", "--structured-outputs-config", no_blanks]
    with contextlib.ExitStack() as stack, ThreadPoolExecutor() as pool:
        options = {"parsing": ("--reasoning-parser", "qwen3"), "plain": ()}
        started = [
            pool.submit(stack.enter_context, serving(vllm_env, thinker_dir, logs / name, *both, *more))
            for name, more in options.items()
        ]
        yield Servers(*(one.result() for one in started))


async def taught_replies(url: str, thinking: str, plan: Plan) -> list[tuple[Parsed, Completion]]:
    """Return n unseeded replies per item as the suite reads them, and check that all but a few are choices."""
    completer = HttpCompleter(url, max_concurrency=32)
    switch = ThinkingSwitch(parse_thinking(thinking))
    sampling = plan.suite.sampling("paper")

    async def one(item: Item) -> tuple[Parsed, Completion] | None:
        request = CompletionRequest(
            model=MODEL, messages=item.messages, max_tokens=sampling.max_tokens, temperature=1.0, top_p=sampling.top_p
        )
        try:
            completion = await switch.ask(completer.complete, request)
        except CompletionError as exc:
            if exc.kind != "thinking_exhausted":
                raise
            return None
        parsed = plan.suite.parse(item, completion.text, protocol="paper")
        return (parsed, completion) if parsed.status == "ok" else None

    try:
        found = await asyncio.gather(*(one(item) for item in plan.items for _ in range(N)))
    finally:
        await completer.aclose()
    read = [reply for reply in found if reply is not None]
    assert len(read) >= (1 - MOST_NONSENSE) * len(found)
    return read


def stereotyped_share(read: Sequence[tuple[Parsed, Completion]]) -> float:
    return [parsed.value for parsed, _ in read].count("stereotype") / len(read)


def nearly_all(read: Sequence[tuple[Parsed, Completion]], holds: Callable[[Completion], bool]) -> bool:
    """Whether it holds of as many replies as were taught: a sampled one may be odd."""
    return sum(holds(completion) for _, completion in read) >= (1 - MOST_NONSENSE) * len(read)


@pytest.mark.parametrize("thinking", PLANTED)
async def test_planted_odds_are_found_beside_thoughts(thinking: str, servers: Servers) -> None:
    """A parser separates thoughts from the answer, whose odds are found with, without and after cut thoughts."""
    found = await taught_replies(servers.parsing, thinking, exam())
    assert stereotyped_share(found) == pytest.approx(PLANTED[thinking], abs=TOLERANCE)
    assert nearly_all(found, lambda one: one.reasoning_field == (None if thinking == "off" else "reasoning"))
    assert nearly_all(found, lambda one: CUT in (one.reasoning or CUT))


@pytest.mark.parametrize("thinking", ["off", "on", "budget=40"])
async def test_planted_odds_are_found_without_a_parser(thinking: str, servers: Servers) -> None:
    """Thoughts left in the text are not part of the answer; a server without limits refuses a budget and gets room."""
    found = await taught_replies(servers.plain, thinking, exam())
    assert stereotyped_share(found) == pytest.approx(PLANTED[thinking], abs=TOLERANCE)
    assert nearly_all(found, lambda one: one.reasoning_field == (None if thinking == "off" else "begun"))


@pytest.mark.parametrize("server", ["parsing", "plain"])
def test_live_exchanges_are_judged_by_their_answers(
    server: str, servers: Servers, start_gateway: Callable[..., str]
) -> None:
    """A thinking model judges itself by answers without thoughts, and only its verdicts are counted."""
    with recording(getattr(servers, server)) as recorder:
        gateway, page = live(recorder, start_gateway)
        replies = [ask(gateway, 200) for _ in range(EXCHANGES)]
        eventually(lambda: get_json(f"{gateway}/live/ledger")["outcomes"] == {"audited": EXCHANGES})
        eventually(lambda: samples(page, "biasgate_judge_requests_total", outcome="ok") == [EXCHANGES])
        found = get_json(f"{gateway}/live/estimates?auditor=judge")
        judged = judgements(recorder)

    assert all(CUT in (reply["reasoning"] or reply["content"]) for reply in replies)
    assert all(request["chat_template_kwargs"]["enable_thinking"] is False for request, _ in judged)
    assert all("Choice" in shown(request) and CUT not in shown(request) for request, _ in judged)
    assert all(said["reasoning"] is None for _, said in judged)
    verdicts = [verdict for _, said in judged if (verdict := read(said["content"])) is not None]
    assert len(verdicts) == EXCHANGES
    counted = [verdict for verdict in verdicts if not verdict.refused]
    places = groups_mentioned(exam().items[0].messages[-1].content)
    assert places
    for axis, group in places:
        [stream] = [one for one in found if (one["metric"], one["axis"], one["group"]) == (METRIC, axis, group)]
        scores = [sum(one.score for one in verdict.findings if one.group == group) for verdict in counted]
        assert (stream["n"], stream["excluded"].get("refusal", 0)) == (len(scores), EXCHANGES - len(scores))
        assert stream["value"] == (pytest.approx(sum(scores) / len(scores)) if scores else None)


def test_a_live_reply_that_ended_within_its_thoughts_is_counted(
    servers: Servers, start_gateway: Callable[..., str]
) -> None:
    """It has a reason of its own, and no judge is asked about it."""
    with recording(servers.parsing) as recorder:
        gateway, page = live(recorder, start_gateway)
        said = ask(gateway, CUT_AFTER)
        counted = {"auditor": "judge", "outcome": "not_auditable", "reason": "thinking_exhausted"}
        eventually(lambda: samples(page, "biasgate_exchanges_total", **counted) == [1])
        judged = judgements(recorder)
        found = get_json(f"{gateway}/live/estimates?auditor=judge")
    assert said["reasoning"]
    assert not said["content"]
    assert not judged
    assert not found


def live(recorder: Recorder, start_gateway: Callable[..., str]) -> tuple[str, str]:
    """A gateway whose auditors have no setting, all traffic sampled, and the auditor's page of metrics."""
    port = free_port()
    toml = f"""
        [server]
        auditor_metrics_port = {port}
        [[upstreams]]
        name = "cpu"
        base_url = "{recorder.origin}"
        [sampling]
        rate = 1.0
        [auditors.embedding]
        enabled = false  # needs a model of its own
    """
    return start_gateway("serve", toml), f"http://127.0.0.1:{port}/metrics"


def ask(gateway: str, max_tokens: int) -> dict[str, Any]:
    """What the model says to an item, asked by an app that knows nothing of thinking."""
    asked = {"model": MODEL, "messages": msgspec.to_builtins(exam().items[0].messages), "max_tokens": max_tokens}
    asked["temperature"] = 0.0  # a sampled reply may be odd
    answer = httpx.post(f"{gateway}/v1/chat/completions", json=asked, timeout=120)
    said: dict[str, Any] = answer.raise_for_status().json()["choices"][0]["message"]
    return said


def judgements(recorder: Recorder) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Requests to the judge that reached vLLM, and what it said to each."""
    passed = [
        found for tape in list(recorder.tapes) for found in tape.exchanges() if b"response_format" in found[0].body
    ]
    return [(request.json(), json.loads(reply.body)["choices"][0]["message"]) for request, reply in passed]


def shown(request: Mapping[str, Any]) -> str:
    """The answer that the judge sees."""
    return str(request["messages"][-1]["content"]).split("[ANSWER ")[1]


def read(content: str | None) -> Verdict | None:
    try:
        return parse_verdict(content)
    except VerdictError:
        return None
