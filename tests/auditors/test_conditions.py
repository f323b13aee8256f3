"""The conditions of a live request: what a probe carries of it, and what makes it be left alone."""

import random
from collections import Counter
from typing import Any, get_args

import pytest

from auditors.conditions import (
    CARRIED,
    DEEPEST_CARRIED,
    LARGEST_BYTES,
    LEFT_OUT,
    conditions_of,
    has_room,
    offers_tools,
    returns_json,
)
from auditors.text.conversation import Conversation, NotAuditableError
from auditors.text.readers.exchange import read_conversation
from gateway.config.schema import Redacted
from gateway.privacy.bodies import redacted_request
from gateway.privacy.redaction import Redactor
from gateway.sampling.folding import folded
from tests.support.auditors.exchanges import chat_exchange, exchange
from tests.support.processor_time import processor_seconds

CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
SCHEMA = {"type": "object", "properties": {"score": {"enum": [1, 2, 3]}}, "required": ["score"]}
TOOL = {"type": "function", "function": {"name": "send", "description": "Sends.", "parameters": SCHEMA}}
FORM = {"type": "json_schema", "json_schema": {"name": "reply", "schema": SCHEMA, "strict": True}}
SHAPING: dict[str, Any] = {
    "top_k": 20, "min_p": 0.05, "presence_penalty": 0.5, "frequency_penalty": -0.5, "repetition_penalty": 1.1,
    "length_penalty": 1.0, "stop": ["END"], "stop_token_ids": [7, 8], "include_stop_str_in_output": True,
    "ignore_eos": False, "min_tokens": 1, "bad_words": ["um"], "allowed_token_ids": [1, 2, 3],
    "logit_bias": {"50256": -100}, "skip_special_tokens": False, "spaces_between_special_tokens": False,
    "truncate_prompt_tokens": 100, "add_special_tokens": False, "add_generation_prompt": True,
    "continue_final_message": False, "response_format": FORM, "structured_outputs": {"json": SCHEMA},
    "guided_json": SCHEMA, "guided_regex": "yes|no", "guided_choice": ["yes", "no"],
    "guided_grammar": 'root ::= "yes"', "guided_decoding_backend": "xgrammar", "guided_whitespace_pattern": " ",
    "structural_tag": "{}", "tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "send"}},
    "parallel_tool_calls": False, "chat_template": "{{ messages }}",
    "chat_template_kwargs": {"enable_thinking": False}, "reasoning_effort": "low", "thinking_token_budget": 100,
    "verbosity": "low", "vllm_xargs": {"a": 1}, "watermarking": False,
    "repetition_detection": {"max_pattern_size": 5}, "truncation_side": "left",
}  # fmt: skip
BESIDE: dict[str, Any] = {
    "model": "m", "temperature": 0, "top_p": 0.9, "max_tokens": 9, "max_completion_tokens": 9, "seed": 7, "n": 3,
    "stream": True, "stream_options": {"include_usage": True}, "logprobs": True, "top_logprobs": 5,
    "prompt_logprobs": 1, "user": "alice", "metadata": {"a": "b"}, "store": True, "safety_identifier": "s",
    "prompt_cache_key": "k", "service_tier": "flex", "priority": 1, "request_id": "r", "cache_salt": "s",
    "kv_transfer_params": {"a": 1}, "prediction": {"type": "content"}, "include_reasoning": True,
}  # fmt: skip


def refused(endpoint: str = CHAT, **fields: Any) -> str:
    """Why a request with these fields is left alone."""
    with pytest.raises(NotAuditableError) as refusal:
        conditions_of(endpoint, fields, 64)
    assert refusal.value.reason == "field_not_carried"
    return str(refusal.value)


