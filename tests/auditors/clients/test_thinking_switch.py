"""How a server is told whether to think, found out from its replies: scripted servers, each with what it obeys."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from auditors.clients.thinking_switch import MOST_MODELS, ThinkingCompleter, ThinkingSwitch
from auditors.text.thinking import DEFAULT, DEFAULT_BUDGET, OFF, Thinking
from auditors.types import Completion, CompletionError, CompletionRequest, JudgeOutcome, Message

THOUGHT_TOKENS = 100
ANSWER = "yes"
REQUEST = CompletionRequest(model="m", messages=[Message("user", "?")], max_tokens=10)
Obeys = Callable[[dict[str, Any]], bool | str]
"""From what a request says beside its question to whether its model thinks, or to the words of a refusal."""


class Server:
    """A model that thinks THOUGHT_TOKENS unless it is kept from it."""

    def __init__(self, obeys: Obeys, field: str = "reasoning") -> None:
        self.obeys = obeys
        self.field = field
        self.asked = list[CompletionRequest]()

    async def complete(self, request: CompletionRequest) -> Completion:
        self.asked.append(request)
        thinks = self.obeys(dict(request.extra))
        if isinstance(thinks, str):
            raise CompletionError("rejected", thinks, status_code=400)
        if not thinks:
            return Completion(text=ANSWER, finish_reason="stop")
        is_cut = request.max_tokens < THOUGHT_TOKENS + 10
        said = Completion(text=None if is_cut else ANSWER, finish_reason="length" if is_cut else "stop")
        if self.field == "reasoning":
            return msgspec.structs.replace(said, reasoning="No! I can't.", reasoning_field="reasoning")
        if self.field == "counted":
            return msgspec.structs.replace(said, usage={"completion_tokens_details": {"reasoning_tokens": 10}})
        return msgspec.structs.replace(said, text="No! I can't." + ("" if is_cut else f"\n</think>\n{ANSWER}"))

    async def aclose(self) -> None:
        """Nothing is open."""


def never(_: dict[str, Any]) -> bool:
    return True


def by_template(extra: dict[str, Any]) -> bool:
    return bool(extra.get("chat_template_kwargs", {}).get("enable_thinking", True))


def strictly(extra: dict[str, Any]) -> bool | str:
    """A server that refuses every field it does not know, and names it."""
    return f"Unrecognized request argument supplied: {min(extra)}" if extra else True


def silently_strict(extra: dict[str, Any]) -> bool | str:
    return "bad request" if extra else True


def at_least_low(extra: dict[str, Any]) -> bool | str:
    """As gpt-oss: it knows efforts, and no way not to think."""
    return "reasoning_effort='none' is not supported" if extra.get("reasoning_effort") == "none" else True


@pytest.mark.parametrize("field", ["reasoning", "text", "counted"])
@pytest.mark.parametrize(
    ("obeys", "sent", "room"),
    [
        (by_template, {"chat_template_kwargs": {"enable_thinking": False, "thinking": False}}, 0),
        (never, {"reasoning_effort": "low"}, DEFAULT_BUDGET),
        (strictly, {}, DEFAULT_BUDGET),
        (silently_strict, {}, DEFAULT_BUDGET),
        (at_least_low, {"reasoning_effort": "low"}, DEFAULT_BUDGET),
    ],
)
async def test_off_where_the_server_obeys_and_room_where_it_does_not(
    obeys: Obeys, sent: dict[str, Any], room: int, field: str
) -> None:
    """Every question gets its answer, however short its own limit; once a form has held, each takes one request."""
    server = Server(obeys, field)
    switch = ThinkingSwitch(OFF, expects_whole=True)
    for _ in range(4):  # forms are tried as answers come
        assert (await switch.ask(server.complete, REQUEST)).text == ANSWER
    assert len(server.asked) <= 12
    server.asked.clear()
    for _ in range(3):
        assert (await switch.ask(server.complete, REQUEST)).text == ANSWER
    assert [(one.extra, one.max_tokens) for one in server.asked] == [(sent, REQUEST.max_tokens + room)] * 3


async def test_default_sends_nothing_and_learns_to_leave_room() -> None:
    """The server decides; what it decides shows in its first reply."""
    server = Server(by_template)
    switch = ThinkingSwitch(DEFAULT)
    for _ in range(2):
        assert (await switch.ask(server.complete, REQUEST)).text == ANSWER
    assert [one.extra for one in server.asked] == [{}] * 3
    assert [one.max_tokens for one in server.asked] == [10, 10 + DEFAULT_BUDGET, 10 + DEFAULT_BUDGET]


async def test_a_budget_that_is_too_small_is_a_failure_of_its_own() -> None:
    """The reply is asked for once, as it was set, and is no answer."""
    server = Server(never)
    switch = ThinkingSwitch(Thinking("budget", 20))
    with pytest.raises(CompletionError, match="had finished thinking") as failed:
        await switch.ask(server.complete, REQUEST)
    assert failed.value.kind == "thinking_exhausted"
    assert len(server.asked) == 1
    assert server.asked[0].extra["thinking_token_budget"] == 20


async def test_a_servers_limit_is_no_reason_to_ask_without_end() -> None:
    """Thoughts longer than any room end as exhausted, after every form and the room were tried."""
    server = Server(never)

    async def endless(request: CompletionRequest) -> Completion:
        completion = await server.complete(request)
        return msgspec.structs.replace(completion, text=None, finish_reason="length")

    with pytest.raises(CompletionError) as failed:
        await ThinkingSwitch(OFF, expects_whole=True).ask(endless, REQUEST)
    assert failed.value.kind == "thinking_exhausted"
    assert len(server.asked) <= 6


class ShortContext(Server):
    """One that refuses, as vLLM does, what does not fit into 5,000 tokens of one character each."""

    async def complete(self, request: CompletionRequest) -> Completion:
        if len(request.messages[0].content) + request.max_tokens > 5000:
            self.asked.append(request)
            raise CompletionError("rejected", "max_tokens=4106 is too large", status_code=400)
        return await super().complete(request)


async def test_one_long_prompt_takes_no_room_from_the_next() -> None:
    """What does not fit beside a long prompt is refused to that alone, and each length is found out once."""
    server = ShortContext(never)
    switch = ThinkingSwitch(Thinking("on"))
    long = msgspec.structs.replace(REQUEST, messages=[Message("user", "?" * 4000)])
    for _ in range(2):
        assert (await switch.ask(server.complete, long)).text == ANSWER
    assert [one.max_tokens - 10 for one in server.asked] == [4096, 2048, 1024, 512, 512]
    server.asked.clear()
    assert (await switch.ask(server.complete, REQUEST)).text == ANSWER
    assert [one.max_tokens - 10 for one in server.asked] == [DEFAULT_BUDGET]


async def test_a_cut_reply_stands_where_there_is_no_room_to_look_behind_it() -> None:
    """A full context leaves no room: the reply is as it came, and each request but the last is told of."""
    server, noted = ShortContext(lambda _: False), list[JudgeOutcome]()

    async def cut(request: CompletionRequest) -> Completion:
        return msgspec.structs.replace(await server.complete(request), finish_reason="length")

    long = msgspec.structs.replace(REQUEST, messages=[Message("user", "?" * 4900)])
    completion = await ThinkingSwitch(OFF, expects_whole=True).ask(cut, long, noted.append)
    assert (completion.text, completion.finish_reason) == (ANSWER, "length")
    assert noted == ["rejected"] * (len(server.asked) - 1)
    assert 1 < len(server.asked) <= 7


@pytest.mark.parametrize("status", [401, 404, 429])
async def test_other_refusals_pass(status: int) -> None:
    """A wrong key or model is no matter of words, and is not asked again."""
    asked = list[CompletionRequest]()

    async def refuse(request: CompletionRequest) -> Completion:
        asked.append(request)
        raise CompletionError("rejected", "chat_template_kwargs", status_code=status)

    with pytest.raises(CompletionError):
        await ThinkingSwitch(OFF).ask(refuse, REQUEST)
    assert len(asked) == 1


async def test_a_refused_schema_is_left_to_its_sender() -> None:
    """A refusal that does not name a field may be about the schema: the form is not to blame."""
    server = Server(lambda _: "response_format is not supported")
    with pytest.raises(CompletionError):
        await ThinkingSwitch(OFF).ask(server.complete, msgspec.structs.replace(REQUEST, response_schema={}))
    assert len(server.asked) == 1


async def test_models_are_told_apart_and_few_are_remembered() -> None:
    """What one model obeys is no news of another; clients that name many models fill no memory."""
    server = Server(lambda extra: extra.get("reasoning_effort") != "none")
    completer = ThinkingCompleter(server, OFF)
    for number in range(2 * MOST_MODELS):
        request = msgspec.structs.replace(REQUEST, model=f"m{number}")
        assert (await completer.complete(request)).text == ANSWER
    assert len(server.asked) == 4 * MOST_MODELS
    assert len(completer._switches) <= MOST_MODELS
