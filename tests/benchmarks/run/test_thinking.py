"""Suites on a model that thinks: its thoughts cost no answer, and are in no number."""

import asyncio
from typing import Any

import msgspec
import pytest

from auditors.clients.completion import HttpCompleter
from auditors.types import Completer
from benchmarks.errors import BenchmarkError
from benchmarks.reporting import gate, report
from benchmarks.run.client import open_client
from benchmarks.run.plan import RunOptions, prepare
from benchmarks.run.result import Result
from benchmarks.run.runner import run_plan
from benchmarks.run.score import score_recorded
from benchmarks.run.thinking import EMPTY_THOUGHT, exhausted_reason, probe_once
from benchmarks.simulator.loading import load
from benchmarks.simulator.thinking import MISLEADING, ThinkingModel
from benchmarks.suites import registry
from benchmarks.suites.protocol import Reply
from tests.support.benchmarks.scripted import MemoryLog, ScriptedCompleter, pick, plan
from tests.support.simulated import running_simulator

THOUGHT = "I'm sorry, but I can't help with that. Male. Female. A. B."


async def ran(thinking_model: dict[str, Any], options: dict[str, Any] | None = None) -> tuple[Result, list[Reply]]:
    """Result and replies of a run of embedded items against the simulated server, over HTTP."""
    asked = {"suite": "stereoset", "model": "simulated", "data": "embedded"} | (options or {})
    ready = prepare(msgspec.convert(asked, RunOptions))
    log = MemoryLog()
    profile = msgspec.structs.replace(load("default"), thinking=msgspec.convert(thinking_model, ThinkingModel))
    async with running_simulator(profile) as url:
        completer = HttpCompleter(url)
        try:
            result = await run_plan(ready, completer=completer, log=log)
        finally:
            await completer.aclose()
    return result, log.replies


@pytest.fixture(scope="module")
def plain() -> dict[str, tuple[Result, list[Reply]]]:
    """Run a model that does not think, in either mode, before there is an event loop."""
    return {mode: asyncio.run(ran({}, {"limit": 12, "mode": mode})) for mode in ("sample", "exact")}


def answers(replies: list[Reply]) -> dict[str, str | None]:
    """Text by item."""
    return {reply.item_id: reply.text for reply in replies}


@pytest.mark.parametrize(
    ("model", "setting", "field"),
    [
        ({"switch": "template"}, "default", "reasoning"),
        ({"switch": "template", "place": "reasoning_content"}, "on", "reasoning_content"),
        ({"switch": "template", "is_default": False}, "on", "reasoning"),
        ({"switch": "template"}, "off", None),
        ({"switch": "template"}, "budget=20", "reasoning"),
        ({"switch": "template", "place": "text"}, "default", "text"),
        ({"switch": "template", "place": "text"}, "budget=100", "text"),
        ({"switch": "never", "place": "begun"}, "default", "begun"),
        ({"switch": "effort"}, "off", "reasoning"),
        ({"switch": "none", "refuses_fields": True}, "off", None),
    ],
)
async def test_the_answers_are_those_of_a_model_that_does_not_think(
    plain: dict[str, tuple[Result, list[Reply]]], model: dict[str, Any], setting: str, field: str | None
) -> None:
    """Whatever the server does with thoughts, every text, status and value is the same, and so is every number."""
    without_thoughts, plain_replies = plain["sample"]
    result, replies = await ran(model, {"limit": 12, "thinking": setting})

    assert answers(replies) == answers(plain_replies)
    assert result.counts == without_thoughts.counts
    assert [one.value for one in result.estimates] == [one.value for one in without_thoughts.estimates]
    found = result.provenance.thinking
    assert found is not None
    assert (found.thinks, found.field) == (field is not None, field)
    assert all(reply.reasoning is None for reply in replies)


@pytest.mark.parametrize(
    ("model", "setting", "opening"),
    [
        *(({"switch": "template", "place": place}, "default", "") for place in ("reasoning", "text")),
        ({"switch": "template"}, "off", ""),
        *(({"switch": "never", "place": place}, "default", EMPTY_THOUGHT) for place in ("reasoning", "begun", "text")),
        ({"switch": "effort"}, "default", EMPTY_THOUGHT),
    ],
)
async def test_mode_exact_has_no_thoughts(
    plain: dict[str, tuple[Result, list[Reply]]], model: dict[str, Any], setting: str, opening: str
) -> None:
    """Mode exact switches off thoughts or forces an empty one, so the probabilities are those without thoughts."""
    result, replies = await ran(model, {"limit": 12, "mode": "exact", "thinking": setting})

    expected = [one.value for one in plain["exact"][0].estimates]
    assert [one.value for one in result.estimates] == pytest.approx(expected)
    assert {reply.status for reply in replies} == {"ok"}
    found = result.provenance.thinking
    assert found is not None
    assert (found.thinks, found.opening) == (False, opening)
    assert ("begun with an empty thought" in found.words) == bool(opening)


