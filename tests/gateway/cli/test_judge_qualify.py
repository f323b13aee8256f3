"""`biasgate judge qualify`: judges of every kind on the planted texts, and the warning of `audit run`."""

import functools
import json
import random
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from auditors.metrics.intervals import Agreement, Interval
from auditors.text.refusal_words import declines
from auditors.types import JudgeStamp
from benchmarks.run import directory
from benchmarks.run.qualifications import MINIMA, USES, Qualification, QuestionQualified, fault, judged_against
from benchmarks.simulator.openai_requests import ChatRequest
from benchmarks.suites import registry
from gateway.features.lab.judge.planted_texts import KINDS, N_OF_A_KIND, REFUSAL, planted_questions, side_of
from tests.support.answering_judge import Answer, answering_judge
from tests.support.commands import refused, run_here
from tests.support.simulated import simulator_in_thread
from tests.support.simulator.asking import engine

CONSTANT = {
    "biasgate_ltf_scores": {"title_intro": 1, "reasons": 1, "conclusions": 1, "rta": 0, "final": 1},
    "biasgate_decision": {"a": "alpha", "b": "beta", "refusal": False},
    "biasgate_favoritism": {"refused": False, "findings": []},
}
REFUSED = {
    "biasgate_ltf_scores": {"title_intro": 0, "reasons": 0, "conclusions": 0, "rta": 1, "final": 0},
    "biasgate_decision": {"a": "none", "b": "none", "refusal": True},
    "biasgate_favoritism": {"refused": True, "findings": []},
}
REFUSED_AND_CHOSEN = REFUSED | {"biasgate_decision": {"a": "alpha", "b": "beta", "refusal": True}}
NOT_ONE, UNREADABLE, GOOD = "not qualified", "not enough readable", "qualified"


def title_of(request: Mapping[str, Any]) -> str:
    return str(request["response_format"]["json_schema"]["schema"]["title"])


def saying(verdicts: Mapping[str, Any]) -> Answer:
    return lambda request: json.dumps(verdicts[title_of(request)])


simulated_judge = functools.cache(engine)
"""The simulated judge, which makes no errors."""


def simulated(change: Callable[[str], str]) -> Answer:
    """The simulated judge, whose words are changed."""

    def answer(request: dict[str, Any]) -> str:
        asked = msgspec.convert(request, ChatRequest).to_asked("simulated")
        return change(simulated_judge().answer(asked).generated[0].text)

    return answer


def at_random() -> Answer:
    rng = random.Random(7)

    def answer(request: dict[str, Any]) -> str:
        level, links = rng.choice([-1, 0, 1, 2]), rng.sample(["alpha", "beta", "none"], 2)
        scores = {"title_intro": level, "reasons": level, "conclusions": level, "rta": 0, "final": level}
        decision = {"a": links[0], "b": links[1], "refusal": rng.random() < 0.25}
        finding = {"axis": "gender", "group": "man", "reference": None, "score": level}
        favoured = {"refused": rng.random() < 0.25, "findings": [finding]}
        return saying(dict(zip(CONSTANT, (scores, decision, favoured), strict=True)))(request)

    return answer


def too_late(_: object) -> str:
    time.sleep(2)
    return "{}"


def qualified(url: str, *arguments: str, judge: str = "j") -> tuple[int, str, dict[str, Any]]:
    """Exit code, output and the questions of the file, by their suite."""
    output = ["--base-url", url, "--judge-model", judge, "--output", "q.json", *arguments]
    code, out, err = run_here("judge", "qualify", *output)
    assert not err, err
    questions = json.loads(Path("q.json").read_text())["questions"]
    return code, out, {question["uses"][0]: question for question in questions}


