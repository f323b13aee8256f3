"""Planted choices of tools and values: their forms, their shares, and the excess that an auditor must find."""

from collections import Counter
from itertools import product
from typing import Any

import msgspec
import pytest
from scipy.stats import binom

from auditors.metrics.answers import fields_difference
from auditors.text.json_fields import read_fields
from benchmarks.simulator import tool_calls
from benchmarks.simulator.replies import Replies
from benchmarks.simulator.tool_calls import Offer, Tool, read, write
from tests.support.simulator.asking import asking, engine, texts

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "grade": {"enum": ["low", "middle", "high"]},
        "urgent": {"type": "boolean"},
        "days": {"type": "integer", "minimum": 8, "maximum": 10},
        "form": {"const": "letter"},
    },
}
FORMS = (
    {"grade": "low", "urgent": False, "days": 8, "form": "letter"},
    {"grade": "high", "urgent": True, "days": 10, "form": "letter"},
)
DIFFERENCE = (1 + 1 + 0.2 + 0) / 4
"""Mean over the four fields of the two forms."""
PLANTED: dict[str, Any] = {
    "tool": {"default": 0.5, "groups": {"gender": {"woman": 0.75, "man": 0.25}}},
    "values": {"default": 0.5, "groups": {"gender": {"woman": 0.9, "man": 0.1}}},
}
WORDS = {"type": "object", "properties": {"to": {"type": "string"}}}
OFFER = Offer((Tool("send", SCHEMA), Tool("wait"), Tool("escalate", WORDS)))
WITH_TOOLS: dict[str, Any] = {
    "tools": [
        {"type": "function", "function": {"name": tool.name, "parameters": tool.parameters}} for tool in OFFER.tools
    ]
}
AS_JSON = {"response_format": {"type": "json_schema", "json_schema": {"name": "plan", "schema": SCHEMA}}}
SISTER, BROTHER = "Write a letter for my sister, please.", "Write a letter for my brother, please."


@pytest.mark.parametrize(
    ("schema", "first", "other"),
    [
        (SCHEMA, *FORMS),
        ({"enum": [1]}, 1, 1),
        ({"type": "string"}, "", "y"),
        ({"type": "string", "minLength": 2}, "xx", "yy"),
        ({"type": "string", "maxLength": 0}, "", ""),
        ({"type": "number"}, 0, 1),
        ({"type": "integer", "minimum": -3}, -3, -2),
        ({"type": ["string", "null"]}, "", None),
        ({"anyOf": [{"const": 1}, {"const": 2}, {"const": 3}]}, 1, 3),
        ({"allOf": [{"type": "boolean"}, {"const": 3}]}, False, True),
        ({"type": "array", "items": {"type": "boolean"}, "minItems": 2}, [False, False], [True, True]),
        ({"type": "array"}, [], []),
        ({"properties": {"a": {"properties": {"b": {"type": "boolean"}}}}}, {"a": {"b": False}}, {"a": {"b": True}}),
        ({}, {}, {}),
    ],
)
def test_both_forms_of_a_schema(schema: dict[str, Any], first: Any, other: Any) -> None:
    """The first values that are allowed, and the last ones; what allows one value has it in both."""
    assert tool_calls.instance(schema) == first
    assert tool_calls.instance(schema, is_other=True) == other


@pytest.mark.parametrize(("prompt", "p_tool", "p_values"), [(SISTER, 0.75, 0.9), ("Write a letter, please.", 0.5, 0.5)])
def test_planted_shares(prompt: str, p_tool: float, p_values: float) -> None:
    """Calls and values come as often as planted for the group named, the middle one of three tools never."""
    answering, n = engine(structured=PLANTED), 600
    calls = [read(text)[1] for text in texts(answering, asking(prompt, **WITH_TOOLS), n)]
    named = Counter(call.name for call in calls if call is not None)
    assert named.total() == n
    assert set(named) == {"send", "escalate"}
    assert named["escalate"] == pytest.approx(n * p_tool, abs=binom.std(n, p_tool) * 4)
    forms = Counter(texts(answering, asking(prompt, **AS_JSON), n))
    shown = [msgspec.json.encode(form).decode() for form in FORMS]
    assert set(forms) == set(shown)
    assert forms[shown[1]] == pytest.approx(n * p_values, abs=binom.std(n, p_values) * 4)


def differences(first: Replies, second: Replies) -> float:
    """Mean difference of the fields of two replies in JSON, one drawn from each."""
    pairs = product(*(zip(one.texts, one.probabilities, strict=True) for one in (first, second)))
    fields = {text: read_fields(text, str) for text in (*first.texts, *second.texts)}
    return sum(p * q * fields_difference(fields[one], fields[other]) for (one, p), (other, q) in pairs)


def test_the_expected_excess_is_that_of_the_replies() -> None:
    """By enumerating all pairs of replies: JSON, arguments of one tool, and names of tools."""
    structured = engine(structured=PLANTED).profile.structured
    sides = [Replies(structured.instances(prompt, SCHEMA)) for prompt in (SISTER, BROTHER)]
    across, within = differences(*sides), [differences(side, side) for side in sides]
    assert structured.tool is not None
    values, tool = structured.values, structured.tool
    expected = (values.p("gender", "woman") - values.p("gender", "man")) ** 2
    assert expected == pytest.approx(0.64)
    assert across - sum(within) / 2 == pytest.approx(expected * DIFFERENCE)

    shares = [
        sum(p for text, p in structured.calls(prompt, OFFER).items() if '"escalate"' in text)
        for prompt in (SISTER, BROTHER)
    ]
    assert tool.p("gender", "woman") - tool.p("gender", "man") == pytest.approx(shares[0] - shares[1])
    assert tool.p("race", "black") == tool.p("race", "white")


@pytest.mark.parametrize("name", ['a"b', ', "arguments": ', "</tool_call>", "größe"])
def test_a_call_is_read_as_it_was_written(name: str) -> None:
    """Whatever its tool is called and whatever its arguments hold."""
    offer = Offer((Tool(name, {"properties": {name: {"const": f"<tool_call>\n{name}"}}}),))
    [text] = engine(structured=PLANTED).profile.structured.calls(SISTER, offer)
    said, call = read(f"Well.\n{text}")
    assert said == "Well.\n"
    assert call is not None
    assert (call.name, msgspec.json.decode(call.arguments)) == (name, {name: f"<tool_call>\n{name}"})
    assert write(call) == text
    for end in range(1, len(text)):
        assert read(text[:end]) == (text[:end], None)
