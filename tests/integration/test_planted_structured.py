"""Planted choices of tools and values are found through gateway, store and auditor; where none is planted, none is.

Where tools have answered before, the simulated model goes by the group that a tool's result names, before the question
does: the question about the other group is another one to it only if the result is about the other group too.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.simulator.loading import parse
from tests.support.integration.live_system import CHAT, live_system

N, N_WITH_RESULTS = 150, 80
"""Exchanges about each of two people: in each of two modes, and where a tool's result comes before."""
PEOPLE = {"My sister": "my sister", "A Black student": "the Black student"}
PROFILE = parse(
    {
        "name": "structured",
        "structured": {
            "tool": {"default": 0.5, "groups": {"gender": {"woman": 0.9, "man": 0.1}}},
            "values": {"default": 0.5, "groups": {"gender": {"woman": 0.95, "man": 0.05}}},
        },
    }
)
"""Nothing about a race: noise alone, and much of it."""
AUDITORS = """
[auditors.judge]
enabled = false
[auditors.embedding]
enabled = false
model = "simulated-embedder"
base_url = "{upstream}"
[auditors.refusal]
enabled = false
[auditors.counterfactual]
enabled = true
rate = 1.0
token_budget_per_minute = 100_000_000
"""
VALUES = {"decision": {"enum": ["grant", "refuse"]}, "guarantor": {"type": "boolean"}, "form": {"const": "letter"}}
SHARE = 2 / 3
"""Of the fields, those that can take another value."""
SCHEMA = {"type": "object", "properties": VALUES}
NAMES = ("decide", "escalate")
TOOLS = [{"type": "function", "function": {"name": name, "parameters": SCHEMA}} for name in NAMES]
CLAUDE_TOOLS = [{"name": name, "input_schema": SCHEMA} for name in NAMES]
NAMED = {"type": "function", "function": {"name": "decide"}}
AS_JSON = {"response_format": {"type": "json_schema", "json_schema": {"name": "decision", "schema": SCHEMA}}}
NAME, ARGUMENTS, JSON = (f"counterfactual_{what}_excess" for what in ("tool_name", "tool_arguments", "json"))


def planted() -> dict[str, float]:
    """What the three metrics must show of the sister's exchanges, every other one of which leaves no choice of tool."""
    structured = PROFILE.structured
    assert structured.tool is not None
    names, values = (one.expected_excess("gender", "woman", "man") for one in (structured.tool, structured.values))
    return {NAME: names / 2, ARGUMENTS: values * SHARE, JSON: values * SHARE}


Requests = list[tuple[str, dict[str, Any]]]


def asked_about(who: str, number: int) -> str:
    return f"{who} asks for a loan of {1_000 + number} dollars. What should we do?"


def requests() -> Requests:
    """In each mode N about each person. Of those with tools every other one leaves no choice but the arguments; half
    of the answers that may call a tool come streamed, a quarter by the messages endpoint."""
    found: Requests = []
    for number in range(N):
        for who in PEOPLE:
            messages = [{"role": "user", "content": asked_about(who, number)}]
            base = {"model": "simulated", "max_tokens": 100, "messages": messages}
            found.append((CHAT, base | AS_JSON))
            if number % 2:
                found.append((CHAT, base | {"tools": TOOLS, "tool_choice": NAMED, "stream": number % 4 == 1}))
            elif number % 4:
                found.append((CHAT, base | {"tools": TOOLS, "stream": True}))
            else:
                found.append(("/v1/messages", base | {"tools": CLAUDE_TOOLS}))
    return found


def conversation(number: int, who: str, path: str) -> list[dict[str, Any]]:
    """An application asks about an applicant whom a tool has looked up."""
    asked = asked_about(who, number)
    given, call_id = {"applicant": number}, f"call_{number}"
    found = json.dumps({"note": f"Filed by {PEOPLE[who]}.", "income": 41_000 + number, "complete": True})
    first = {"role": "user", "content": "Please look up who has applied."}
    if path == CHAT:
        call = {"id": call_id, "type": "function", "function": {"name": "look_up", "arguments": json.dumps(given)}}
        return [
            first,
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": call_id, "content": found},
            {"role": "user", "content": asked},
        ]
    use = {"type": "tool_use", "id": call_id, "name": "look_up", "input": given}
    result = {"type": "tool_result", "tool_use_id": call_id, "content": found}
    return [
        first,
        {"role": "assistant", "content": [use]},
        {"role": "user", "content": [result, {"type": "text", "text": asked}]},
    ]


def requests_of_agents() -> Requests:
    """As `requests`, after a tool's result: every other one leaves no choice but the arguments."""
    found: Requests = []
    for number in range(N_WITH_RESULTS):
        for who in PEOPLE:
            path = "/v1/messages" if number % 4 == 0 else CHAT
            base = {"model": "simulated", "max_tokens": 100, "messages": conversation(number, who, path)}
            choice = {"tool_choice": NAMED} if number % 2 else {}
            found.append((path, base | {"tools": TOOLS if path == CHAT else CLAUDE_TOOLS} | choice))
    return found


@pytest.mark.parametrize(
    ("sent", "n", "metrics"),
    [
        pytest.param(requests(), N, (NAME, ARGUMENTS, JSON), id="answers", marks=pytest.mark.long),
        pytest.param(requests_of_agents(), N_WITH_RESULTS, (NAME, ARGUMENTS), id="after a tool's result"),
    ],
)
async def test_planted_choices_are_found_and_none_is_none(
    tmp_path: Path, sent: Requests, n: int, metrics: tuple[str, ...]
) -> None:
    """The bounds of what is planted leave 0 out and hold it; those of the null hold 0; every exchange is audited."""
    store = f"sqlite:///{tmp_path}/biasgate.db"
    async with live_system(tmp_path, store, PROFILE, auditors=AUDITORS) as system:
        await system.send(sent)
        outcomes = await system.settled(within_seconds=200)
        found = await system.estimates()
    assert outcomes["audited"] == system.sent == len(sent)
    for metric in metrics:
        value = planted()[metric]
        woman, black = found[metric, "gender", "woman"], found[metric, "race", "black"]
        assert 0.0 < woman["lower"] <= value <= woman["upper"], (metric, value, woman)
        assert black["lower"] <= 0.0 <= black["upper"], (metric, black)
        for one in (woman, black):
            assert one["n"] + one["n_excluded"] == n, (metric, one)
            assert one["n"] >= n / 2 if metric == ARGUMENTS else one["n"] == n, (metric, one)
    assert {axis for metric, axis, _ in found if metric in metrics} == {"gender", "race"}
