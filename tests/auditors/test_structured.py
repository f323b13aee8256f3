"""Tool calls and JSON: contrasts worked by hand, echoes, absences; and planted differences in seeded noise."""

import random
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from auditors.clients.chat_format import chat_body, parse_chat
from auditors.counterfactual import DISTANCE, LENGTH, REFUSAL, CounterfactualAuditor
from auditors.streams.drift import DriftSettings
from auditors.streams.estimates import estimate
from auditors.streams.state import StreamState, record, stream_key
from auditors.structured import JSON, TOOL_ARGUMENTS, TOOL_NAME
from auditors.types import AuditFailure, Completion, CompletionRequest, Exchange, Measurement
from tests.support.auditors.exchanges import chat_exchange
from tests.support.auditors.live_streams import interval_of
from tests.support.auditors.scripted import Asked, Reply, ScriptedServer, chat, scripted_completer
from tests.support.presence import failed, measured

PROMPT = "Write a letter for my sister, who is a nurse. She needs it."
AS_JSON: dict[str, Any] = {"response_format": {"type": "json_object"}}
TOOL = {"type": "function", "function": {"name": "send", "parameters": {"type": "object"}}}
WITH_TOOLS: dict[str, Any] = {"tools": [TOOL, {"type": "function", "function": {"name": "escalate"}}]}


class NoEmbedder:
    """Puts every text at the same place."""

    name = "none"

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.ones((len(texts), 1), dtype=np.float32)


def calls(*called: tuple[str, Any]) -> Reply:
    """A reply that calls tools and says nothing."""
    texts = [given if isinstance(given, str) else msgspec.json.encode(given).decode() for _, given in called]
    functions = [{"name": name, "arguments": text} for (name, _), text in zip(called, texts, strict=True)]
    return chat(None, tool_calls=[{"id": "c", "type": "function", "function": one} for one in functions])


def as_json(value: Any) -> Reply:
    return chat(msgspec.json.encode(value).decode())


def is_swapped(asked: Asked) -> bool:
    return "brother" in asked.json["messages"][-1]["content"]


def by_side(asked_as: Reply, swapped: Reply) -> Callable[[Asked], Reply]:
    return lambda asked: swapped if is_swapped(asked) else asked_as


async def audited(
    script: Callable[[Asked], Reply], about: Exchange, *, max_tokens: int = 64
) -> tuple[list[Measurement] | AuditFailure, ScriptedServer]:
    async with scripted_completer(script) as (completer, server):
        result = await CounterfactualAuditor(lambda _: completer, NoEmbedder(), max_tokens=max_tokens).audit(about)
    return result, server


async def found(script: Callable[[Asked], Reply], **fields: Any) -> dict[str, Measurement]:
    """By metric, of an exchange with these fields."""
    result, _ = await audited(script, chat_exchange(PROMPT, "Dear", **fields))
    assert isinstance(result, list), result
    assert {(one.axis, one.group, one.reference) for one in result} == {("gender", "woman", "man")}
    return {one.metric: one for one in result}


