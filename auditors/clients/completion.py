"""HTTP client of the OpenAI chat and embeddings endpoints, with retries and named failures.

Building a body and reading a reply are pure functions, shared with the suite runner's client; only `HttpEndpoint` does
I/O. A failure is a `CompletionError` whose kind says what to count: `unavailable` (no connection, 429, 5xx), `timeout`,
`rejected` (any other 4xx, for example a template or server that does not take the request), `malformed` (a 200 that
cannot be read, or is longer than any reply that was asked for).
"""

import asyncio
import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import httpx
import msgspec

from auditors.clients.bounded_body import ACCEPT_ENCODING, BodyError, read_beginning, read_body
from auditors.clients.cancellation import cancelled_once
from auditors.clients.model_list import LONGEST_LIST_BYTES, MODELS_PATH, read_models
from auditors.clients.pacing import OPEN, OVERLOADED, EvictedError, Gate, Turn
from auditors.types import Completion, CompletionError, CompletionRequest, FailureKind

CONNECT_TIMEOUT_SECONDS = 5.0
BACKOFF_SECONDS = 0.25
LONGEST_PAUSE_SECONDS = 30.0
LONGEST_MESSAGE = 300
LONGEST_REPLY_BYTES = 4 * 1024 * 1024
"""Of a chat completion, decoded: a hundred times what the longest answer asked for has."""
LONGEST_ERROR_BYTES = 64 * 1024
"""Of the body beside any other status than 200, of which only a few words are kept."""
LONGEST_VECTOR_BYTES = 256 * 1024
"""Of one embedding as JSON: some ten thousand dimensions."""
LONGEST_USAGE_BYTES = 16 * 1024
LONGEST_LOGPROBS_BYTES = 1024 * 1024
"""Read into Python objects, these two take up to thirty times their length."""
UNSAMPLED: Mapping[str, str] = {"x-biasgate-audit": "off"}
"""Sent with everything an auditor asks: a biasgate gateway that honours it from this key samples no probe."""

Sign = Callable[[bytes], Mapping[str, str]]
"""Further headers of one request, made from its body."""


def unsigned(_: bytes) -> Mapping[str, str]:
    """No further headers."""
    return {}


_NOTHING = msgspec.Raw(b"null")


class _Message(msgspec.Struct):
    content: str | None = None
    refusal: str | None = None


class _Choice(msgspec.Struct):
    message: _Message
    index: int = 0
    finish_reason: str | None = None
    logprobs: msgspec.Raw = _NOTHING


class _Chat(msgspec.Struct):
    choices: list[_Choice]
    usage: msgspec.Raw = _NOTHING
    system_fingerprint: str | None = None


class _Vector(msgspec.Struct):
    index: int
    embedding: list[float]


class _Vectors(msgspec.Struct):
    data: list[_Vector]


