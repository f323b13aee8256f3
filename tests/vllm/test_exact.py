"""Mode exact against a real vLLM: what it reads is what sampling gives, and what the model itself says."""

import json
import os
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from auditors.metrics.intervals import wilson_interval
from benchmarks.run.client import open_client
from benchmarks.run.exact.server import probe
from benchmarks.run.plan import Plan
from benchmarks.run.runner import RunOptions, ask, prepare
from benchmarks.suites.common.accepted_answers import OPEN, Reading
from benchmarks.suites.protocol import UNRELATED, UNRESOLVED, Item, ProtocolName, Reply, Sampling
from tests.support.benchmarks.scripted import MemoryLog
from tests.vllm.conftest import TINY_MODELS, VLLM_ENVIRON, serving

TAUGHT = "taught"
ITEMS = 4
SAMPLES = 150
LISTED = ("stereoset", "winobias")
"""Their replies are of three tokens at most, few enough to list, and the model learns enough of them."""
SUITES = (*LISTED, "unqover", "crows_pairs", "bbq")
TOLERANCE = 0.02
"""Room for what the rules of `benchmarks.run.exact.measuring` leave out: other splits of a text, answers after a
lead. vLLM and transformers differ by less than 0.001.
"""
CONFIDENCE = 0.9999


def exam(suite: str, protocol: ProtocolName, **options: Any) -> Plan:
    """The first items of a suite's own data; the same for every mode."""
    settings: dict[str, Any] = {
        "suite": suite,
        "model": TAUGHT,
        "data": "embedded",
        "protocol": protocol,
        "limit": ITEMS,
    }
    return prepare(RunOptions(**settings, **options))


def replies_to(item: Item) -> dict[str, int]:
    """What the model is taught: answers in several spellings, beginnings that end early, and no answers."""
    if not item.choices:
        return {"he": 4, "She": 3, "her.": 1, "they": 2, "he/she": 1, "herb": 1, "It is not clear": 2}
    first, second = item.choices[0].text, item.choices[1].text
    if "Choice1" in item.messages[-1].content:
        by_label = {"Choice1": 4, "Choice 2.": 3, f"Choice1: {first}": 1, "choice 3": 1, "Choice 1 or 2": 1}
        by_label |= {"1": 3, "2": 2}  # of three tokens, which is all that some protocols ask for
        return by_label | {first: 1, second.upper(): 1, "I cannot say": 1}
    if "Answer with the letter only" in item.messages[-1].content:
        return {"A": 4, "B.": 2, "(C)": 1, first: 1, "I cannot say": 1, "A or B": 1}
    return {first: 3, f"{second}.": 2, first.upper(): 1, "I cannot say": 2, f"{second} and {first}": 1}


def lessons(plans: list[Plan]) -> str:
    items = [item for plan in plans for item in plan.items]
    found = [{"messages": msgspec.to_builtins(item.messages), "replies": replies_to(item)} for item in items]
    return "".join(json.dumps(lesson) + "\n" for lesson in found)


def in_vllm_env(env: Path, *argv: object, given: str) -> str:
    command = [str(env / "bin/python"), str(TINY_MODELS / "teach_model.py"), *map(str, argv)]
    done = subprocess.run(
        command, input=given, check=True, capture_output=True, text=True, env={**os.environ, **VLLM_ENVIRON}
    )
    return done.stdout