@pytest.mark.parametrize("place", ["reasoning", "begun"])
async def test_mode_exact_refuses_a_model_that_thinks_all_the_same(place: str) -> None:
    """In one line, before any item is asked: its template keeps no empty thought."""
    with pytest.raises(BenchmarkError, match="cannot be switched off and keeps no empty thought: use --mode sample"):
        await ran({"switch": "never", "place": place, "forced": "refused"}, {"limit": 12, "mode": "exact"})


async def test_thoughts_are_kept_where_that_is_asked_for() -> None:
    """Apart from the text, and with the misleading words that no number shows."""
    _, replies = await ran({"switch": "template", "place": "text"}, {"limit": 2, "keep_reasoning": True})

    assert all(reply.reasoning and MISLEADING[:30] in reply.reasoning for reply in replies)
    assert not any("<think>" in (reply.text or "") for reply in replies)


async def test_thoughts_that_run_out() -> None:
    """They are counted, in no denominator, and above 5 % there is no headline number, but what mends it."""
    result, replies = await ran({"switch": "template", "p_long": 0.5}, {"limit": 24})

    n_exhausted = result.counts["thinking_exhausted"]
    assert 2 < n_exhausted < 22
    assert {reply.text for reply in replies if reply.status == "thinking_exhausted"} == {None}
    reason = result.thinking_fault or ""
    assert reason.startswith(f"{n_exhausted} of 24 replies")
    assert "--thinking off, or with --thinking budget=16384" in reason
    headline = [one for one in result.estimates if one.metric == registry.find("stereoset").headline.metric]
    assert headline
    assert {(one.value, one.lower, one.reason) for one in headline} == {(None, None, reason)}
    unrelated = next(
        one for one in result.estimates if (one.metric, one.axis, one.subset) == ("unrelated_rate", None, None)
    )
    assert unrelated.n == 24 - n_exhausted
    assert "No headline number" in report.render([result])
    with pytest.raises(BenchmarkError, match="ran out of tokens while the model was thinking"):
        gate.demand_put(gate.judge(gate.parse("stereoset.lms.value > 1"), [result]))


@pytest.mark.parametrize(("few", "replies", "has_reason"), [(0, 0, False), (5, 100, False), (6, 100, True)])
def test_up_to_five_percent_are_let_through(few: int, replies: int, has_reason: bool) -> None:
    """More are not."""
    assert (exhausted_reason(few, replies, "default") is not None) is has_reason


def test_what_did_not_help_is_not_proposed() -> None:
    """A model that thinks although it was told not to is given more room, not told again."""
    reason = exhausted_reason(20, 100, "off")
    assert reason is not None
    assert reason.endswith("--thinking off did not stop it: run it with --thinking budget=4096")


async def test_the_own_fields_of_a_user_are_sent_and_win() -> None:
    """With every request, over what the setting says."""
    ready = plan(limit=2, thinking="off", extra_body={"chat_template_kwargs": {"thinking": True}, "min_p": 0.1})
    completer = ScriptedCompleter(ready, pick("stereotype"))

    result = await run_plan(ready, completer=completer, log=MemoryLog())

    sent = {"chat_template_kwargs": {"enable_thinking": False, "thinking": True}, "min_p": 0.1}
    assert [one.extra.items() >= sent.items() for one in completer.asked] == [True, True]
    assert result.series["extra_body"] == '{"chat_template_kwargs":{"thinking":true},"min_p":0.1}'
    assert result.series["thinking"] == "off"


def test_recorded_replies_are_read_without_their_thoughts() -> None:
    """Inline thoughts of replies recorded elsewhere are no part of an answer; one that ran out is none."""
    ready = plan(limit=3)
    chosen = [item.choices[0].text for item in ready.items]
    texts = [f"<think>{THOUGHT}</think>\n\n{chosen[0]}", f"{THOUGHT}\n</think>\n\n{chosen[1]}", f"<think>{THOUGHT}"]
    recorded = [
        Reply(item_id=item.item_id, text=text, finish_reason="length" if number == 2 else "stop")
        for number, (item, text) in enumerate(zip(ready.items, texts, strict=True))
    ]

    result, replies = score_recorded(ready, recorded, where="test")

    assert [reply.text for reply in replies] == [chosen[0], chosen[1], None]
    assert [reply.status for reply in replies] == ["ok", "ok", "thinking_exhausted"]
    assert result.counts["thinking_exhausted"] == 1


@pytest.mark.parametrize(("context", "room"), [(3000, 1500), (5000, 2952), (32_768, 4096)])
@pytest.mark.parametrize("is_suite_client", [True, False])
async def test_thoughts_have_no_more_room_than_the_context(
    context: int, room: int, is_suite_client: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that says how long its model's context is gets no request for more, from either client."""
    monkeypatch.setattr("benchmarks.simulator.endpoints.MAX_MODEL_LEN", context)
    profile = msgspec.structs.replace(load("default"), thinking=ThinkingModel(switch="template"))
    async with running_simulator(profile) as url:
        completer: Completer = open_client(url) if is_suite_client else HttpCompleter(url)
        try:
            found = await probe_once(completer, "simulated", "on", None)()
        finally:
            await completer.aclose()
    assert found.room == room
    assert (f"a context of {context} tokens leaves only {room}" in found.words) == (room < 4096)
