"""The `Completer` of suite runs, over pyreqwest: thousands of short requests that must keep a server full.

Bodies, replies, failures and pauses are those of the auditors' client, `auditors.clients.completion`; only the
transport differs.
"""

import asyncio
import random
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from pyreqwest.client import Client, ClientBuilder
from pyreqwest.exceptions import BuilderError, PyreqwestError, RequestTimeoutError
from pyreqwest.response import Response

from auditors.clients.bounded_body import ACCEPT_ENCODING, BodyError, read_beginning, read_body
from auditors.clients.chat_format import LONGEST_REPLY_BYTES, batch_body, chat_body, parse_batch, parse_chat
from auditors.clients.failures import LONGEST_ERROR_BYTES, failure, pause_seconds
from auditors.clients.model_list import LONGEST_LIST_BYTES, MODELS_PATH, context_tokens, read_models
from auditors.clients.pacing import OPEN, OVERLOADED, EvictedError, Gate, Turn, is_deferred
from auditors.types import Completion, CompletionError, CompletionRequest
from benchmarks.errors import BenchmarkError
from benchmarks.run.given_text import beginnings_body, read_logprobs, read_tokens, tokenize_body

CHAT_PATH = "/v1/chat/completions"
COMPLETIONS_PATH = "/v1/completions"
TOKENIZE_PATH = "/tokenize"
METRICS_PATH = "/metrics"
LONGEST_METRICS_BYTES = 1024 * 1024
_BEGAN = re.compile(rb"^process_start_time_seconds[ \t]+([0-9.e+]+)", re.MULTILINE)
RETRIES = 3
REQUEST_SECONDS = 300.0
"""For one attempt."""
CONNECT_TIMEOUT = timedelta(seconds=5)
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
) -> "SuiteClient":
    """A client for one OpenAI-compatible server; opens no connection yet.

    Args:
        base_url: e.g. "http://127.0.0.1:8000"; a trailing /v1 is allowed.
        api_key: sent as a bearer token; never logged.
        concurrency: connections at most.
        priority: vLLM scheduling priority (larger is later); None leaves it out.
        timeout: seconds for one attempt.
        retries: further attempts after a failed connection, 429 or 5xx.
        headers: sent with every request, e.g. GATEWAY_HEADERS.
        gate: lets each attempt through; its time limit begins then.

    Raises: BenchmarkError if the URL is none.
    """
    origin = base_url.rstrip("/").removesuffix("/v1").rstrip("/")
    if urlsplit(origin).scheme not in ("http", "https") or not urlsplit(origin).hostname:
        raise BenchmarkError(f'"{base_url}" is no URL of a model server: it must look like http://127.0.0.1:8000')
    sent = {"content-type": "application/json", **ACCEPT_ENCODING} | dict(headers or {})
    if api_key:
        sent["authorization"] = f"Bearer {api_key}"
    try:
        client = (
            ClientBuilder()
            .max_connections(concurrency)
            .timeout(timedelta(seconds=timeout))
            .connect_timeout(CONNECT_TIMEOUT)
            .gzip(False)  # bodies are decoded by read_body, which stops at a limit
            .deflate(False)
            .brotli(False)
            .zstd(False)
            .default_headers(sent)
            .follow_redirects(False)  # the key, and what is asked, are for the server that was named
            .build()
        )
    except BuilderError as exc:
        raise BenchmarkError(f"the client for {base_url} cannot be set up: {exc}") from exc
    url = origin + CHAT_PATH
    return SuiteClient(client, url, priority=priority, retries=retries, gate=gate, api_key=api_key)


