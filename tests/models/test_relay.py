"""What official clients get of a real model is the same through the gateway as from its server."""

import json
import uuid
from collections.abc import Callable, Iterable
from typing import Any

import anthropic
import httpx
import openai
import pytest

from tests.support.vllm.wire import Recorder, post

MODEL = "smollm2-135m-instruct"
QUESTION: Any = [{"role": "user", "content": "Name three colours."}]
GREEDY = {"temperature": 0, "cache_prompt": False}
"""A server that has the prompt in its cache may round otherwise."""
SETTLED: dict[str, Any] = {"seed": 7, "max_tokens": 12, "extra_body": GREEDY}
VOLATILE = {"id", "created", "created_at", "completed_at", "timings", "item_id", "response_id"}
VOLATILE |= {"cache_read_input_tokens", "input_tokens"}
"""Of Anthropic's API, where the server tells what it had in its cache apart."""
SCHEMA: Any = {
    "type": "json_schema",
    "json_schema": {"name": "colour", "schema": {"type": "object", "properties": {"a": {"type": "boolean"}}}},
}
TOOL: Any = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}


def chat(**fields: Any) -> Callable[[openai.OpenAI], Any]:
    return lambda client: client.chat.completions.create(**{"model": MODEL, "messages": QUESTION, **SETTLED, **fields})


def complete(**fields: Any) -> Callable[[openai.OpenAI], Any]:
    return lambda client: client.completions.create(**{"model": MODEL, "prompt": "Once", **SETTLED, **fields})


CALLS: dict[str, Callable[[openai.OpenAI], Any]] = {
    "chat": chat(),
    "chat with a system message": chat(messages=[{"role": "system", "content": "Answer in French."}, *QUESTION]),
    "chat of several turns": chat(messages=[*QUESTION, {"role": "assistant", "content": "Red."}, *QUESTION]),
    "chat stream": chat(stream=True),
    "chat stream with usage": chat(stream=True, stream_options={"include_usage": True}),
    "chat with log probabilities": chat(logprobs=True, top_logprobs=3),
    "chat with a stop word": chat(stop=["\n"]),
    "chat with a schema": chat(response_format=SCHEMA),
    "chat with a tool": chat(tools=[TOOL]),
    "chat with penalties": chat(frequency_penalty=0.5, presence_penalty=0.5, top_p=0.9),
    "completion": complete(),
    "completion stream": complete(stream=True),
    "completion of several prompts": complete(prompt=["Once", "Twice"]),
    "completion with log probabilities": complete(logprobs=2),
    "models": lambda client: client.models.list(),
    "a model": lambda client: client.models.retrieve(MODEL),
    "embeddings": lambda client: client.embeddings.create(model=MODEL, input="text"),
    "responses": lambda client: client.responses.create(
        model=MODEL, input="Name a colour.", max_output_tokens=8, extra_body=GREEDY
    ),
    "no messages": chat(messages=[]),
    "a message without content": chat(messages=[{"role": "user"}]),
    "an impossible number": chat(max_tokens="many"),
    "a prompt that is too long": chat(messages=[{"role": "user", "content": "word " * 9000}]),
    "a schema that is none": chat(response_format={"type": "json_schema", "json_schema": {"schema": {"type": 3}}}),
    "an unknown path": lambda client: client.post("/some/thing", cast_to=object, body={"a": 1}),
}


def ask(url: str, call: Callable[[openai.OpenAI], Any]) -> Any:
    """Return what a call gave, without what no two calls share: an answer, the events of a stream, or an error."""
    with openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        try:
            answer = call(client)
            if isinstance(answer, openai.Stream):
                return [steady(event.model_dump()) for event in answer]
            return steady(answer.model_dump() if hasattr(answer, "model_dump") else answer)
        except openai.APIStatusError as error:
            return [type(error).__name__, error.status_code, error.body]


def steady(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: steady(part) for key, part in value.items() if key not in VOLATILE}
    return [steady(part) for part in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", CALLS)
def test_the_official_client_gets_the_same(server: str, gateway_url: str, name: str) -> None:
    """Asked directly and through the gateway, a call gives the same answer, events or error."""
    direct, relayed = ask(server, CALLS[name]), ask(gateway_url, CALLS[name])
    assert relayed == direct
    assert relayed


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
def test_the_anthropic_client_gets_the_same(server: str, gateway_url: str, *, is_streamed: bool) -> None:
    """Messages of the Anthropic client come back the same, whole and as events."""

    def message(url: str) -> Any:
        fields: Any = {"model": MODEL, "messages": QUESTION, "max_tokens": 12}
        with anthropic.Anthropic(base_url=url, api_key="none", max_retries=0) as client:
            answer = client.messages.create(**fields, extra_body=GREEDY, stream=is_streamed)
            events: Iterable[Any] = answer if is_streamed else [answer]
            return [steady(event.model_dump()) for event in events]

    assert message(gateway_url) == message(server)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/tokenize", {"content": "Two colours."}),
        ("POST", "/detokenize", {"tokens": [1, 2, 3]}),
        ("GET", "/health", None),
        ("GET", "/version", None),
        ("GET", "/v1/models", None),
        ("GET", "/props", None),
    ],
    ids=lambda value: value if isinstance(value, str) and value.startswith("/") else "",
)
def test_relayed_paths_are_the_servers(server: str, gateway_url: str, method: str, path: str, body: Any) -> None:
    """Status, type and bytes of the server's own paths are the server's, an unknown path's error included."""
    direct, relayed = (httpx.request(method, f"{url}{path}", json=body, timeout=60) for url in (server, gateway_url))
    assert relayed.status_code == direct.status_code
    assert relayed.headers.get("content-type") == direct.headers.get("content-type")
    assert steady(relayed.json()) == steady(direct.json())


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
def test_bytes_pass_unchanged(gateway_url: str, recorder: Recorder, path: str, *, is_streamed: bool) -> None:
    """The client gets the bytes that the server sent, and the server the bytes that the client sent."""
    marker = uuid.uuid4().hex
    fields = {"model": MODEL, "user": marker, "messages": QUESTION, "prompt": "Once", "max_tokens": 8}
    sent = json.dumps({**fields, "stream": is_streamed}, indent=1).encode()
    got = post(gateway_url, path, sent)
    request, upstream = recorder.find(marker)
    assert (request.path, request.body) == (path.encode(), sent)
    assert (got.status, got.body) == (200, upstream.body)