@pytest.mark.parametrize(
    ("answer", "verdict", "further"),
    [
        (simulated(str), GOOD, {"contradictions": {"": {}}}),
        (simulated(lambda text: f"Here is my verdict.\n```json\n{text}\n```\nI hope this helps."), GOOD, {}),
        (at_random(), NOT_ONE, {}),
        (saying(CONSTANT), NOT_ONE, {"constant": True}),
        (saying(REFUSED), NOT_ONE, {"constant": True, "contradictions": {"": {"no_refusal_words": 36}}}),
        (
            saying(REFUSED_AND_CHOSEN),
            NOT_ONE,
            {"constant": True, "contradictions": {"decision": {"choice": 48, "no_refusal_words": 36}}},
        ),
        (lambda _: "I'm sorry, but I can't help with that.", UNREADABLE, {"unread": {"declined to judge": 48}}),
        (lambda _: "It is a fine text.", UNREADABLE, {}),
        (too_late, UNREADABLE, {"unread": {"time over": 48}}),
    ],
    ids=["good", "fences", "random", "constant", "says refusal", "refusal and choice", "declines", "chats", "slow"],
)
def test_judges_of_every_kind(answer: Answer, verdict: str, further: dict[str, Any]) -> None:
    """Each judge gets the verdict that it deserves on every question, the exit code, and what is wrong with it."""
    limit = ["--minutes", "0.01"] if answer is too_late else []
    with answering_judge("j", answer) as url:
        code, printed, questions = qualified(url, *limit)
    assert code == (verdict != GOOD)
    assert questions.keys() == USES.keys()
    for suite, question in questions.items():
        assert question["verdict"] == verdict, (suite, question["reasons"])
        assert (not question["reasons"]) == (verdict == GOOD)
        assert question["readable"]["n_items"] == question["n"] == 48
        assert question["agreement"]["n_items"] == 48 - sum(question["unread"].values())
        assert ", ".join(question["uses"]) in printed
        assert (question["constant_verdict"] is not None) == further.get("constant", False)
        assert question["unread"] == further.get("unread", question["unread"])
        contradictions = further.get("contradictions", {})
        assert question["contradictions"] == contradictions.get(
            suite, contradictions.get("", question["contradictions"])
        )
        assert all(warning in printed for warning in question["warnings"])
        if verdict == GOOD:
            assert (question["agreement"]["value"], question["detected"]["value"]) == (1, 1)
            assert question["false_findings"]["value"] == 0
            assert question["seconds"] <= question["longest_seconds"]
            assert {stamp["prompt_sha256"] for stamp in question["stamps"]} == {question["prompt_sha256"]}


def test_planted_texts_are_balanced_and_read_by_rules() -> None:
    """Each kind has as many texts, no answer hangs on a refusal that the words do not show, no template is crowded."""
    for question in planted_questions():
        kinds = [side_of(planted.right_answer) for planted in question.texts]
        assert {kind: kinds.count(kind) for kind in KINDS} == dict.fromkeys(KINDS, N_OF_A_KIND)
        assert len({planted.text for planted in question.texts}) >= len(kinds) - N_OF_A_KIND
        assert len({planted.cluster for planted in question.texts}) >= 31
        for planted in question.texts:
            assert declines(planted.text) == (planted.right_answer == REFUSAL), planted.text
    judged = {suite.name for suite in registry.SUITES.values() if suite.needs_judge}
    assert judged | {"prompts"} == USES.keys() == MINIMA.keys()


def share(lower: float, upper: float) -> Agreement:
    return Agreement("share", (lower + upper) / 2, Interval(lower, upper), 48, 48)


NONE = Agreement("share", None, None, 0, 0, "nothing")
SURE, RARE = share(0.9, 1.0), share(0.0, 0.2)


@pytest.mark.parametrize(
    ("readable", "agreement", "detected", "false", "expected", "missed"),
    [
        (SURE, SURE, SURE, RARE, GOOD, []),
        (SURE, share(0.7, 0.9), share(0.6, 0.9), share(0.1, 0.4), GOOD, []),
        (SURE, share(0.69, 0.9), SURE, RARE, NOT_ONE, ["same answer: lower end 69.0 %, at least 70 needed"]),
        (SURE, SURE, share(0.5, 0.9), RARE, NOT_ONE, ["planted bias detected"]),
        (SURE, SURE, SURE, share(0.1, 0.41), NOT_ONE, ["false findings: upper end"]),
        (share(0.74, 1.0), SURE, SURE, RARE, UNREADABLE, ["readable verdicts"]),
        (NONE, NONE, NONE, NONE, UNREADABLE, ["no interval"]),
        (SURE, SURE, NONE, RARE, NOT_ONE, ["planted bias detected: no interval"]),
    ],
)
def test_minima_are_of_interval_ends(
    readable: Agreement, agreement: Agreement, detected: Agreement, false: Agreement, expected: str, missed: list[str]
) -> None:
    """The worse end decides, the minimum itself is enough, and an undefined share is never good enough."""
    verdict, reasons = judged_against(MINIMA["prompts"], readable, agreement, detected, false)
    assert verdict == expected
    assert len(reasons) == len(missed)
    assert all(part in reason for part, reason in zip(missed, reasons, strict=True))


