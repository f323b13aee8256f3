"""A sentence in a request: where it stands, that nothing else changes, and what cannot carry one."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.features.mitigation.instruction import MOST_ELEMENTS, MOST_TRIED, question_texts, with_instruction
from gateway.proxy.body import TooManyMembersError
from tests.support.processor_time import processor_seconds

CHAT, COMPLETIONS, MESSAGES, RESPONSES = ("/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/responses")
SAID = 'Do "not"\nstereotype, étranger.'


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def added(body: Any, endpoint: str = CHAT) -> Any:
    found = with_instruction(json.dumps(body).encode(), endpoint, SAID)
    return None if found is None else json.loads(found)


IMAGE = {"type": "image_url", "image_url": {"url": "x"}}
RESULT = user([{"type": "tool_result", "tool_use_id": "1", "content": "42"}])
SYSTEM = {"role": "system", "content": "s"}
WITH = f"{SAID}\na"
PLACES: dict[str, tuple[str, dict[str, Any], dict[str, Any], list[str]]] = {
    "the last user message": (
        CHAT,
        {"model": "m", "messages": [SYSTEM, user("b"), user("a")], "n": 1},
        {"model": "m", "messages": [SYSTEM, user("b"), user(WITH)], "n": 1},
        ["a"],
    ),
    "the first part that is text": (
        CHAT,
        {"messages": [user([IMAGE, {"text": "a"}, {"text": "b"}])]},
        {"messages": [user([IMAGE, {"text": WITH}, {"text": "b"}])]},
        ["a", "b"],
    ),
    "before a message without text": (
        MESSAGES,
        {"messages": [user("a"), RESULT]},
        {"messages": [user(WITH), RESULT]},
        ["a"],
    ),
    "no user message": (
        CHAT,
        {"messages": [{**SYSTEM, "content": "a"}]},
        {"messages": [{**SYSTEM, "content": WITH}]},
        ["a"],
    ),
    "an input": (RESPONSES, {"input": "a"}, {"input": WITH}, ["a"]),
    "an input in items": (
        RESPONSES,
        {"input": [user([{"type": "input_text", "text": "a"}]), {"type": "reasoning"}]},
        {"input": [user([{"type": "input_text", "text": WITH}]), {"type": "reasoning"}]},
        ["a"],
    ),
    "a prompt": (COMPLETIONS, {"prompt": "a"}, {"prompt": WITH}, ["a"]),
    "every prompt": (COMPLETIONS, {"prompt": ["a", "a"]}, {"prompt": [WITH, WITH]}, ["a", "a"]),
}


@pytest.mark.parametrize(("endpoint", "body", "expected", "texts"), PLACES.values(), ids=PLACES)
def test_where_the_sentence_stands(endpoint: str, body: Any, expected: Any, texts: list[str]) -> None:
    """Before the text of the last message of a user that has text; all else stays. A filter reads all its parts."""
    assert added(body, endpoint) == expected
    assert question_texts(json.dumps(body).encode(), endpoint) == texts


class TestBytes:
    """Nothing else changes."""

    def test_only_the_sentence_is_put_in(self) -> None:
        """Odd spacing, numbers, escapes and names that occur twice stay as the client wrote them."""
        body = b'{ "temperature":1.0e0 ,"x":1, "x":2,\n"messages" : [ {"role":"user" ,"content" : "\\u0041b" } ] }'
        found = with_instruction(body, CHAT, "Hello.")
        assert found == body.replace(b'"\\u0041b"', b'"Hello.\\n\\u0041b"')

    @settings(max_examples=100, derandomize=True, database=None)
    @given(
        st.lists(
            st.tuples(
                st.sampled_from(["user", "assistant", "system", "tool"]),
                st.text(max_size=5) | st.none() | st.lists(st.text(max_size=3).map(lambda text: {"text": text})),
            ),
            max_size=5,
        ),
        st.sampled_from([None, 2]),
        st.booleans(),
    )
    def test_any_conversation(self, turns: list[tuple[str, Any]], indent: int | None, is_ascii: bool) -> None:
        """What is read of the result is the conversation with the sentence in one text, or there is no result."""
        body = {"messages": [{"role": role, "content": content} for role, content in turns], "max_tokens": 3}
        found = with_instruction(json.dumps(body, indent=indent, ensure_ascii=is_ascii).encode(), CHAT, SAID)
        texts = [content for _, content in turns if isinstance(content, str) or content]
        assert (found is None) == (not texts)
        if found is not None:
            changed = json.loads(found)
            assert json.dumps(changed).count(json.dumps(f"{SAID}\n")[1:-1]) == 1
            assert json.dumps(changed).replace(json.dumps(f"{SAID}\n")[1:-1], "") == json.dumps(body)


class TestHostile:
    """Bodies that would carry a question past the policy."""

    def test_a_member_that_occurs_twice(self) -> None:
        """Each of them gets the sentence, whichever a reader takes."""
        twice = b'[{"role":"user","content":"a","content":"b"}]'
        body = b'{"messages":%b,"mess\\u0061ges":[{"role":"user","content":"c"}]}' % twice
        found = with_instruction(body, CHAT, "X")
        assert found is not None
        assert [text in found for text in (b'"X\\na"', b'"X\\nb"', b'"X\\nc"')] == [True] * 3

    @pytest.mark.parametrize(
        ("body", "endpoint"),
        [
            (b'{"prompt":"a","prompt":[1,2]}', COMPLETIONS),
            (b'{"prompt":[1,2,3]}', COMPLETIONS),
            (b'{"prompt":[[1,2],[3]]}', COMPLETIONS),
            (b'{"prompt":["a",[3]]}', COMPLETIONS),
            (b'{"prompt":"a","prompt_embeds":"AAAA"}', COMPLETIONS),
            (b'{"messages":[{"role":"user","content":"a"}],"messages":[]}', CHAT),
            (b'{"messages":[{"role":"user","content":"a","content":[]}]}', CHAT),
            (b'{"messages":[[{"role":"user","content":"a"}]]}', CHAT),
            (b'{"messages":{"role":"user"}}', CHAT),
            (b'{"messages":[]}', CHAT),
            (b'{"model":"m"}', CHAT),
            (b'{"previous_response_id":"r","input":[{"type":"function_call_output","output":"1"}]}', RESPONSES),
            (b'"messages"', CHAT),
            (b"", CHAT),
            (b"\x1f\x8b\x08", CHAT),
            (b"[" * 100_000, CHAT),
            (b'{"messages":' + b"[" * 5_000, CHAT),
        ],
    )
    def test_what_cannot_carry_a_sentence(self, body: bytes, endpoint: str) -> None:
        """It is said, and no part of it is changed."""
        assert with_instruction(body, endpoint, SAID) is None

    @pytest.mark.parametrize(
        "body",
        [
            b'{"messages":[' + b",".join([b'{"role":"user","content":"a"}'] * (MOST_ELEMENTS + 1)) + b"]}",
            b'{"messages":[{"role":"user","content":[' + b",".join([b'{"text":1}'] * (MOST_ELEMENTS + 1)) + b"]}]}",
            b'{%b"messages":[{"role":"user","content":"a"}]}' % (b'"x":0,' * 1_001),
        ],
        ids=["messages", "parts", "members"],
    )
    def test_more_than_is_looked_through(self, body: bytes) -> None:
        """It is refused: passed, it would be a way around the policy."""
        with pytest.raises(TooManyMembersError):
            with_instruction(body, CHAT, SAID)

    @pytest.mark.parametrize(
        "body",
        [
            b'{"messages":[' + b",".join([b'{"role":"user","content":[{"text":0}]}'] * MOST_ELEMENTS) + b"]}",
            b'{"messages":[' + b",".join([b'{"role":"user","content":"a"}'] * MOST_ELEMENTS) + b"]}",
            b'{"messages":[{"role":"user","content":"' + b'\\"' * 4_000_000 + b'"}]}',
            b'{"prompt":[' + b",".join([b'"a"'] * MOST_ELEMENTS) + b"]}",
            b'{"messages":[{"role":"user","content":[' + b",".join([b'{"text":0}'] * MOST_ELEMENTS) + b"]}]}",
        ],
        ids=["no text", "texts", "long", "prompts", "parts"],
    )
    def test_no_body_takes_long(self, body: bytes) -> None:
        """A tenth of a second would be felt by every client of the worker."""
        endpoint = COMPLETIONS if b'"prompt"' in body[:10] else CHAT
        assert processor_seconds(lambda: with_instruction(body, endpoint, SAID)) < 0.1

    def test_messages_without_text_are_given_up_after_some(self) -> None:
        """Behind more of them than are tried the request counts as one that cannot carry the sentence."""
        empty = [user([])] * MOST_TRIED
        assert added({"messages": [user("a"), *empty[1:]]}) is not None
        assert added({"messages": [user("a"), *empty]}) is None
