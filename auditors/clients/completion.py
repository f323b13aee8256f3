"""HTTP client of the OpenAI chat and embeddings endpoints, with retries and named failures.

Building a body and reading a reply are pure functions, shared with the suite runner's client; only `HttpEndpoint` does
I/O. A failure is a `CompletionError` whose kind says what to count: `unavailable` (no connection, 429, 5xx), `timeout`,
`rejected` (any other 4xx, for example a template or server that does not take the request), `malformed` (a 200 that
cannot be read).
"""

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import httpx
import msgspec

from auditors.clients.model_list import MODELS_PATH, read_models
from auditors.clients.pacing import OPEN, OVERLOADED, Gate
from auditors.types import Completion, CompletionError, CompletionRequest, FailureKind

CONNECT_TIMEOUT_SECONDS = 5.0
BACKOFF_SECONDS = 0.25
LONGEST_PAUSE_SECONDS = 30.0
LONGEST_MESSAGE = 300
UNSAMPLED: Mapping[str, str] = {"x-biasgate-audit": "off"}
"""Sent with everything an auditor asks: a biasgate gateway that honours it from this key samples no probe."""

Sign = Callable[[bytes], Mapping[str, str]]
"""Further headers of one request, made from its body."""


def unsigned(_: bytes) -> Mapping[str, str]:
    """No further headers."""
    return {}


class _Message(msgspec.Struct):
    content: str | None = None
    refusal: str | None = None


class _Choice(msgspec.Struct):
    message: _Message
    index: int = 0
    finish_reason: str | None = None
    logprobs: dict[str, Any] | None = None


class _Chat(msgspec.Struct):
    choices: list[_Choice]
    usage: dict[str, Any] | None = None
    system_fingerprint: str | None = None


class _Vector(msgspec.Struct):
    index: int
    embedding: list[float]


class _Vectors(msgspec.Struct):
    data: list[_Vector]


_chat_decoder = msgspec.json.Decoder(_Chat)
_vectors_decoder = msgspec.json.Decoder(_Vectors)


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
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise CompletionError("malformed", f"the reply is no chat completion: {exc}", status_code=200) from exc
    if not chat.choices:
        raise CompletionError("malformed", "the reply has no choices", status_code=200)
    choice = min(chat.choices, key=lambda one: one.index)
    return Completion(
        text=choice.message.content,
        finish_reason=choice.finish_reason,
        usage=chat.usage,
        fingerprint=chat.system_fingerprint,
        logprobs=choice.logprobs,
        refusal=choice.message.refusal,
    )


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
        asked = rng.uniform(0.5, 1.0) * BACKOFF_SECONDS * 2**attempt
    return min(max(asked, 0.0), LONGEST_PAUSE_SECONDS)


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
            headers={"content-type": "application/json", **UNSAMPLED}
            | ({"authorization": f"Bearer {api_key}"} if api_key else {}),
            timeout=httpx.Timeout(timeout, connect=min(timeout, CONNECT_TIMEOUT_SECONDS)),
            limits=httpx.Limits(max_connections=max_concurrency, max_keepalive_connections=max_concurrency),
        )

    async def get(self, path: str) -> bytes:
        """As `post`, without a body."""
        return await self._send("GET", path, None)

    async def post(self, path: str, body: bytes) -> bytes:
        """Body of the 200 reply. Raises CompletionError once retries are spent."""
        return await self._send("POST", path, body)

    async def _send(self, method: str, path: str, body: bytes | None) -> bytes:
        async with self._slots:
            attempt = 0
            while True:
                headers: Mapping[str, str] = {}
                try:
                    async with self._gate.slot():
                        response = await self._attempt(method, path, body)
                        if response.status_code in OVERLOADED:
                            self._gate.on_overload()
                    if response.status_code == 200:
                        return response.content
                    error, headers = failure(response.status_code, response.content, self._api_key), response.headers
                except CompletionError as exc:
                    error = exc
                attempt += 1
                if error.kind != "unavailable" or attempt > self._retries:
                    raise error
                await asyncio.sleep(pause_seconds(attempt, headers, self._rng))

    async def aclose(self) -> None:
        """Closes every connection."""
        await self._client.aclose()

    async def _attempt(self, method: str, path: str, body: bytes | None) -> httpx.Response:
        where = f"{self._client.base_url.host}:{self._client.base_url.port or ''}{path}"
        try:
            async with asyncio.timeout(self._timeout):
                headers = self._sign(body) if body is not None else {}
                return await self._client.request(method, path, content=body, headers=headers)
        except (TimeoutError, httpx.ReadTimeout, httpx.WriteTimeout) as exc:
            raise CompletionError("timeout", f"{where}: no reply within {self._timeout:g} s") from exc
        except httpx.HTTPError as exc:
            raise CompletionError("unavailable", f"{where}: {type(exc).__name__}: {exc}") from exc


async def served_models(base_url: str, api_key: str | None = None) -> dict[str, dict[str, Any]]:
    """Name to entry of a server's own model list. Raises CompletionError when it does not answer with one."""
    endpoint = HttpEndpoint(base_url, api_key, timeout=CONNECT_TIMEOUT_SECONDS, retries=0)
    try:
        entries = read_models(await endpoint.get(MODELS_PATH))
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
        body = await self._endpoint.post("/v1/embeddings", msgspec.json.encode({"model": model, "input": list(texts)}))
        try:
            vectors = {one.index: one.embedding for one in _vectors_decoder.decode(body).data}
            return [vectors[index] for index in range(len(texts))]
        except (msgspec.DecodeError, KeyError) as exc:
            raise CompletionError("malformed", f"the reply has no {len(texts)} embeddings: {exc}") from exc

    async def aclose(self) -> None:
        """Closes every connection."""
        await self._endpoint.aclose()


def _server_words(body: bytes) -> str:
    try:
        data = msgspec.json.decode(body)
        error = data.get("error", data) if isinstance(data, dict) else data
        words = error.get("message", error) if isinstance(error, dict) else error
    except (msgspec.DecodeError, UnicodeDecodeError):
        words = body.decode(errors="replace")
    return " ".join(str(words).split()) or "no message"