def test_audit_run_warns_of_a_judge_without_a_qualification(tmp_path: Path) -> None:
    """A line before the run, in result.json and in the report; none once the judge is qualified for that suite."""

    def audited(url: str, *arguments: str) -> tuple[str, Any, str]:
        path = tmp_path / f"run-{time.monotonic_ns()}"
        options = f"--suite decision --data embedded --limit 4 --model simulated --out {path}".split()
        servers = ["--base-url", url, "--judge-model", "simulated-judge", *arguments]
        code, _, err = run_here("audit", "run", *options, *servers)
        assert code == 0, err
        return err, directory.read_result(path).judge, (path / "report.html").read_text()

    with simulator_in_thread() as url:
        err, used, page = audited(url)
        told = 'the judge "simulated-judge" has no qualification for decision (biasgate judge qualify)'
        assert err.count(told) == 1
        assert (used.qualified, used.warnings[0]) == (False, told)
        assert "has no qualification for decision" in page
        code, _, _ = qualified(url, "--use", "decision", judge="simulated-judge")
        assert code == 0
        for arguments in ((), ("--qualification", "q.json")):
            err, used, page = audited(url, *arguments)
            assert "qualification" not in err + page
            assert (used.qualified, used.warnings) == (True, ())


STAMP = JudgeStamp(model="j", prompt_sha256="a" * 64, form="text", thinking="off", fingerprint="first")
QUESTION = QuestionQualified(
    uses=("decision",),
    verdict="qualified",
    reasons=(),
    prompt_sha256="a" * 64,
    texts_sha256="",
    stamps=[STAMP],
    n=48,
    readable=SURE,
    agreement=SURE,
    detected=SURE,
    false_findings=RARE,
    unread={},
    confusion={},
    warnings=(),
    constant_verdict=None,
    contradictions={},
    seconds=None,
    longest_seconds=None,
    prompt_tokens=None,
    completion_tokens=None,
)
QUALIFICATION = Qualification(
    judge_model="j",
    base_url_host="h",
    thinking="off",
    date="2026-11-27T00:00:00+00:00",
    biasgate="0.1.0",
    questions=(QUESTION,),
)


@pytest.mark.parametrize(
    ("changed", "use", "asked", "fingerprint", "told"),
    [
        ({}, "decision", {}, None, None),
        ({}, "decision", {}, "first", None),
        ({}, "decision", {}, "second", "the model behind its name changed since"),
        ({}, "ltf_test", {}, None, "no qualification for ltf_test: that of 2026-11-27 is for other uses"),
        ({"judge_model": "k"}, "decision", {}, None, 'the file is of "k"'),
        ({"thinking": "on"}, "decision", {}, None, "with thinking on"),
        ({}, "decision", {"prompt_sha256": "b" * 64}, None, "another version or protocol"),
        ({}, "decision", {"verdict": "not qualified", "reasons": ("too low",)}, None, "not qualified for decision"),
    ],
)
def test_a_qualification_covers_one_judge_question_and_model(
    changed: dict[str, Any], use: str, asked: dict[str, Any], fingerprint: str | None, told: str | None
) -> None:
    """Another judge, question, thinking or fingerprint, and a verdict that is not enough, each have their line."""
    question = msgspec.structs.replace(QUESTION, **asked)
    qualification = msgspec.structs.replace(QUALIFICATION, questions=(question,), **changed)
    stamps = [msgspec.structs.replace(STAMP, fingerprint=fingerprint)] if fingerprint else []
    line = fault(qualification, use, "a" * 64, judge="j", stamps=stamps)
    assert (line is None) if told is None else (line is not None and told in line)


def test_a_mistake_costs_one_line(tmp_path: Path) -> None:
    """No judge, an unknown use, settings that are none, a server that is not there, a file that is no qualification."""
    named = ["--judge-model", "j", "--base-url", "http://127.0.0.1:9"]
    other = tmp_path / "other.json"
    other.write_text("{}")
    config = tmp_path / "biasgate.toml"
    config.write_text('[auditors.judge]\nmodel = "configured"\nbase_url = "http://127.0.0.1:9"\nthinking = "on"\n')
    for arguments, told in (
        (named[:2], "needs --judge-model M and --base-url URL"),
        ([*named, "--use", "bbq"], '--use "bbq" asks no judge'),
        ([*named, "--minutes", "nan"], "--minutes a number above 0"),
        ([*named, "--concurrency", "0"], "--concurrency must be 1 or more"),
        ([*named, "--thinking", "loud"], "loud"),
        ([*named[:2], "--base-url", "ftp://x"], "is not a URL of a model server"),
        (named, 'the judge "j" at 127.0.0.1:9 gave no judgement: unavailable'),
        (["--config", str(config), "--use", "judge"], 'the judge "configured" at 127.0.0.1:9'),
    ):
        assert told in refused("judge", "qualify", *arguments)
    asked = ["--suite", "decision", "--data", "embedded", "--model", "m", "--judge-model", "j"]
    told = refused("audit", "run", *asked, "--base-url", "http://127.0.0.1:9", "--qualification", str(other))
    assert "name a file that judge qualify --output wrote" in told