@pytest.fixture(scope="module")
def taught_dir(vllm_env: Path, model_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("taught")
    given = lessons([exam(suite, protocol) for suite in SUITES for protocol in ("paper", "corrected")])
    in_vllm_env(vllm_env, "teach", model_dir, directory, given=given)
    return directory


@pytest.fixture(scope="module")
def taught_server(vllm_env: Path, taught_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    log = tmp_path_factory.mktemp("vllm-taught") / "log"
    with serving(vllm_env, taught_dir, log, "--dtype", "float32", "--served-model-name", TAUGHT) as url:
        yield url


async def answered(plan: Plan, url: str) -> list[Reply]:
    completer = open_client(url)
    try:
        return list((await ask(plan, completer=completer, log=MemoryLog())).values())
    finally:
        await completer.aclose()


def begun_labels(plan: Plan, item: Item, texts: Mapping[str | None, int]) -> dict[str, int]:
    """How many replies mode exact reads as each value: by their beginnings, so not what follows a settled answer."""
    reading = Reading(plan.suite, item, plan.options.protocol)
    found = Counter[str]()
    for text, n in texts.items():
        whole = text or ""
        begun = (reading.begun(whole[:end]) for end in range(1, len(whole) + 1))
        found[next((label for label in begun if label != OPEN), reading.finished(whole))] += n
    return found


def labels(plan: Plan, item: Item, texts: Mapping[str | None, float]) -> dict[str, float]:
    """Probability of each value, as the suite reads whole replies."""
    found: defaultdict[str, float] = defaultdict(float)
    for text, p in texts.items():
        parsed = plan.suite.parse(item, text, protocol=plan.options.protocol)
        found[str(parsed.value) if parsed.status == "ok" else UNRELATED] += p
    return found


@pytest.mark.parametrize("suite", LISTED)
async def test_agrees_with_the_model_itself(suite: str, vllm_env: Path, taught_dir: Path, taught_server: str) -> None:
    """Enumerating all replies of three tokens gives each value's probability as mode exact, within TOLERANCE."""
    plan = exam(suite, "paper", mode="exact")
    sampling = plan.suite.sampling("paper")
    limits = (sampling.max_tokens, sampling.top_k, sampling.top_p)
    lines = in_vllm_env(vllm_env, "answer", taught_dir, *limits, given=lessons([plan])).splitlines()
    replies = await answered(plan, taught_server)

    answered_share = 0.0
    for item, line, reply in zip(plan.items, lines, replies, strict=True):
        listed: defaultdict[str | None, float] = defaultdict(float)
        for text, p in json.loads(line):
            listed[text] += p
        not_followed = listed.pop(None, 0.0)
        true, found = labels(plan, item, listed), dict(reply.choice_probabilities or {})
        unresolved = found.pop(UNRESOLVED)
        assert sum(found.values()) + unresolved == pytest.approx(1)
        for label, p in found.items():
            assert true[label] - unresolved - TOLERANCE <= p <= true[label] + not_followed + TOLERANCE
            if label != UNRELATED:
                assert abs(p - true[label]) <= TOLERANCE + unresolved
                answered_share += p / ITEMS
    assert answered_share > 0.02


@pytest.mark.parametrize("suite", SUITES)
async def test_agrees_with_sampling(suite: str, taught_server: str) -> None:
    """The interval of the share of sampled replies that begin with a value meets what mode exact says."""
    exact, sample = exam(suite, "corrected", mode="exact"), exam(suite, "corrected", samples=SAMPLES)
    replies = await answered(sample, taught_server)
    n_answers = 0.0
    for item, reply in zip(exact.items, await answered(exact, taught_server), strict=True):
        own = [one for one in replies if one.item_id == item.item_id]
        drawn = begun_labels(sample, item, Counter(one.text for one in own))
        found = dict(reply.choice_probabilities or {})
        unresolved = found.pop(UNRESOLVED)
        for label, p in found.items():
            ends = wilson_interval(drawn[label], len(own), confidence_level=CONFIDENCE)
            assert ends is not None
            assert ends.lower - unresolved <= p <= ends.upper
            n_answers += drawn[label] if label != UNRELATED else 0
    assert n_answers > 0.01 * len(replies)  # the least that is taught, a tenth, is spread over several spellings


async def test_what_vllm_tells(taught_server: str) -> None:
    """This vLLM names 20 tokens, truncates as it is asked, and its end of turn is known by name."""
    completer = open_client(taught_server)
    try:
        server = await probe(completer, TAUGHT, Sampling(max_tokens=3, top_p=0.95, top_k=50))
    finally:
        await completer.aclose()
    assert (server.top, server.end, server.ignored) == (20, "<|im_end|>", frozenset())
