"""The `Completer` of suite runs: the auditors' client, with the requests that only suites send.
The probability of a given text is asked token by token, as bytes (/tokenize and /v1/completions), with all beginnings
in one request: a vLLM that serves adapters gives wrong log-probabilities of a prompt (`echo`, `prompt_logprobs`) or
dies of them (vllm-project/vllm issues 29955, 16668, 51594).
"""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import msgspec

from auditors.clients.chat_format import batch_body, chat_body, parse_batch, parse_chat
from auditors.clients.completion import HttpEndpoint
from auditors.clients.failures import refused_by_filter
from auditors.clients.model_list import LONGEST_LIST_BYTES, MODELS_PATH, read_models, read_serving
from auditors.clients.pacing import OPEN, Gate
from auditors.json_errors import UNREADABLE
from auditors.types import Completion, CompletionError, CompletionRequest, Message, Serving
from benchmarks.errors import BenchmarkError
from benchmarks.run.completers.served import LONGEST_POLICY, POLICY

# The probability of a given text: pure functions.


MOST_TOKENS = 128
"""Most tokens of a text: as many kinds of token as vLLM takes in `logprob_token_ids`."""


class _Tokens(msgspec.Struct):
    tokens: list[int]


class _Logprobs(msgspec.Struct):
    top_logprobs: list[dict[str, float]]


class _Choice(msgspec.Struct):
    index: int
    logprobs: _Logprobs | None = None


class _Completion(msgspec.Struct):
    choices: list[_Choice]


def read_tokens(body: bytes) -> list[int]:
    """Raises CompletionError of kind "malformed" for a reply without tokens."""
    try:
        return msgspec.json.decode(body, type=_Tokens).tokens
    except UNREADABLE as exc:
        raise CompletionError("malformed", f"the reply to /tokenize has no tokens: {exc}", status_code=200) from None


def beginnings_body(model: str, tokens: Sequence[int], first: int) -> bytes:
    """Body of POST /v1/completions: every beginning from `first` tokens on. CompletionError "rejected": too long."""
    following = sorted(set(tokens[first:]))
    if len(following) > MOST_TOKENS:
        raise CompletionError("rejected", f"a text of {len(tokens)} tokens is too long")
    fields: dict[str, Any] = {"model": model, "prompt": [tokens[:end] for end in range(first, len(tokens))]}
    fields |= {"max_tokens": 1, "temperature": 1, "logprobs": 0, "logprob_token_ids": following}
    return msgspec.json.encode(fields | {"return_tokens_as_token_ids": True})


def read_logprobs(body: bytes, tokens: Sequence[int], first: int) -> list[float]:
    """Each token's natural log-probability given those before it, from `first` on. CompletionError "malformed"."""
    try:
        choices = {choice.index: choice for choice in msgspec.json.decode(body, type=_Completion).choices}
    except UNREADABLE as exc:
        raise CompletionError("malformed", f"no completion with log-probabilities: {exc}", status_code=200) from None
    values = []
    for place, token in enumerate(tokens[first:]):
        logprobs = choices[place].logprobs if place in choices else None
        by_token = logprobs.top_logprobs[0] if logprobs is not None and logprobs.top_logprobs else {}
        value = by_token.get(f"token_id:{token}")
        if value is None:
            raise CompletionError("malformed", "it does not tell the probability of a token asked for", status_code=200)
        values.append(value)
    return values


# The client.


CHAT_PATH = "/v1/chat/completions"
TOKENIZE_PATH = "/tokenize"
LONGEST_METRICS_BYTES = 1024 * 1024
_BEGAN = re.compile(rb"^process_start_time_seconds[ \t]+([0-9.e+]+)", re.MULTILINE)
RETRIES = 3
REQUEST_SECONDS = 300.0
GATEWAY_HEADERS: Mapping[str, str] = {"x-biasgate-audit": "off", "x-biasgate-priority": "audit"}
"""Sent through a biasgate gateway, so that an audit is not itself sampled as live traffic, and gives way to that."""


