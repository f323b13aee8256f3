"""Judged and staged runs: who is asked what, what is kept, what is asked again, what is never scored."""

import html
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from auditors.types import CompletionError, Estimate
from benchmarks.errors import BenchmarkError
from benchmarks.reporting.headline import not_assessable
from benchmarks.reporting.report import render
from benchmarks.run import directory
from benchmarks.run.plan import Plan, RunOptions, prepare
from benchmarks.run.result import Result
from benchmarks.run.runner import run_plan
from benchmarks.run.score import score_recorded
from benchmarks.suites.protocol import JUDGE_FAILED, Reply
from tests.support.benchmarks.scripted import Answering, FailingCompleter, MemoryLog

ESSAY = "[Title] On both\n[Introduction] They differ from person to person."
LINES = "• Title & Intro: {0}\n• Reasons: {0}\n• Conclusions: {0}\n• RtA: 0\n• Final: {0}"
AWAY = FailingCompleter(CompletionError("unavailable", "127.0.0.1:9: refused"))
CHOSEN = "Answer choice: 1\nExplanation: it is good."


class Letters:
    """Embeds a text by its letters; a text with "broken" in it has no finite vector."""

    name = "letters"

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if any("broken" in text for text in texts):
            raise ValueError("text 0 has no usable embedding")
        rows = np.array([[text.count(letter) + 1 for letter in "aeiou"] for text in texts], dtype=np.float32)
        unit: NDArray[np.float32] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return unit


def plan(suite: str, **options: object) -> Plan:
    settings: dict[str, object] = {"suite": suite, "model": "m", "data": "embedded", "limit": 40, "judge_model": "j"}
    return prepare(RunOptions(**(settings | options)))  # type: ignore[arg-type]  # tests pass any subset of the fields


def find(result: Result, metric: str, axis: str | None = None) -> Estimate:
    return next(
        one for one in result.estimates if (one.metric, one.axis, one.group, one.subset) == (metric, axis, None, None)
    )


def judge_says(text: str | None) -> Answering:
    return Answering(lambda _: text)


async def test_every_reply_is_put_to_the_judge() -> None:
    """The model gets the questions, the judge the essays; the score is the judge's, with who, what and how."""
    model, judge, log = Answering(lambda _: ESSAY), judge_says(LINES.format(2)), MemoryLog()
    result = await run_plan(plan("ltf_test"), completer=model, judge=judge, log=log)

    assert {request.model for request in model.asked} == {"m"}
    assert {request.model for request in judge.asked} == {"j"}
    assert all(ESSAY in request.messages[0].content for request in judge.asked)
    assert len(model.asked) == len(judge.asked) == len(log.replies) == result.counts["ok"] <= 40
    assert {reply.parsed for reply in log.replies} == {2}
    assert all(reply.judge and reply.judge["text"] == LINES.format(2) for reply in log.replies)
    assert [(one.model, one.form) for one in result.provenance.judge] == [("j", "schema")]
    assert find(result, "absolute_discrimination").value == 1.0


@pytest.mark.parametrize("suite", ["ltf_test", "decision"])
@pytest.mark.parametrize("nonsense", ["• Title & Intro: _\n• Reasons: _\n• Conclusions: _\n• RtA: _", "Fine.", None])
async def test_a_judge_that_fails_scores_nothing(suite: str, nonsense: str | None) -> None:
    """Three tries, then a failure counted as the judge's: no number is 0, and no reply of the model is malformed."""
    judge, log = judge_says(nonsense), MemoryLog()
    ready = plan(suite, protocol="paper")
    result = await run_plan(ready, completer=Answering(lambda _: ESSAY), judge=judge, log=log)

    assert len(judge.asked) == 3 * len(log.replies)
    assert result.counts["ok"] == result.n_replies
    assert result.judge
    assert result.judge.counts == {"malformed": result.n_replies}
    assert f"no verdict on {result.n_replies} of {result.n_replies} replies" in result.judge_warnings[0]
    assert not_assessable(result) is None
    assert {reply.rule for reply in log.replies} == {JUDGE_FAILED}
    assert {one.value for one in result.estimates} == {None}
    headline = find(result, "absolute_discrimination" if suite == "ltf_test" else "absolute_mean")
    assert headline.extra["excluded"] == {"judge_failures": result.n_replies}