_chat_decoder = msgspec.json.Decoder(_Chat)
_vectors_decoder = msgspec.json.Decoder(_Vectors)
_object_decoder = msgspec.json.Decoder(dict[str, Any] | None)
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for bytes that are no JSON, not of the shape asked for, or nested too deeply."""


def chat_body(request: CompletionRequest, priority: int | None = None) -> bytes:
    """JSON body of POST /v1/chat/completions.

    Args:
        request: what to ask; fields that are None are left out.
        priority: vLLM scheduling priority (larger is later); None leaves the field out, as servers without
            priority scheduling refuse it.

    Returns: the body; `response_schema` becomes a strict `response_format` named by the schema's "title";
        `request.extra` is merged last.
    """
    body: dict[str, Any] = {
        "model": request.model,
        "messages": request.messages,
        "max_tokens": request.max_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "seed": request.seed,
        "priority": priority,
    }
    if request.response_schema is not None:
        body["response_format"] = {
            "type": "json_schema",
            "json_schema": {
                "name": request.response_schema.get("title", "reply"),
                "schema": request.response_schema,
                "strict": True,
            },
        }
    return msgspec.json.encode({k: v for k, v in body.items() if v is not None} | dict(request.extra))


def parse_chat(body: bytes) -> Completion:
    """First choice of a chat completion. Raises CompletionError of kind "malformed" if there is none to read."""
    try:
        chat = _chat_decoder.decode(body)
        if not chat.choices:
            raise CompletionError("malformed", "the reply has no choices", status_code=200)
        choice = min(chat.choices, key=lambda one: one.index)
        usage = _object("usage", chat.usage, LONGEST_USAGE_BYTES)
        logprobs = _object("logprobs", choice.logprobs, LONGEST_LOGPROBS_BYTES)
    except UNREADABLE as exc:
        raise CompletionError("malformed", f"the reply is no chat completion: {exc}", status_code=200) from exc
    return Completion(
        text=choice.message.content,
        finish_reason=choice.finish_reason,
        usage=usage,
        fingerprint=chat.system_fingerprint,
        logprobs=logprobs,
        refusal=choice.message.refusal,
    )


def _object(name: str, raw: msgspec.Raw, longest: int) -> dict[str, Any] | None:
    """A part of a reply that may have any fields. Raises CompletionError, or one of UNREADABLE."""
    if len(memoryview(raw)) > longest:
        raise CompletionError("malformed", f"the reply's {name} is longer than {longest} bytes", status_code=200)
    found: dict[str, Any] | None = _object_decoder.decode(raw)
    return found


def failure(status_code: int, body: bytes, api_key: str | None = None) -> CompletionError:
    """The error that a status other than 200 stands for, with the server's own words, cut to one line.

    Some servers repeat the key that they did not take; `api_key` is left out of the words.
    """
    kind: FailureKind = "unavailable" if is_worth_retrying(status_code) else "rejected"
    words = _server_words(body)
    words = words.replace(api_key, "[key]") if api_key else words
    return CompletionError(kind, f"status {status_code}: {words[:LONGEST_MESSAGE]}", status_code=status_code)


def is_worth_retrying(status_code: int) -> bool:
    """429 and 5xx pass; any other status would fail the same way again."""
    return status_code == 429 or status_code >= 500


def pause_seconds(attempt: int, headers: Mapping[str, str], rng: random.Random) -> float:
    """Wait before retry number `attempt` (from 1): Retry-After in seconds when sent, else doubling with full jitter.

    Returns: seconds, at most LONGEST_PAUSE_SECONDS.
    """
    try:
        asked = float(headers["retry-after"])
    except (KeyError, ValueError):
        asked = math.nan
    if math.isnan(asked):  # not sent, a date, or the word "nan"
        asked = rng.uniform(0.5, 1.0) * BACKOFF_SECONDS * 2**attempt
    return min(max(asked, 0.0), LONGEST_PAUSE_SECONDS)


class _Reply(NamedTuple):
    """A reply as it came: status, headers, and as much of the body as was wanted."""

    status_code: int
    headers: Mapping[str, str]
    content: bytes


class HttpEndpoint:
    """POSTs JSON to one OpenAI-compatible server; bounded concurrency, one time limit per attempt, jittered retries."""

    def __init__(
        self,
        base_url: str,
        api_key: str | None = None,
        *,
        timeout: float = 120.0,
        retries: int = 2,
        max_concurrency: int = 16,
        gate: Gate = OPEN,
        sign: Sign = unsigned,
        rng: random.Random | None = None,
    ) -> None:
        """Opens no connection yet.

        Args:
            base_url: e.g. "http://127.0.0.1:8000"; a trailing /v1 is allowed.
            api_key: sent as a bearer token; never logged.
            timeout: seconds for one attempt, connection to last byte.
            retries: further attempts after a failed connection, 429 or 5xx; a timeout is not retried.
            max_concurrency: requests in flight; more wait here.
            gate: gives each attempt a slot; its time limit begins then.
            sign: makes further headers of each POST.
            rng: jitter of the pauses; seeded in tests.
        """
        self._timeout = timeout
        self._retries = retries
        self._gate = gate
        self._api_key = api_key
        self._sign = sign
        self._rng = rng or random.Random()
        self._slots = asyncio.Semaphore(max_concurrency)
        self._client = httpx.AsyncClient(
            base_url=base_url.rstrip("/").removesuffix("/v1").rstrip("/"),
            headers={"content-type": "application/json", **ACCEPT_ENCODING, **UNSAMPLED}
            | ({"authorization": f"Bearer {api_key}"} if api_key else {}),
            timeout=httpx.Timeout(None, connect=min(timeout, CONNECT_TIMEOUT_SECONDS)),  # `_attempt` has the limit
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=max_concurrency),  # `_slots` has
        )

    async def get(self, path: str, *, longest: int = LONGEST_REPLY_BYTES) -> bytes:
        """As `post`, without a body."""
        return await self._send("GET", path, None, longest)

    async def post(self, path: str, body: bytes, *, longest: int = LONGEST_REPLY_BYTES) -> bytes:
        """Body of the 200 reply, of at most so many bytes. Raises CompletionError once retries are spent."""
        return await self._send("POST", path, body, longest)

    async def _send(self, method: str, path: str, body: bytes | None, longest: int) -> bytes:
        async with self._slots:
            attempt, turn = 0, Turn(body or b"")
            while True:
                headers: Mapping[str, str] = {}
                try:
                    async with self._gate.slot(turn):
                        response = await self._attempt(method, path, body, longest)
                        if response.status_code in OVERLOADED:
                            self._gate.on_overload()
                    if response.status_code == 200:
                        return response.content
                    error, headers = failure(response.status_code, response.content, self._api_key), response.headers
                except EvictedError:
                    continue
                except CompletionError as exc:
                    error = exc
                attempt += 1
                if error.kind != "unavailable" or attempt > self._retries:
                    raise error
                await asyncio.sleep(pause_seconds(attempt, headers, self._rng))

    async def aclose(self) -> None:
        """Closes every connection."""
        await self._client.aclose()

    async def _attempt(self, method: str, path: str, body: bytes | None, longest: int) -> _Reply:
        where = f"{self._client.base_url.host}:{self._client.base_url.port or ''}{path}"
        try:
            async with asyncio.timeout(self._timeout):
                return await cancelled_once(self._exchange(method, path, body, longest))
        except BodyError as exc:
            raise CompletionError("malformed", f"{where}: {exc}", status_code=200) from exc
        except TimeoutError as exc:
            raise CompletionError("timeout", f"{where}: no reply within {self._timeout:g} s") from exc
        except (httpx.ConnectError, httpx.ConnectTimeout) as exc:
            message = f"{where}: {type(exc).__name__}: {exc}"
            raise CompletionError("unavailable", message, was_reached=False) from exc
        except httpx.HTTPError as exc:
            raise CompletionError("unavailable", f"{where}: {type(exc).__name__}: {exc}") from exc

    async def _exchange(self, method: str, path: str, body: bytes | None, longest: int) -> _Reply:
        headers = self._sign(body) if body is not None else {}
        async with self._client.stream(method, path, content=body, headers=headers) as response:
            encoding = response.headers.get("content-encoding", "")
            if response.status_code == 200:
                content = await read_body(response.aiter_raw(), encoding, longest)
            else:
                content = await read_beginning(response.aiter_raw(), encoding, LONGEST_ERROR_BYTES)
            return _Reply(response.status_code, response.headers, content)


async def served_models(base_url: str, api_key: str | None = None) -> dict[str, dict[str, Any]]:
    """Name to entry of a server's own model list. Raises CompletionError when it does not answer with one."""
    endpoint = HttpEndpoint(base_url, api_key, timeout=CONNECT_TIMEOUT_SECONDS, retries=0)
    try:
        entries = read_models(await endpoint.get(MODELS_PATH, longest=LONGEST_LIST_BYTES))
    except CompletionError as exc:
        if exc.kind == "malformed":
            raise CompletionError("malformed", f"{base_url}: {exc}") from exc
        raise
    finally:
        await endpoint.aclose()
    return {entry["id"]: entry for entry in entries}


