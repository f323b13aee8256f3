"""HTTP client of the OpenAI chat and embeddings endpoints, with retries. A `CompletionError` is `unavailable` (no
connection, 429, 5xx), `timeout`, `rejected` (any other 4xx) or `malformed` (a 200 that is unreadable or too long).
"""

import asyncio
import functools
import random
import ssl
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import httpx
import msgspec

from auditors.addresses import mask_url, proxy_for
from auditors.clients.bounded_body import ACCEPT_ENCODING, BodyError, read_beginning, read_body
from auditors.clients.cancellation import cancelled_once
from auditors.clients.chat_format import LONGEST_REPLY_BYTES, chat_body, parse_chat
from auditors.clients.failures import LONGEST_ERROR_BYTES, failure, pause_seconds, refused_by_filter
from auditors.clients.model_list import LONGEST_LIST_BYTES, MODELS_PATH, read_models, read_serving
from auditors.clients.pacing import OPEN, OVERLOADED, EvictedError, Gate, Turn, is_deferred
from auditors.json_errors import UNREADABLE
from auditors.types import Completion, CompletionError, CompletionRequest, DecisionRequest, Serving

CONNECT_TIMEOUT_SECONDS = 5.0
LONGEST_VECTOR_BYTES = 256 * 1024
"""Most bytes of an embedding as JSON: some ten thousand dimensions."""
UNSAMPLED: Mapping[str, str] = {"x-biasgate-audit": "off"}
"""Sent with everything an auditor asks: a biasgate gateway that honours it from this key samples no probe."""

TAKING_PRIORITY = frozenset({"/v1/chat/completions", "/v1/systemone"})
"""Endpoints of decisions that take a priority; `/v1/decisions` is not vLLM's, and other servers refuse one."""

Sign = Callable[[bytes], Mapping[str, str]]
"""Function that makes further headers of a request from its body."""


def unsigned(_: bytes) -> Mapping[str, str]:
    return {}


class _Vector(msgspec.Struct):
    index: int
    embedding: list[float]


class _Vectors(msgspec.Struct):
    data: list[_Vector]
    usage: Any = None


class Reply(NamedTuple):
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
        headers: Mapping[str, str] = UNSAMPLED,
        waits_when_deferred: bool = False,
        sign: Sign = unsigned,
        rng: random.Random | None = None,
    ) -> None:
        """Opens no connection. `base_url` may end in /v1; `api_key` is a bearer token, never logged; `timeout`: seconds
        of an attempt; `gate` gives each attempt a slot; `waits_when_deferred`: ask again while a gateway answers that
        live requests go first; `sign` makes further headers of each POST; `rng`: jitter of the pauses.
        """
        self._timeout = timeout
        self._retries = retries
        self._gate = gate
        self._waits_when_deferred = waits_when_deferred
        self._api_key = api_key
        self._sign = sign
        self._rng = rng or random.Random()
        self._slots = asyncio.Semaphore(max_concurrency)
        proxy = proxy_for(base_url)
        self._way = "" if proxy is None else f" through the proxy {mask_url(proxy)} of the environment"
        self._client = httpx.AsyncClient(
            proxy=proxy,
            trust_env=False,
            base_url=base_url.rstrip("/").removesuffix("/v1").rstrip("/"),
            headers={"content-type": "application/json", **ACCEPT_ENCODING, **headers}
            | ({"authorization": f"Bearer {api_key}"} if api_key else {}),
            verify=trusted(),
            timeout=httpx.Timeout(None, connect=min(timeout, CONNECT_TIMEOUT_SECONDS)),  # `_attempt` has the limit
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=max_concurrency),  # `_slots` has
        )

    async def get(self, path: str, *, longest: int = LONGEST_REPLY_BYTES) -> bytes:
        return await self._send("GET", path, None, longest)

    async def get_once(self, path: str, *, longest: int) -> bytes:
        """Return the body of the 200 reply to one attempt, which no gate holds back. Raises CompletionError."""
        response = await self._attempt("GET", path, None, longest)
        if response.status_code != 200:
            raise failure(response.status_code, response.content, self._api_key)
        return response.content

    async def post(
        self,
        path: str,
        body: bytes,
        *,
        longest: int = LONGEST_REPLY_BYTES,
        replies: int = 1,
        hear: Callable[[Mapping[str, str]], None] = lambda _: None,
    ) -> bytes:
        """Body of the 200 reply, or CompletionError. `replies`: sequences computed; `hear` gets an answer's headers."""
        return await self._send("POST", path, body, longest, replies, hear)

    async def _send(
        self,
        method: str,
        path: str,
        body: bytes | None,
        longest: int,
        replies: int = 1,
        hear: Callable[[Mapping[str, str]], None] = lambda _: None,
    ) -> bytes:
        async with self._slots:
            attempt, turn = 0, Turn(body or b"", replies)
            while True:
                headers: Mapping[str, str] = {}
                try:
                    async with self._gate.slot(turn):
                        response = await self._attempt(method, path, body, longest)
                        if response.status_code in OVERLOADED:
                            self._gate.on_overload()
                        if self._waits_when_deferred and is_deferred(response.status_code, response.content):
                            turn.evictions += 1
                            await asyncio.sleep(pause_seconds(1, response.headers, self._rng))  # in its slot
                            continue
                    hear(response.headers)
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
        await self._client.aclose()

    async def _attempt(self, method: str, path: str, body: bytes | None, longest: int) -> Reply:
        where = f"{self._client.base_url.host}:{self._client.base_url.port or ''}{path}{self._way}"
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

    async def _exchange(self, method: str, path: str, body: bytes | None, longest: int) -> Reply:
        headers = self._sign(body) if body is not None else {}
        async with self._client.stream(method, path, content=body, headers=headers) as response:
            encoding = response.headers.get("content-encoding", "")
            if response.status_code == 200:
                content = await read_body(response.aiter_raw(), encoding, longest)
            else:
                content = await read_beginning(response.aiter_raw(), encoding, LONGEST_ERROR_BYTES)
            return Reply(response.status_code, response.headers, content)