async def test_without_a_judge_model_the_model_judges_itself() -> None:
    """The stamp says so: the judge's name is the model's."""
    ready = plan("decision", judge_model=None)
    model = Answering(lambda r: '{"a": "alpha", "b": "beta", "refusal": false}' if "P1 and P2" in str(r) else "Ben.")
    result = await run_plan(ready, completer=model, log=MemoryLog())

    assert {request.model for request in model.asked} == {"m"}
    assert [one.model for one in result.provenance.judge] == ["m"]
    assert result.counts["ok"] == result.n_replies


async def test_a_judge_that_is_away_costs_no_essay() -> None:
    """The run stops with the reason; resumed, only the judge is asked."""
    ready, log = plan("ltf_test"), MemoryLog()
    with pytest.raises(BenchmarkError, match="none of the first 20 requests to the judge was answered"):
        await run_plan(ready, completer=Answering(lambda _: ESSAY), judge=AWAY, log=log)
    kept = len(log.replies)
    assert kept >= 20
    assert {(reply.status, reply.text) for reply in log.replies} == {("error", ESSAY)}

    model = Answering(lambda _: "Another essay.")
    result = await run_plan(ready, completer=model, judge=judge_says(LINES.format(0)), log=log)

    assert len(model.asked) == result.n_replies - kept
    assert result.counts["ok"] == result.n_replies


async def test_recorded_replies_are_scored_by_their_recorded_judgements() -> None:
    """The same numbers without asking anyone; a reply without a judgement is an error, not a score."""
    ready, log = plan("ltf_test"), MemoryLog()
    result = await run_plan(ready, completer=Answering(lambda _: ESSAY), judge=judge_says(LINES.format(1)), log=log)
    bare = [Reply(item_id=one.item_id, text=one.text, judge=one.judge) for one in log.replies]
    again, _ = score_recorded(ready, bare, where="file")
    unjudged, replies = score_recorded(ready, [Reply(item_id=bare[0].item_id, text=ESSAY)], where="file")

    assert again.estimates == result.estimates
    assert again.counts == result.counts
    assert again.provenance.judge == result.provenance.judge
    assert unjudged.judge
    assert unjudged.judge.counts == {"error": 1}
    assert (unjudged.counts["ok"], replies[0].error) == (1, "no judgement is recorded")


def decision_judge(**verdict: object) -> str:
    return f"```json\n{json.dumps({'a': 'alpha', 'b': 'beta', 'refusal': False} | verdict)}\n```"


@pytest.mark.parametrize(
    ("judge", "constant", "contradictions"),
    [
        (lambda text: decision_judge(a="alpha" if len(text) % 2 else "beta"), False, {}),
        (lambda _: decision_judge(), True, {}),
        (lambda _: decision_judge(a="none", b="none", refusal=True), True, {"no_refusal_words": 40}),
        (lambda _: decision_judge(refusal=True), True, {"choice": 40, "no_refusal_words": 40}),
    ],
)
async def test_a_judge_that_does_not_look(
    judge: Callable[[str], str], constant: bool, contradictions: dict[str, int]
) -> None:
    """One verdict to all and contradictions are told; the model stays assessable."""
    model = Answering(lambda request: f"{request.messages[0].content[:300]} Ben is the nurse.")
    answering = Answering(lambda request: judge(request.messages[0].content))
    result = await run_plan(plan("decision"), completer=model, judge=answering, log=MemoryLog())
    assert result.judge

    assert (result.judge.constant, result.judge.contradictions) == (constant, contradictions)
    assert (not_assessable(result), result.counts["ok"], sum(result.judge.counts.values())) == (None, 40, 40)
    assert ['"j" gave one verdict to all 40: {' in warning for warning in result.judge_warnings].count(True) == constant
    page = html.unescape(render([result]).partition("<!--/summary-->")[0])
    assert all(warning in page for warning in result.judge_warnings)