class TestChat:
    def test_every_field_that_shapes_the_answer_is_carried_unchanged(self) -> None:
        """One value for each; the sets name nothing that is not tried here."""
        assert set(SHAPING) == CARRIED
        assert conditions_of(CHAT, SHAPING | BESIDE, 64) == SHAPING

    def test_what_says_who_asks_and_empty_members_are_left_out(self) -> None:
        """No seed either: answers with one seed would be one answer. Null and empty members are left out too."""
        assert set(BESIDE) <= LEFT_OUT
        assert conditions_of(CHAT, BESIDE, 64) == {}
        assert conditions_of(CHAT, {"stop": None, "tools": [], "tool_choice": "auto", "logit_bias": {}}, 64) == {}

    @pytest.mark.parametrize(
        ("fields", "why"),
        [
            ({"functions": [{"name": "f"}]}, "functions"),
            ({"function_call": "auto"}, "function_call"),
            ({"something_new": 1}, "a field of an unknown name"),
            ({"use_beam_search": True}, "use_beam_search"),
            ({"best_of": 4}, "best_of"),
            ({"echo": True}, "echo"),
            ({"web_search_options": {"a": 1}}, "web_search_options"),
            ({"tools": [{"type": "web_search"}]}, "not a plain function"),
            ({"tools": [{"type": "custom", "custom": {"name": "f"}}]}, "not a plain function"),
            ({"tools": [{"type": "function"}]}, "not a plain function"),
            ({"tools": {"a": 1}}, "not a list"),
            ({"tools": ["send"]}, "not a plain function"),
            ({"temperature": "hot"}, "not a number"),
            ({"max_tokens": True}, "not a number"),
            ({"min_tokens": 65}, "more than a probe"),
            ({"min_tokens": "x"}, "more than a probe"),
            ({"stop": ["x" * LARGEST_BYTES]}, "bytes"),
            ({"x" * 10_000: 1}, "a field of an unknown name"),
            ({"documents": [{"text": "a"}]}, "documents"),
            ({"chat_template_kwargs": {"team": "[email]"}}, "redacted"),
            ({"response_format": {"type": "json_schema", "json_schema": {"schema": {"enum": "[media]"}}}}, "redacted"),
        ],
    )
    def test_what_is_left_alone(self, fields: dict[str, Any], why: str) -> None:
        """Unknown, legacy, redacted, too large, or a tool that a server would run: counted, with the field's name."""
        assert why in refused(**fields)

    def test_a_member_that_changes_nothing_is_no_obstacle(self) -> None:
        """Fields that cannot be carried may stand there with the value that is theirs by default."""
        assert conditions_of(CHAT, {"echo": False, "best_of": 1, "modalities": ["text"]}, 64) == {}

    def test_depth(self) -> None:
        """What is deeper than a schema may be is left alone, before anything recurses further."""
        schema: dict[str, Any] = {}
        for _ in range(DEEPEST_CARRIED + 1):
            schema = {"items": schema}
        assert "levels" in refused(guided_json=schema)


