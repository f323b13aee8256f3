"""A model whose tool calls and JSON values hang on whom it is asked about, and what its live metrics must show."""

from benchmarks.simulator.loading import parse

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