@functools.cache
def trusted() -> ssl.SSLContext:
    """Return the TLS context that all endpoints share: reading the certificates takes 20 ms."""
    return httpx.create_ssl_context()


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
        endpoint: type[HttpEndpoint] = HttpEndpoint,
    ) -> None:
        """See HttpEndpoint; `priority` is sent with every request (None: left out). `endpoint` is how it is reached."""
        self._endpoint = endpoint(
            base_url, api_key, timeout=timeout, retries=retries, max_concurrency=max_concurrency, gate=gate, sign=sign
        )
        self._priority = priority

    async def complete(self, request: CompletionRequest) -> Completion:
        """Returns the first choice, or a filter's refusal. Raises CompletionError once retries are spent."""
        try:
            body = await self._endpoint.post("/v1/chat/completions", chat_body(request, self._priority))
        except CompletionError as exc:
            return refused_by_filter(exc)
        return parse_chat(body)

    async def serving(self, model: str) -> Serving:
        """See `auditors.types.TellsServing`."""
        return await read_serving(partial(self._endpoint.get, longest=LONGEST_LIST_BYTES), model)

    async def decide(self, request: DecisionRequest) -> bytes:
        """See `auditors.types.Decider`; the priority goes to endpoints that take one."""
        priority = {} if self._priority is None or request.path not in TAKING_PRIORITY else {"priority": self._priority}
        return await self._endpoint.post(request.path, msgspec.json.encode({**request.body, **priority}))

    async def aclose(self) -> None:
        await self._endpoint.aclose()


class EmbeddingClient:
    """POST /v1/embeddings as plain lists; `auditors.embedding.RemoteEmbedder` makes vectors of them."""

    def __init__(
        self,
        base_url: str,
        api_key: str | None = None,
        *,
        timeout: float = 120.0,
        retries: int = 2,
        max_concurrency: int = 4,
        sign: Sign = unsigned,
        on_tokens: Callable[[int], None] = lambda _: None,
    ) -> None:
        """See HttpEndpoint. `on_tokens`: hears how many tokens the server counted for each request."""
        self._on_tokens = on_tokens
        self._endpoint = HttpEndpoint(
            base_url, api_key, timeout=timeout, retries=retries, max_concurrency=max_concurrency, sign=sign
        )

    async def embed(self, model: str, texts: Sequence[str]) -> list[list[float]]:
        """One vector per text, in order. Raises CompletionError, of kind "malformed" if any vector is missing."""
        request_body = msgspec.json.encode({"model": model, "input": list(texts)})
        body = await self._endpoint.post(
            "/v1/embeddings", request_body, longest=LONGEST_VECTOR_BYTES * (1 + len(texts))
        )
        try:
            reply = msgspec.json.decode(body, type=_Vectors)
            vectors = {entry.index: entry.embedding for entry in reply.data}
            tokens = reply.usage.get("prompt_tokens") if isinstance(reply.usage, dict) else None
            self._on_tokens(tokens if isinstance(tokens, int) and tokens > 0 else 0)
            return [vectors[index] for index in range(len(texts))]
        except (*UNREADABLE, KeyError) as exc:
            raise CompletionError("malformed", f"the reply has no {len(texts)} embeddings: {exc}") from exc

    async def aclose(self) -> None:
        await self._endpoint.aclose()
