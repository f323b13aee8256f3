"""Records what a real vLLM says, byte by byte: `python -m tools.recording.vllm_traffic`.

It writes recorded_vllm.json. With names of cases, only those are recorded anew.

The model is the tests' tiny one, so the text is nonsense of our own; the shapes and the framing are vLLM's.
"""

import http.client
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from tests.support.vllm.wire import recording
from tests.vllm.conftest import MODEL
from tools.soak.backends import vllm

FIXTURE = Path(__file__).parent / "recorded_vllm.json"


class Recorded(msgspec.Struct, frozen=True):
    """One exchange. `response` holds each byte as the character of its number."""

    name: str
    method: str
    target: str
    request: str
    response: str

    @property
    def request_bytes(self) -> bytes:
        return self.request.encode()

    @property
    def response_bytes(self) -> bytes:
        return self.response.encode("latin-1")


def recorded() -> list[Recorded]:
    """The fixture."""
    return msgspec.json.decode(FIXTURE.read_bytes(), type=list[Recorded])


MESSAGES = [{"role": "user", "content": "Tell me about the härvest \u2028 収穫 🙂."}]
TOOL = {
    "type": "function",
    "function": {
        "name": "look_up",
        "strict": True,
        "parameters": {"type": "object", "properties": {"n": {"enum": [1, 2, 3]}}, "required": ["n"]},
    },
}
CHOSEN_TOOL = {"type": "function", "function": {"name": "look_up"}}
CASES: dict[str, tuple[str, str, dict[str, Any] | None]] = {
    "models": ("GET", "/v1/models", None),
    "chat": ("POST", "/v1/chat/completions", {"messages": MESSAGES, "max_tokens": 5}),
    "chat stream": ("POST", "/v1/chat/completions", {"messages": MESSAGES, "max_tokens": 5, "stream": True}),
    "chat stream with usage": (
        "POST",
        "/v1/chat/completions",
        {"messages": MESSAGES, "max_tokens": 3, "stream": True, "stream_options": {"include_usage": True}},
    ),
    "chat stream with usage each time": (
        "POST",
        "/v1/chat/completions",
        {
            "messages": MESSAGES,
            "max_tokens": 3,
            "stream": True,
            "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        },
    ),
    "chat logprobs stream": (
        "POST",
        "/v1/chat/completions",
        {"messages": MESSAGES, "max_tokens": 2, "stream": True, "logprobs": True, "top_logprobs": 2},
    ),
    "chat two choices": ("POST", "/v1/chat/completions", {"messages": MESSAGES, "max_tokens": 2, "n": 2}),
    "tool call": (
        "POST",
        "/v1/chat/completions",
        {"messages": MESSAGES, "max_tokens": 160, "tools": [TOOL], "tool_choice": CHOSEN_TOOL},
    ),
    "tool call stream": (
        "POST",
        "/v1/chat/completions",
        {"messages": MESSAGES, "max_tokens": 160, "tools": [TOOL], "tool_choice": CHOSEN_TOOL, "stream": True},
    ),
    "completions": ("POST", "/v1/completions", {"prompt": "Once", "max_tokens": 4}),
    "completions stream": ("POST", "/v1/completions", {"prompt": "Once", "max_tokens": 3, "stream": True, "n": 2}),
    "responses": ("POST", "/v1/responses", {"input": "Once", "max_output_tokens": 4}),
    "responses stream": ("POST", "/v1/responses", {"input": "Once", "max_output_tokens": 3, "stream": True}),
    "messages": ("POST", "/v1/messages", {"messages": MESSAGES, "max_tokens": 4}),
    "messages stream": ("POST", "/v1/messages", {"messages": MESSAGES, "max_tokens": 3, "stream": True}),
    "embeddings": ("POST", "/v1/embeddings", {"input": ["härvest", "収穫 🙂"]}),
    "embeddings base64": ("POST", "/v1/embeddings", {"input": "text", "encoding_format": "base64"}),
    "embeddings refused": ("POST", "/v1/embeddings", {"input": "text"}),
    "unknown model": ("POST", "/v1/chat/completions", {"messages": MESSAGES, "model": "no-such-model"}),
    "impossible value": ("POST", "/v1/chat/completions", {"messages": MESSAGES, "max_tokens": -3}),
    "tokenize": ("POST", "/tokenize", {"prompt": "Once upon a time"}),
    "no such path": ("GET", "/v1/some/thing?else=1", None),
}
EMBEDDED = ("embeddings", "embeddings base64")
REFUSED = ("embeddings refused", "unknown model", "impossible value", "no such path")


CHATTING = ("--enable-auto-tool-choice", "--tool-call-parser", "hermes")
EMBEDDING = ("--runner", "pooling", "--convert", "embed")
"""Options of `vllm serve`: one server either writes or embeds."""


def record(options: tuple[str, ...], names: list[str]) -> dict[str, Recorded]:
    """Starts vLLM and asks it these cases through a recorder."""
    found = {}
    with (
        tempfile.TemporaryDirectory() as home,
        vllm(Path(home), *options) as backend,
        recording(backend.url) as recorder,
    ):
        for name in names:
            method, target, fields = CASES[name]
            body = json.dumps({"model": MODEL, **fields}, ensure_ascii=False) if fields is not None else ""
            connection = http.client.HTTPConnection(recorder.origin.removeprefix("http://"), timeout=60)
            connection.request(method, target, body.encode() or None, {"content-type": "application/json"})
            connection.getresponse().read()
            connection.close()
            raw = bytes(recorder.tapes[-1].received).decode("latin-1")
            # What is asked for as /tokenize is relayed under /v1 only.
            found[name] = Recorded(name, method, target if target.startswith("/v1") else f"/v1{target}", body, raw)
            sys.stdout.write(f"{name}: {raw.splitlines()[0]}, {len(raw)} bytes\n")
    return found


def main() -> None:
    """Records all cases, or those that are named, and writes the fixture."""
    wanted = sys.argv[1:] or list(CASES)
    found = {one.name: one for one in recorded()} if sys.argv[1:] else {}
    for options, does_embed in ((CHATTING, False), (EMBEDDING, True)):
        if names := [name for name in wanted if (name in EMBEDDED) is does_embed]:
            found |= record(options, names)
    ordered = [found[name] for name in CASES if name in found]
    FIXTURE.write_bytes(msgspec.json.format(msgspec.json.encode(ordered), indent=1) + b"\n")


if __name__ == "__main__":
    main()