async def test_a_resumed_run_keeps_the_form_of_its_judge() -> None:
    """Free text once, free text to the end."""
    ready, log = plan("ltf_test"), MemoryLog()
    stamp = {"model": "j", "prompt_sha256": "0" * 64, "attempts": 1, "form": "text", "text": LINES.format(0)}
    log.replies = [Reply(item_id=ready.items[0].item_id, text=ESSAY, status="ok", parsed=0, judge=stamp)]
    judge = judge_says(LINES.format(0))
    await run_plan(ready, completer=Answering(lambda _: ESSAY), judge=judge, log=log)

    assert {request.response_schema for request in judge.asked} == {None}


def cogs_model(write: Callable[[str], str]) -> Answering:
    """Writes by a function of the prompt, and always chooses the first text."""
    return Answering(lambda r: CHOSEN if "Answer choice:" in r.messages[0].content else write(r.messages[0].content))


async def test_follow_ups_are_made_from_the_replies() -> None:
    """Texts first, then questions about them, kept beside the first items; a second run asks nothing again."""
    ready, log = plan("cogs", subset="haiku", limit=None), MemoryLog()
    model = cogs_model(lambda prompt: f"A text: {prompt}")
    result = await run_plan(ready, completer=model, log=log, embedder=Letters())
    again = cogs_model(lambda prompt: "never asked")
    repeated = await run_plan(ready, completer=again, log=log, embedder=Letters())

    n_choices = len(log.items) - len(ready.items)
    assert n_choices > 0
    assert log.items[: len(ready.items)] == ready.items
    assert {item.sampling.max_tokens for item in log.items if item.choices and item.sampling} == {256}
    assert result.counts["items"] == len(log.items) == len(model.asked)
    assert again.asked == []
    assert repeated.estimates == result.estimates
    assert result.provenance.embedder == "letters"
    assert find(result, "representative_bias_score", "race").value is not None
    assert find(result, "affinity_bias_score", "race").n > 0


async def test_a_text_without_a_usable_vector_is_missing() -> None:
    """One bad vector costs its own (task, theme), whole and counted; the other texts are measured."""
    ready = plan("cogs", subset="haiku", limit=None)
    bad = next(item for item in ready.items if item.groups == ("black",))
    model = cogs_model(lambda prompt: "broken" if prompt == bad.messages[0].content else f"A text: {prompt}")
    result = await run_plan(ready, completer=model, log=MemoryLog(), embedder=Letters())
    race, gender = (find(result, "representative_bias_score", axis) for axis in ("race", "gender"))

    assert race.extra["excluded"]["missing text"] >= 1
    assert race.n + race.n_excluded == gender.n + gender.n_excluded
    assert race.n == gender.n - 1


async def test_texts_of_other_runs_can_be_evaluated(tmp_path: Path) -> None:
    """With `evaluate`, nothing is written: every generator's texts are put to the evaluator, and told apart."""
    generated, log = plan("cogs", subset="haiku", limit=None), MemoryLog()
    await run_plan(generated, completer=cogs_model(lambda prompt: f"A text: {prompt}"), log=log)
    directory.create(tmp_path / "one", generated, directory.manifest(generated))
    directory.write_replies(tmp_path / "one", log.replies)
    found = directory.observations(tmp_path / "one")
    options = RunOptions(suite="cogs", model="evaluator", data="embedded")
    ready = prepare(options, outputs={"first": found, "second": found})
    model = cogs_model(lambda prompt: "never asked")
    result = await run_plan(ready, completer=model, log=MemoryLog())
    score = find(result, "affinity_bias_score", "race")

    assert {item.item_id.split("/")[0] for item in ready.items} == {"first", "second"}
    assert score.extra["by_generator"].keys() == {"first", "second"}
    assert all("Answer choice:" in request.messages[0].content for request in model.asked)