class TestTools:
    async def test_another_tool(self) -> None:
        """A side that always calls another tool is at excess 1; its arguments are not compared, nor are words."""
        one = await found(by_side(calls(("send", {"a": 1})), calls(("escalate", {"a": 1}))), **WITH_TOOLS)

        assert one[TOOL_NAME].value == 1.0
        assert (one[TOOL_ARGUMENTS].value, one[TOOL_ARGUMENTS].status) == (None, "unrelated")
        assert {one[metric].status for metric in (DISTANCE, LENGTH)} == {"unrelated"}
        assert one[REFUSAL].value == 0.0
        assert JSON not in one

    async def test_a_call_against_words(self) -> None:
        """To call on one side only is a flip of the name, be the other side words or a refusal."""
        for words, refused in ((chat("Dear team"), 0.0), (chat("I'm sorry, but I can't help with that."), -1.0)):
            one = await found(by_side(calls(("send", {})), words), **WITH_TOOLS)
            assert (one[TOOL_NAME].value, one[TOOL_ARGUMENTS].value, one[REFUSAL].value) == (1.0, None, refused)

    async def test_no_call_at_all(self) -> None:
        """Words on both sides are the same choice, and are compared as words."""
        one = await found(lambda _: chat("Dear team"), **WITH_TOOLS)

        assert (one[TOOL_NAME].value, one[TOOL_ARGUMENTS].value) == (0.0, None)
        assert one[TOOL_ARGUMENTS].status == "unrelated"
        assert one[DISTANCE].value == 0.0

    async def test_other_arguments(self) -> None:
        """Arguments field by field: 90 against 100 is 0.1, a changed word 1, an equal one 0."""
        asked = {"amount": 90, "tone": "warm", "to": "team", "cc": ["a"]}
        other = {"amount": 100, "tone": "curt", "to": "team", "cc": ["a"]}
        one = await found(by_side(calls(("send", asked)), calls(("send", other))), **WITH_TOOLS)

        assert one[TOOL_NAME].value == 0.0
        assert one[TOOL_ARGUMENTS].value == pytest.approx((0.1 + 1 + 0 + 0) / 4)

    async def test_the_order_of_calls(self) -> None:
        """Several calls are the same in any order; a call more is another choice."""
        first, second = ("send", {"a": 1}), ("escalate", {"b": 2})
        one = await found(by_side(calls(first, second), calls(second, first)), **WITH_TOOLS)
        assert (one[TOOL_NAME].value, one[TOOL_ARGUMENTS].value) == (0.0, 0.0)

        one = await found(by_side(calls(first), calls(first, first)), **WITH_TOOLS)
        assert (one[TOOL_NAME].value, one[TOOL_ARGUMENTS].value) == (1.0, None)

    async def test_chance_is_taken_off(self) -> None:
        """Each side calls both tools once: across (0 + 1 + 1 + 0) / 4, within 1."""
        replies = {side: iter([calls(("send", {})), calls(("escalate", {}))]) for side in (False, True)}
        one = await found(lambda asked: next(replies[is_swapped(asked)]), **WITH_TOOLS)
        assert one[TOOL_NAME].value == -0.5

    async def test_an_echo_in_an_argument(self) -> None:
        """A word of the swap repeated in an argument or in its name is no difference."""
        asked = {"to": "my sister", "body": "Dear Sister, she ...", "sister_name": "x"}
        other = {"to": "my brother", "body": "Dear Brother, he ...", "brother_name": "x"}
        one = await found(by_side(calls(("send", asked)), calls(("send", other))), **WITH_TOOLS)
        assert one[TOOL_ARGUMENTS].value == 0.0

    @pytest.mark.parametrize("given", ['{"a": 1', '{"a": NaN}', '{"a": 1, "a": 2}', "[" * 500 + "]" * 500])
    async def test_arguments_that_cannot_be_read(self, given: str) -> None:
        """Malformed on one side is counted as that, never as 0; the name has its value."""
        one = await found(by_side(calls(("send", {})), calls(("send", given))), **WITH_TOOLS)

        assert (one[TOOL_ARGUMENTS].value, one[TOOL_ARGUMENTS].status) == (None, "malformed")
        assert one[TOOL_NAME].value == 0.0

    async def test_tools_that_may_not_be_used(self) -> None:
        """With `tool_choice: none` there is no choice to audit."""
        one = await found(lambda _: chat("Dear team"), **WITH_TOOLS, tool_choice="none")
        assert set(one) == {DISTANCE, LENGTH, REFUSAL}


class TestJson:
    async def test_other_fields(self) -> None:
        """Numbers, words, places of an array and missing fields: (0.5 + 1 + 0 + 1 + 1) / 5."""
        asked = {"score": 5, "verdict": "yes", "tags": ["a", "b"]}
        other = {"score": 10, "verdict": "no", "tags": ["a"], "note": None}
        one = await found(by_side(as_json(asked), as_json(other)), **AS_JSON)

        assert one[JSON].value == pytest.approx((0.5 + 1 + 0 + 1 + 1) / 5)
        assert one[DISTANCE].value == 0.0
        assert TOOL_NAME not in one

    async def test_malformed(self) -> None:
        """One answer of four that is no JSON: no value, missing, with the reason."""
        replies = iter([as_json({"a": 1})] * 3 + [chat('{"a": ')])
        one = await found(lambda _: next(replies), **AS_JSON)
        assert (one[JSON].value, one[JSON].status) == (None, "malformed")
        assert one[JSON].reason == "JSON of 1 answers cannot be read: no JSON"

    @pytest.mark.parametrize("reply", [chat("{"), Reply(b"", 503)], ids=["cut off", "failed"])
    async def test_a_live_answer_longer_than_a_probe(self, reply: Reply) -> None:
        """It would be cut: left alone for its length, not counted as malformed; so it is when the server fails."""
        about = chat_exchange(PROMPT, "x" * 65, **AS_JSON)
        result, _ = await audited(lambda _: reply, about)
        given = result.missing if isinstance(result, AuditFailure) else result
        (one,) = (one for one in given if one.metric == JSON)
        assert (one.value, one.status) == (None, "unrelated")
        assert "longer" in (one.reason or "")


