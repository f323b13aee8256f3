"""Runs against servers that have sampling parameters and a context of their own, over HTTP."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from benchmarks.run.client import open_client
from benchmarks.run.result import Result
from benchmarks.run.runner import Parts, run_plan
from benchmarks.run.thinking import QUESTION
from tests.support.benchmarks.scripted import MemoryLog, plan

Refuse = Callable[[Mapping[str, Any], int], str | None]
"""Why a server refuses a body with so many prompt tokens; None if it takes it."""
PENALTIES = {"presence_penalty": 0, "frequency_penalty": 0}

OTHERS = ("top_p", "repetition_penalty", "min_p", "top_k")


def words_of(body: Mapping[str, Any]) -> int:
    """Return the words of the messages."""
    return sum(len(message["content"].split()) for message in body.get("messages", []))


class Model:
    """A server with a list of models, /props, /tokenize and chat completions. A word is a token."""

    def __init__(self, entry: Mapping[str, Any], refuse: Refuse, *, props: object = None, counts: bool = False) -> None:
        self.bodies: list[dict[str, Any]] = []
        self._refuse = refuse
        self._pages = {"/v1/models": {"data": [{"id": "scripted", **entry}]}, "/props": props}
        self._counts = counts

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                _, _, length = head.lower().partition("content-length:")
                body = await reader.readexactly(int(length.split("\r\n")[0])) if length else b"{}"
                status, reply = self._answer(head.split()[1], json.loads(body))
                content = json.dumps(reply).encode()
                writer.write(b"HTTP/1.1 %d X\r\ncontent-length: %d\r\n\r\n%s" % (status, len(content), content))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionResetError):
            pass
        finally:
            writer.close()

    def _answer(self, path: str, body: dict[str, Any]) -> tuple[int, object]:
        n_prompt = words_of(body)
        if path == "/tokenize" and self._counts:
            return 200, {"tokens": [0] * n_prompt}
        if path != "/v1/chat/completions":
            page = self._pages.get(path)
            return (404, {}) if page is None else (200, page)
        self.bodies.append(body)
        if (words := self._refuse(body, n_prompt)) is not None:
            return 400, {"error": {"message": words}}
        choices = [{"message": {"content": "yes"}, "finish_reason": "length"}] * body.get("n", 1)
        return 200, {"choices": choices, "usage": {"prompt_tokens": n_prompt, "completion_tokens": 1}}


@asynccontextmanager
async def served(model: Model) -> AsyncIterator[str]:
    listener = await asyncio.start_server(model.serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    finally:
        listener.close()


async def run_at(model: Model, judge: Model | None = None, **options: object) -> Result:
    """The result of a short run that asks the server, and the judge's own if there is one."""
    async with AsyncExitStack() as stack:
        clients = [open_client(await stack.enter_async_context(served(one))) for one in (model, judge) if one]
        for client in clients:
            stack.push_async_callback(client.aclose)
        parts: Parts = {"judge": clients[1]} if judge else {}
        return await run_plan(plan(limit=6, **options), completer=clients[0], log=MemoryLog(), **parts)


def refusing(*names: str, is_named: bool = True) -> Refuse:
    """Refuse the first of these parameters that a body has."""

    def refuse(body: Mapping[str, Any], _: int) -> str | None:
        return next((f"Unknown parameter: '{name}'" if is_named else "no" for name in names if name in body), None)

    return refuse