class HttpCompleter:
    """The `Completer` over httpx, for everything that is not a suite run."""

    def __init__(
        self,
        base_url: str,
        api_key: str | None = None,
        *,
        timeout: float = 120.0,
        retries: int = 2,
        priority: int | None = None,
        max_concurrency: int = 16,
        gate: Gate = OPEN,
        sign: Sign = unsigned,
    ) -> None:
        """See HttpEndpoint; `priority` is sent with every request (None: left out)."""
        self._endpoint = HttpEndpoint(
            base_url, api_key, timeout=timeout, retries=retries, max_concurrency=max_concurrency, gate=gate, sign=sign
        )
        self._priority = priority

    async def complete(self, request: CompletionRequest) -> Completion:
        """Returns the first choice. Raises CompletionError once retries are spent."""
        return parse_chat(await self._endpoint.post("/v1/chat/completions", chat_body(request, self._priority)))

    async def aclose(self) -> None:
        """Closes every connection."""
        await self._endpoint.aclose()


class EmbeddingClient:
    """POST /v1/embeddings as plain lists; `auditors.embedding.RemoteEmbedder` makes vectors of them."""

    def __init__(
        self, base_url: str, api_key: str | None = None, *, timeout: float = 120.0, max_concurrency: int = 4
    ) -> None:
        """See HttpEndpoint."""
        self._endpoint = HttpEndpoint(base_url, api_key, timeout=timeout, max_concurrency=max_concurrency)

    async def embed(self, model: str, texts: Sequence[str]) -> list[list[float]]:
        """One vector per text, in order. Raises CompletionError, of kind "malformed" if any vector is missing."""
        asked = msgspec.json.encode({"model": model, "input": list(texts)})
        body = await self._endpoint.post("/v1/embeddings", asked, longest=LONGEST_VECTOR_BYTES * (1 + len(texts)))
        try:
            vectors = {one.index: one.embedding for one in _vectors_decoder.decode(body).data}
            return [vectors[index] for index in range(len(texts))]
        except (*UNREADABLE, KeyError) as exc:
            raise CompletionError("malformed", f"the reply has no {len(texts)} embeddings: {exc}") from exc

    async def aclose(self) -> None:
        """Closes every connection."""
        await self._endpoint.aclose()


def _server_words(body: bytes) -> str:
    try:
        data = msgspec.json.decode(body)
        error = data.get("error", data) if isinstance(data, dict) else data
        words = error.get("message", error) if isinstance(error, dict) else error
    except UNREADABLE:
        words = body.decode(errors="replace")
    return " ".join(str(words)[:LONGEST_ERROR_BYTES].split()) or "no message"
