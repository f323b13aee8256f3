"""The judge client against a real server: with schemas, without, and with replies that cannot be read."""

from collections.abc import Callable

import msgspec
import pytest

from auditors.clients.judge_client import (
    ATTEMPTS,
    JudgeClient,
    Judgement,
    JudgeQuestion,
    UnreadableError,
    prompt_sha256,
)
from auditors.clients.thinking_switch import ThinkingCompleter
from auditors.text.thinking import OFF, Thinking
from auditors.types import CompletionError, JudgeForm, Message
from tests.support.auditors.scripted import Asked, Reply, ScriptedServer, chat, scripted_completer

QUESTION = JudgeQuestion(
    messages=[Message("user", "Is it 1 or 2? Number only.")],
    schema_messages=[Message("user", "Is it 1 or 2? As JSON.")],
    prompt_sha256=prompt_sha256("Is it 1 or 2?"),
    schema={"title": "number", "type": "integer"},
)
REFUSES_SCHEMAS = Reply(b'{"error": {"message": "response_format is not supported"}}', 400)


def number(text: str | None) -> int:
    if text not in ("1", "2"):
        raise UnreadableError(f"{text} is neither 1 nor 2")
    return int(text)


def is_schema(asked: Asked) -> bool:
    return "response_format" in asked.json


async def asked_of(
    script: Callable[[Asked], Reply],
    times: int = 1,
    *,
    question: JudgeQuestion = QUESTION,
    form: JudgeForm | None = None,
) -> tuple[list[Judgement[int]], ScriptedServer]:
    """What a judge with this script says to the same question, asked one time after the other."""
    async with scripted_completer(script) as (completer, server):
        judge = JudgeClient(completer, "judge", form=form)
        return [await judge.ask(lambda: question, number) for _ in range(times)], server


@pytest.mark.parametrize(
    ("thinking", "stamped"), [(None, "default"), (OFF, "off"), (Thinking("budget", 64), "budget=64")]
)
async def test_the_stamp_says_how_the_judge_was_asked_to_think(thinking: Thinking | None, stamped: str) -> None:
    """By what was sent, and what the server says that it serves: with another of either it is another judge."""
    reply = {"choices": [{"message": {"content": "2"}, "finish_reason": "stop"}], "system_fingerprint": "v1"}
    async with scripted_completer(lambda _: Reply(msgspec.json.encode(reply))) as (completer, _):
        asked = completer if thinking is None else ThinkingCompleter(completer, thinking)
        found = await JudgeClient(asked, "judge").ask(lambda: QUESTION, number)

    assert (found.stamp.thinking, found.stamp.fingerprint) == (stamped, "v1")


async def test_a_server_that_takes_schemas_is_held_to_them() -> None:
    """The schema and its own wording are sent; the stamp names model, question, form and attempts."""
    [found], server = await asked_of(lambda _: chat("2"))

    assert (found.value, found.text) == (2, "2")
    assert (found.stamp.model, found.stamp.form, found.stamp.attempts) == ("judge", "schema", 1)
    assert found.stamp.prompt_sha256 == QUESTION.prompt_sha256
    assert server.asked[0].json["messages"][0]["content"].endswith("As JSON.")


async def test_a_server_that_refuses_schemas_is_asked_in_free_text_from_then_on() -> None:
    """One refused request, not one a question; the stamps say "text"."""
    found, server = await asked_of(lambda asked: REFUSES_SCHEMAS if is_schema(asked) else chat("1"), 3)

    assert [one.stamp.form for one in found] == ["text"] * 3
    assert [is_schema(one) for one in server.asked] == [True, False, False, False]
    assert server.asked[1].json["messages"][0]["content"].endswith("Number only.")


async def test_a_refusal_after_schemas_worked_is_a_failure() -> None:
    """A question too long for the model does not turn the form of all later ones."""
    replies = [chat("1"), REFUSES_SCHEMAS]

    with pytest.raises(CompletionError, match="not supported") as caught:
        await asked_of(lambda _: replies.pop(0), 2)
    assert caught.value.kind == "rejected"


async def test_an_unreadable_reply_is_asked_for_twice_more() -> None:
    """The third reply counts, and three are the end: no value, the reason and the last text."""
    replies = ["one", "", "2"]
    [found], _ = await asked_of(lambda _: chat(replies.pop(0)))
    [failed], server = await asked_of(lambda _: chat("either"))

    assert (found.value, found.stamp.attempts) == (2, 3)
    assert (failed.value, failed.text, len(server.asked)) == (None, "either", ATTEMPTS)
    assert failed.reason == "no verdict in 3 replies: either is neither 1 nor 2"


async def test_a_question_asked_again_is_another_draw_with_more_tokens() -> None:
    """At temperature 0 the same unreadable reply would come again; one that was cut off gets four times the tokens."""
    cut = Reply(
        msgspec.json.encode({"choices": [{"message": {"content": "First, I look"}, "finish_reason": "length"}]})
    )
    replies = [cut, chat("neither"), chat("2")]
    [found], server = await asked_of(lambda _: replies.pop(0))

    assert (found.value, found.stamp.attempts) == (2, 3)
    assert [one.json["temperature"] for one in server.asked] == [0.0, 0.7, 0.7]
    assert [one.json["max_tokens"] for one in server.asked] == [256, 1024, 1024]


async def test_more_tokens_than_a_context_has_are_not_insisted_on() -> None:
    """A judge of a short context that is cut off gives no verdict that can be read; it is not said to reject it."""
    cut = msgspec.json.encode({"choices": [{"message": {"content": "First, I look"}, "finish_reason": "length"}]})
    refused = b'{"error": {"message": "max_tokens=1024 cannot be greater than max_model_len=1000"}}'

    def short(asked: Asked) -> Reply:
        return Reply(refused, 400) if asked.json["max_tokens"] > 1000 else Reply(cut)

    [found], server = await asked_of(short)

    assert (found.value, found.stamp.attempts) == (None, ATTEMPTS)
    assert [one.json["max_tokens"] for one in server.asked] == [256, 1024, 256, 256]