class SuiteClient:
    """See `open_client`."""

    def __init__(
        self,
        client: Client,
        url: str,
        *,
        priority: int | None,
        retries: int,
        gate: Gate = OPEN,
        api_key: str | None = None,
    ) -> None:
        self._api_key = api_key
        self._client = client
        self._url = url
        self._host = urlsplit(url).netloc.rpartition("@")[2]
        self._priority = priority
        self._retries = retries
        self._gate = gate
        self._rng = random.Random()

    async def complete(self, request: CompletionRequest) -> Completion:
        """Returns the first choice. Raises CompletionError once retries are spent."""
        body = chat_body(request, self._priority)
        return parse_chat(await self._post(self._url, body, request.extra.get("n", 1)))

    async def complete_all(self, requests: Sequence[CompletionRequest]) -> list[Completion]:
        """See `benchmarks.run.exact.batching.CompletesBatches`."""
        content = await self._post(f"{self._url}/batch", batch_body(requests, self._priority), len(requests))
        return parse_batch(content, len(requests))

    async def _post(self, url: str, body: bytes, n_sequences: int) -> bytes:
        attempt, turn = 0, Turn(body, n_sequences)
        while True:
            pause_hints: Mapping[str, str] = {}
            try:
                async with self._gate.slot(turn):
                    status, headers, content = await self._attempt(url, body)
                    if status in OVERLOADED:
                        self._gate.on_overload()
                    if is_deferred(status, content):  # a slot's worth of asking again, not every worker's
                        turn.evictions += 1
                        await asyncio.sleep(pause_seconds(1, headers, self._rng))
                        continue
                if status == 200:
                    return content
                error, pause_hints = failure(status, content, self._api_key), headers
            except EvictedError:
                continue
            except CompletionError as exc:
                error = exc
            attempt += 1
            if error.kind != "unavailable" or attempt > self._retries:
                raise error
            await asyncio.sleep(pause_seconds(attempt, pause_hints, self._rng))

    async def context_tokens(self, model: str) -> int | None:
        """See `auditors.types.TellsContext`."""
        url = self._url.removesuffix(CHAT_PATH) + MODELS_PATH
        try:
            async with self._client.get(url).build_streamed() as response:
                encoding = response.headers.get("content-encoding") or ""
                if response.status != 200:
                    return None
                return context_tokens(await read_body(_chunks(response), encoding, LONGEST_LIST_BYTES), model)
        except (BodyError, PyreqwestError):
            return None

    async def served(self) -> list[dict[str, Any]]:
        """What the server says it serves, each with its name as "id". Raises CompletionError where it does not say."""
        url = self._url.removesuffix(CHAT_PATH) + MODELS_PATH
        try:
            async with self._client.get(url).build_streamed() as response:
                encoding = response.headers.get("content-encoding") or ""
                if response.status != 200:
                    content = await read_beginning(_chunks(response), encoding, LONGEST_ERROR_BYTES)
                    raise failure(response.status, content, self._api_key)
                return read_models(await read_body(_chunks(response), encoding, LONGEST_LIST_BYTES))
        except BodyError as exc:
            raise CompletionError("malformed", f"{self._host}: {exc}", status_code=200) from exc
        except PyreqwestError as exc:
            raise CompletionError("unavailable", f"{self._host}: {_in_words(exc)}") from exc

    async def tokenized(self, model: str, text: str) -> list[int]:
        """The tokens of a text, as the server begins one. Raises CompletionError where it does not tell."""
        url = self._url.removesuffix(CHAT_PATH) + TOKENIZE_PATH
        return read_tokens(await self._post(url, tokenize_body(model, text), 1))

    async def logprobs(self, model: str, tokens: Sequence[int], first: int) -> list[float]:
        """Natural log-probability of each token of a text from the one at `first`, which is at least 1.

        Raises: CompletionError where the server does not tell.
        """
        url = self._url.removesuffix(CHAT_PATH) + COMPLETIONS_PATH
        body = beginnings_body(model, tokens, first)
        return read_logprobs(await self._post(url, body, len(tokens) - first), tokens, first)

    async def began(self) -> str | None:
        """When the server's process began, as its /metrics say; None where they do not."""
        url = self._url.removesuffix(CHAT_PATH) + METRICS_PATH
        try:
            async with self._client.get(url).build_streamed() as response:
                encoding = response.headers.get("content-encoding") or ""
                if response.status != 200:
                    return None
                found = _BEGAN.findall(await read_body(_chunks(response), encoding, LONGEST_METRICS_BYTES))
                return found[0].decode() if len(found) == 1 else None
        except (BodyError, PyreqwestError):
            return None

    async def aclose(self) -> None:
        """Closes every connection."""
        await self._client.close()

    async def _attempt(self, url: str, body: bytes) -> tuple[int, Mapping[str, str], bytes]:
        try:
            async with self._client.post(url).body_bytes(body).build_streamed() as response:
                encoding = response.headers.get("content-encoding") or ""
                if response.status == 200:
                    content = await read_body(_chunks(response), encoding, LONGEST_REPLY_BYTES)
                else:
                    content = await read_beginning(_chunks(response), encoding, LONGEST_ERROR_BYTES)
                pause = response.headers.get("retry-after")
                return response.status, {"retry-after": pause} if pause else {}, content
        except BodyError as exc:
            raise CompletionError("malformed", f"{self._host}: {exc}", status_code=200) from exc
        except RequestTimeoutError as exc:
            raise CompletionError("timeout", f"{self._host}: no reply in time") from exc
        except PyreqwestError as exc:
            raise CompletionError("unavailable", f"{self._host}: {_in_words(exc)}") from exc


async def _chunks(response: Response) -> AsyncIterator[bytes]:
    while (chunk := await response.body_reader.read_chunk()) is not None:
        yield bytes(chunk)


def host(base_url: str) -> str:
    """Host and port of a URL without user, password or path, for the provenance."""
    return urlsplit(base_url).netloc.rpartition("@")[2]


def _in_words(exc: PyreqwestError) -> str:
    """What went wrong and its innermost cause: "connection error (Connection refused (os error 111))"."""
    words = " ".join(str(exc.args[0] if exc.args else exc).split())
    causes = (getattr(exc, "details", None) or {}).get("causes") or []
    innermost = causes[-1].get("message", "") if causes else ""
    return f"{words} ({innermost})" if innermost and innermost not in words else words