def open_client(
    base_url: str,
    api_key: str | None = None,
    concurrency: int = 32,
    priority: int | None = None,
    *,
    timeout: float = REQUEST_SECONDS,
    retries: int = RETRIES,
    headers: Mapping[str, str] | None = None,
    gate: Gate = OPEN,
    endpoint: type[HttpEndpoint] = HttpEndpoint,
) -> "SuiteClient":
    """A client for one OpenAI-compatible server (a trailing /v1 is allowed), not yet connected. The key is a bearer
    token, never logged; `priority` is vLLM's; `timeout` is of one attempt; `retries` follow a failed connection, 429 or
    5xx; `gate` lets each attempt through. Raises BenchmarkError for an unusable URL or key.
    """
    origin = base_url.rstrip("/").removesuffix("/v1").rstrip("/")
    if urlsplit(origin).scheme not in ("http", "https") or not urlsplit(origin).hostname:
        raise BenchmarkError(f'"{base_url}" is not a URL of a model server: it must look like http://127.0.0.1:8000')
    if api_key and not (api_key.isascii() and api_key.isprintable()):
        raise BenchmarkError(f"the client for {host(base_url)} cannot be set up: its key is not printable ASCII")
    try:
        opened = endpoint(
            origin,
            api_key,
            timeout=timeout,
            retries=retries,
            max_concurrency=concurrency,
            gate=gate,
            headers=headers or {},
            waits_when_deferred=True,
        )
    except ValueError as exc:  # of a port, or of a host name
        raise BenchmarkError(f"the client for {host(base_url)} cannot be set up: {exc}") from exc
    return SuiteClient(opened, priority)


class SuiteClient:
    """See `open_client`."""

    def __init__(self, endpoint: HttpEndpoint, priority: int | None) -> None:
        self._endpoint = endpoint
        self._priority = priority

    async def complete(self, request: CompletionRequest) -> Completion:
        """Return the first choice or a filter's refusal, a gateway's POLICY in its usage. Raises CompletionError."""
        body = chat_body(request, self._priority)
        policies: list[str | None] = [None]

        def hear(headers: Mapping[str, str]) -> None:
            policies[0] = headers.get(POLICY)

        try:
            answer = await self._endpoint.post(CHAT_PATH, body, replies=request.extra.get("n", 1), hear=hear)
            completion = parse_chat(answer)
        except CompletionError as exc:
            completion = refused_by_filter(exc)
        if (policy := policies[0]) is None:
            return completion
        return msgspec.structs.replace(completion, usage={**(completion.usage or {}), POLICY: policy[:LONGEST_POLICY]})

    async def complete_all(self, requests: Sequence[CompletionRequest]) -> list[Completion]:
        """See `benchmarks.run.exact.batching.CompletesBatches`."""
        body = batch_body(requests, self._priority)
        return parse_batch(await self._endpoint.post(f"{CHAT_PATH}/batch", body, replies=len(requests)), len(requests))

    async def serving(self, model: str) -> Serving:
        """See `auditors.types.TellsServing`."""
        return await read_serving(partial(self._endpoint.get_once, longest=LONGEST_LIST_BYTES), model)

    async def served(self) -> list[dict[str, Any]]:
        """Return the models that the server serves, each with its name as "id". Raises CompletionError without any."""
        return read_models(await self._endpoint.get_once(MODELS_PATH, longest=LONGEST_LIST_BYTES))

    async def tokenized(self, model: str, text: str) -> list[int]:
        """The tokens of a text, as the server begins one. Raises CompletionError where it does not tell."""
        return read_tokens(
            await self._endpoint.post(TOKENIZE_PATH, msgspec.json.encode({"model": model, "prompt": text}))
        )

    async def count_tokens(self, model: str, messages: Sequence[Message]) -> int:
        """Return the tokens of a conversation, as vLLM's /tokenize counts them. Raises CompletionError otherwise."""
        body = msgspec.json.encode({"model": model, "messages": messages})
        return len(read_tokens(await self._endpoint.post(TOKENIZE_PATH, body)))

    async def logprobs(self, model: str, tokens: Sequence[int], first: int) -> list[float]:
        """Return the natural log-probability of each token from that at `first` (1 or more). Raises CompletionError."""
        body = beginnings_body(model, tokens, first)
        content = await self._endpoint.post("/v1/completions", body, replies=len(tokens) - first)
        return read_logprobs(content, tokens, first)

    async def began(self) -> str | None:
        """Return when the server's process began, as its /metrics say; None if they do not."""
        try:
            page = await self._endpoint.get_once("/metrics", longest=LONGEST_METRICS_BYTES)
        except CompletionError:
            return None
        matches = _BEGAN.findall(page)
        return matches[0].decode() if len(matches) == 1 else None

    async def aclose(self) -> None:
        await self._endpoint.aclose()


def host(base_url: str) -> str:
    """Host and port of a URL without user, password or path, for the provenance."""
    return urlsplit(base_url).netloc.rpartition("@")[2]