@pytest.mark.parametrize(
    ("software", "refuse", "sent", "refused"),
    [
        ("vllm", refusing(), PENALTIES | {"top_p": 0.95, "top_k": 50, "repetition_penalty": 1, "min_p": 0}, ()),
        ("sglang", refusing(), PENALTIES | {"top_p": 0.95, "top_k": 50, "repetition_penalty": 1, "min_p": 0}, ()),
        ("llamacpp", refusing(), PENALTIES | {"top_p": 0.95, "top_k": 50, "repeat_penalty": 1, "min_p": 0}, ()),
        ("openai", refusing(), PENALTIES | {"top_p": 0.95, "top_k": 50}, ()),
        ("new", refusing("min_p", "repetition_penalty"), PENALTIES | {"top_p": 0.95}, ("min_p", "repetition_penalty")),
        ("new", refusing("min_p", is_named=False), {"top_p": 0.95}, (*PENALTIES, *OTHERS)),
    ],
)
async def test_no_parameter_is_left_to_the_server(
    software: str, refuse: Refuse, sent: dict[str, float], refused: tuple[str, ...]
) -> None:
    """Requests carry the protocol's values and otherwise neutral ones, as far as the server takes them."""
    model = Model({"owned_by": software}, refuse)
    result = await run_at(model)
    last = model.bodies[-1]
    about = result.provenance.server_defaults

    assert {name: last[name] for name in sent} == sent
    assert not {"min_p", "repetition_penalty", "repeat_penalty"} & (last.keys() - sent.keys())
    assert result.counts["error"] == 0
    assert about is not None
    assert (about.software, about.sampling, sorted(about.refused)) == (software, None, sorted(refused))
    assert not set(about.refused) & about.overridden.keys()


async def test_judges_are_asked_under_neutral_sampling_too() -> None:
    """Each server is sent the parameters that it knows, and the result says what the judge's was sent."""
    model, judge = Model({"owned_by": "openai"}, refusing()), Model({"owned_by": "llamacpp"}, refusing("top_k"))
    result = await run_at(model, judge, suite="decision", judge_model="scripted")
    about = result.provenance.judge_defaults

    assert {name: judge.bodies[-1].get(name) for name in (*PENALTIES, "repeat_penalty", "min_p", "top_k")} == {
        **PENALTIES,
        "repeat_penalty": 1,
        "min_p": 0,
        "top_k": None,
    }
    assert about is not None
    assert (about.software, about.refused) == ("llamacpp", ("top_k",))
    assert (await run_at(model)).provenance.judge_defaults is None


async def test_the_users_fields_win_and_what_llama_cpp_tells_is_kept() -> None:
    """`--extra-body` is sent as it is; /props says what the server would have used, and its context."""
    props = {"default_generation_settings": {"n_ctx": 4096, "params": {"repeat_penalty": 1.3}}}
    model = Model({"owned_by": "llamacpp", "meta": {"n_ctx_train": 32768}}, refusing(), props=props)
    about = (await run_at(model, extra_body={"repeat_penalty": 1.1})).provenance.server_defaults

    assert {body["repeat_penalty"] for body in model.bodies} == {1.1}
    assert about is not None
    assert (about.sampling, about.context) == ({"repeat_penalty": 1.3}, 4096)


def holding(context: int) -> Refuse:
    """Refuse as vLLM does what does not fit into the context."""

    def refuse(body: Mapping[str, Any], n_prompt: int) -> str | None:
        if n_prompt + body["max_tokens"] <= context:
            return None
        return (
            f"'max_tokens' or 'max_completion_tokens' is too large: {body['max_tokens']}. This model's maximum context "
            f"length is {context} tokens and your request has {n_prompt} input tokens."
        )

    return refuse


@pytest.mark.parametrize(
    ("told", "counts"),
    [({"max_model_len"}, True), ({"max_model_len"}, False), (set(), False)],
    ids=["context told, tokens counted", "context told", "context learned from a refusal"],
)
@pytest.mark.parametrize(("suite", "context"), [("ltf_test", 2048), ("eec", 70)])
async def test_replies_fit_the_context(told: set[str], counts: bool, suite: str, context: int) -> None:
    """A reply gets what the prompt leaves of the context, and the result says so; nothing fails for its length."""
    refuse = holding(context)
    model = Model({"owned_by": "vllm", **dict.fromkeys(told, context)}, refuse, counts=counts)
    judge = Model({}, refusing())
    result = await run_at(model, judge, suite=suite, subset="eval" if suite == "ltf_test" else None)
    about = result.provenance
    items = [body for body in model.bodies if "min_p" in body and QUESTION not in str(body)]
    limits = [body["max_tokens"] for body in items if refuse(body, words_of(body)) is None]

    assert about.server_defaults is not None
    assert about.server_defaults.context == context
    assert about.replies_lowered > 0
    assert about.least_tokens == min(limits)
    assert about.replies_cut == result.n_replies - result.counts["error"]
    assert result.length_note is not None
    assert not counts or len(limits) == len(items)