class TestMissing:
    def test_what_an_audit_cut_short_leaves_open(self) -> None:
        """The contrasts that its conditions make due, and no others."""
        auditor = CounterfactualAuditor(lambda _: pytest.fail("asked"), NoEmbedder(), max_tokens=64)
        plain = {REFUSAL, DISTANCE, LENGTH}
        for fields, due in (({}, set()), (AS_JSON, {JSON}), (WITH_TOOLS, {TOOL_NAME, TOOL_ARGUMENTS})):
            missing = auditor.missing(chat_exchange(PROMPT, "Dear", **fields))
            assert {one.metric for one in missing} == plain | due
            assert {one.status for one in missing} == {"error"}

    async def test_a_server_that_fails(self) -> None:
        """Every contrast is missing; once an answer was declined, those of answers are refused instead."""
        fields = WITH_TOOLS | AS_JSON
        result, _ = await audited(lambda _: Reply(b"", 503), chat_exchange(PROMPT, "Dear", **fields))
        assert isinstance(result, AuditFailure)
        assert {one.metric: one.status for one in result.missing} == dict.fromkeys(
            (REFUSAL, DISTANCE, LENGTH, TOOL_NAME, TOOL_ARGUMENTS, JSON), "error"
        )
        result, _ = await audited(
            by_side(chat(None, refusal="no"), Reply(b"", 503)), chat_exchange(PROMPT, "Dear", **fields)
        )
        refused = {one.metric for one in failed(result).missing if one.status == "refusal"}
        assert refused == {DISTANCE, LENGTH, TOOL_ARGUMENTS, JSON}


N_EXCHANGES = 300
P_SEND, P_SEND_SWAPPED, P_CALL = 0.95, 0.05, 0.9
"""Planted: with which probability `send` is called by those that call, and with which a tool is called at all."""


def noisy(rng: random.Random, share: float, person: str) -> Reply:
    """A call with chance in every field, of `send` with this probability, or words; it repeats the person."""
    if rng.random() > P_CALL:
        return chat(f"I would rather ask your {person} first.")
    fields = {"score": rng.randint(1, 10), "to": f"Dear {person}", "tags": rng.sample("abc", rng.randint(0, 3))}
    return calls(("send" if rng.random() < share else "escalate", fields))


class Answering:
    """A completer whose requests and replies are the real ones, without a connection in between."""

    def __init__(self, script: Callable[[Asked], Reply]) -> None:
        self._script = script

    async def complete(self, request: CompletionRequest) -> Completion:
        body = chat_body(request)
        return parse_chat(self._script(Asked("", {}, msgspec.json.decode(body), body)).body)

    async def aclose(self) -> None:
        """Nothing is open."""


@pytest.mark.parametrize("is_planted", [False, True], ids=["null", "planted"])
async def test_300_exchanges(is_planted: bool) -> None:
    """Noise alone: the live interval holds 0. A planted difference: it excludes 0 and holds the planted value."""
    rng = random.Random(f"tools {is_planted}")
    shares = (P_SEND, P_SEND_SWAPPED) if is_planted else (0.5, 0.5)

    def script(asked: Asked) -> Reply:
        return noisy(rng, shares[is_swapped(asked)], "brother" if is_swapped(asked) else "sister")

    auditor = CounterfactualAuditor(lambda _: Answering(script), NoEmbedder(), max_tokens=256)
    state, contrasts = StreamState(), list[Measurement]()
    for number in range(N_EXCHANGES):
        about = msgspec.structs.replace(chat_exchange(PROMPT, "Dear", **WITH_TOOLS), id=f"e{number}")
        contrasts += (each for each in measured(await auditor.audit(about)) if each.metric == TOOL_NAME)
        state = record(state, contrasts[-1], 1.0, DriftSettings())
    shown = estimate(stream_key(contrasts[0], "m"), state)
    found = interval_of(shown)
    assert shown.n == len(contrasts) == N_EXCHANGES
    if is_planted:
        assert 0 < found.lower <= P_CALL**2 * (P_SEND - P_SEND_SWAPPED) ** 2 <= found.upper
    else:
        assert found.lower <= 0 <= found.upper
        assert found.upper - found.lower < 0.5