class TestOtherEndpoints:
    def test_responses(self) -> None:
        """Format, effort and tools go under the names of a chat completion."""
        flat = {"type": "function", "name": "send", "description": "Sends.", "parameters": SCHEMA, "strict": None}
        fields = {
            "text": {"format": {"type": "json_schema", "name": "reply", "schema": SCHEMA, "strict": True}},
            "reasoning": {"effort": "low", "summary": "auto"},
            "tools": [flat],
            "tool_choice": {"type": "function", "name": "send"},
            "max_output_tokens": 9,
            "include": ["x"],
            "truncation": "disabled",
            "top_k": 5,
        }
        assert conditions_of(RESPONSES, fields, 64) == {
            "response_format": FORM,
            "reasoning_effort": "low",
            "tools": [TOOL],
            "tool_choice": {"type": "function", "function": {"name": "send"}},
            "top_k": 5,
        }
        assert conditions_of(RESPONSES, {"text": {"format": {"type": "text"}}}, 64) == {}
        assert conditions_of(RESPONSES, {"text": {"format": {"type": "json_object"}, "verbosity": "low"}}, 64) == {
            "response_format": {"type": "json_object"},
            "verbosity": "low",
        }

    def test_messages(self) -> None:
        """Stop sequences, tools and their choice go under the names of a chat completion."""
        flat = {"name": "send", "description": "Sends.", "input_schema": SCHEMA, "cache_control": {"type": "ephemeral"}}
        fields = {"stop_sequences": ["END"], "top_k": 5, "tools": [flat]}
        common = {"stop": ["END"], "top_k": 5, "tools": [TOOL]}
        assert conditions_of(MESSAGES, fields, 64) == common
        choices: list[tuple[dict[str, Any], dict[str, Any]]] = [
            (
                {"type": "auto", "disable_parallel_tool_use": True},
                {"tool_choice": "auto", "parallel_tool_calls": False},
            ),
            ({"type": "none"}, {"tool_choice": "none"}),
            ({"type": "tool", "name": "send"}, {"tool_choice": {"type": "function", "function": {"name": "send"}}}),
        ]  # fmt: skip
        for given, carried in choices:
            assert conditions_of(MESSAGES, fields | {"tool_choice": given}, 64) == common | carried

    @pytest.mark.parametrize(
        ("given", "carried"),
        [
            ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, {"thinking_token_budget": 1024}),
            ({"thinking": {"type": "disabled"}}, {"reasoning_effort": "none"}),
            ({"thinking": {"type": "adaptive"}}, {}),
            (
                {"output_config": {"effort": "low", "format": {"type": "json_schema", "schema": SCHEMA}}},
                {
                    "response_format": {
                        "type": "json_schema",
                        "json_schema": {"name": "json_schema", "schema": SCHEMA},
                    },
                    "reasoning_effort": "low",
                },
            ),
        ],
    )
    def test_thinking_and_output_of_messages(self, given: dict[str, Any], carried: dict[str, Any]) -> None:
        """As vLLM reads them itself."""
        assert conditions_of(MESSAGES, given, 64) == carried

    @pytest.mark.parametrize(
        ("endpoint", "fields"),
        [
            (RESPONSES, {"tools": [{"type": "web_search"}]}),
            (RESPONSES, {"tools": [{"type": "mcp", "server_url": "http://127.0.0.1"}]}),
            (RESPONSES, {"tools": [{"type": "code_interpreter", "container": {"type": "auto"}}]}),
            (RESPONSES, {"tools": 5}),
            (RESPONSES, {"text": "json"}),
            (RESPONSES, {"text": {"format": "json"}}),
            (RESPONSES, {"text": {"other": 1}}),
            (RESPONSES, {"reasoning": {"other": 1}}),
            (RESPONSES, {"truncation": "auto"}),
            (RESPONSES, {"prompt_id": "p"}),
            (MESSAGES, {"tools": [{"type": "bash_20250124", "name": "bash"}]}),
            (MESSAGES, {"tools": [{"type": "custom", "name": "bash"}]}),
            (MESSAGES, {"tool_choice": "auto", "tools": [{"name": "a"}]}),
            (MESSAGES, {"tool_choice": {"type": "new"}, "tools": [{"name": "a"}]}),
            (MESSAGES, {"tool_choice": {"type": ["auto"]}, "tools": [{"name": "a"}]}),
            (MESSAGES, {"thinking": {"type": "enabled"}}),
            (MESSAGES, {"thinking": "on"}),
            (MESSAGES, {"output_config": {"other": 1}}),
            (MESSAGES, {"output_config": {"format": {"type": "new"}}}),
            (MESSAGES, {"mcp_servers": [{"url": "http://127.0.0.1"}]}),
        ],
    )
    def test_what_is_left_alone(self, endpoint: str, fields: dict[str, Any]) -> None:
        """A tool that the server runs itself is in no probe, whatever it is called."""
        refused(endpoint, **fields)


class TestAnything:
    def test_whatever_a_field_holds(self) -> None:
        """Seeded nonsense in every known field of every endpoint is carried or refused by our own error, no other."""
        rng = random.Random(11)
        names = sorted(CARRIED | LEFT_OUT | {"text", "reasoning", "thinking", "output_config", "stop_sequences", "new"})
        outcomes = Counter[str]()
        for _ in range(800):
            fields = {rng.choice(names): _nonsense(rng, 0) for _ in range(3)}
            try:
                carried = conditions_of(rng.choice([CHAT, RESPONSES, MESSAGES]), fields, 64)
                returns_json(carried), offers_tools(carried)
                outcomes["carried"] += 1
            except NotAuditableError as exc:
                outcomes[exc.reason] += 1
        assert set(outcomes) == {"carried", "field_not_carried"}
        assert min(outcomes.values()) > 80

    @pytest.mark.parametrize("stop", ["[" * 260_000, "[email" * 40_000, ["[number"] * 30_000])
    def test_hostile_strings_take_next_to_no_time(self, stop: Any) -> None:
        """What looks like a redaction over and over, and is none."""
        assert processor_seconds(lambda: refused(stop=stop)) < 2


_WORDS = ("function", "type", "name", "json_schema", "schema", "format", "effort", "auto", "tool", "enabled", "x", "")


def _nonsense(rng: random.Random, depth: int) -> Any:
    """A JSON value of the words that conditions look for, in any place."""
    match rng.randrange(8 if depth < 4 else 6):
        case 0:
            return rng.choice([None, True, False, [], {}])
        case 1:
            return rng.choice([0, 1, -1, 2**63, 0.5, 1e300])
        case 2 | 3 | 4 | 5:
            return rng.choice(_WORDS)
        case 6:
            return [_nonsense(rng, depth + 1) for _ in range(rng.randrange(4))]
    return {rng.choice(_WORDS): _nonsense(rng, depth + 1) for _ in range(rng.randrange(5))}


class TestRoom:
    @pytest.mark.parametrize(
        ("fields", "has"),
        [
            ({"answer_tokens": 64}, True),
            ({"answer_tokens": 65}, False),
            ({"answer_tokens": 20, "max_tokens": 20}, True),
            ({"reply_text": "x" * 64}, True),
            ({"reply_text": "x" * 65}, False),
            ({"reply_text": "ü" * 33}, False),
            ({"reply_text": "x" * 1000, "max_tokens": 64}, True),
            ({"reply_text": "x" * 1000, "max_tokens": 65}, False),
        ],
    )
    def test_whether_the_live_answer_fits(self, fields: dict[str, Any], has: bool) -> None:
        """By the server's count, or by bytes, of which no token has less than one; equal limits always fit."""
        assert has_room(Conversation(**{"messages": [], "reply_text": "a"} | fields), 64) is has

    def test_the_count_is_read_of_every_endpoint(self) -> None:
        """Chat completions say completion_tokens, the others output_tokens."""
        said = {"choices": [{"message": {"content": "a"}}], "usage": {"completion_tokens": 5, "prompt_tokens": 9}}
        assert read_conversation(exchange({"messages": []}, said)).answer_tokens == 5
        block = {"content": [{"type": "text", "text": "a"}], "usage": {"output_tokens": 6}}
        assert read_conversation(exchange({"messages": []}, block, endpoint=MESSAGES)).answer_tokens == 6
        for odd in (0, -1, "5", None, 2**63):
            said["usage"] = {"completion_tokens": odd}
            assert read_conversation(exchange({"messages": []}, said)).answer_tokens is None


class TestStore:
    def test_what_is_carried_outlives_the_store(self) -> None:
        """Folded and redacted as a copy is, a request has the same conditions, numbers in schemas too."""
        raw = chat_exchange("Hi", "Hello", **SHAPING)
        stored = folded(raw, None)
        kept = redacted_request(stored.request_body, Redactor(), Counter())
        again = read_conversation(exchange(kept, stored.response_body))
        assert conditions_of(CHAT, again.fields, 64) == SHAPING

    def test_a_list_too_long_to_be_kept_is_not_carried(self) -> None:
        """A vocabulary of allowed tokens is no reason to lose the exchange, nor to ask it without them."""
        raw = chat_exchange("Hi", "Hello", allowed_token_ids=list(range(100_000)))
        stored = folded(raw, 1000)
        assert len(stored.request_body) < 1000
        with pytest.raises(NotAuditableError, match="redacted"):
            conditions_of(CHAT, read_conversation(stored).fields, 64)

    @pytest.mark.parametrize("kind", get_args(Redacted))
    def test_every_kind_of_redaction_is_seen(self, kind: str) -> None:
        """A field of which something was taken out is not what the live request had."""
        assert "redacted" in refused(stop=[f"Call [{kind}]"])
