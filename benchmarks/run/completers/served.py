"""A model as its server serves it, asked under neutral sampling and within its context.
vLLM fills in missing sampling parameters from the model's `generation_config.json`, and a repetition penalty decides
which options are named: a request carries the neutral value of every parameter that neither suite nor user sets, except
those refused. A limit of tokens without room in the context is lowered; the reply's `usage` says to what.
"""

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from auditors.clients.failures import REFUSED_FOR_WORDS
from auditors.types import (
    Completer,
    Completion,
    CompletionError,
    CompletionRequest,
    CountsTokens,
    Serving,
    TellsServing,
)
from benchmarks.run.exact.batching import CompletesBatches

_EVERYWHERE: Mapping[str, int] = {"presence_penalty": 0, "frequency_penalty": 0, "top_p": 1}
_VLLM = {**_EVERYWHERE, "repetition_penalty": 1, "min_p": 0, "top_k": -1}
_LLAMA_CPP = {**_EVERYWHERE, "repeat_penalty": 1, "min_p": 0, "top_k": 0}
NEUTRAL: Mapping[str | None, Mapping[str, int]] = {"openai": _EVERYWHERE, "system": _EVERYWHERE, "llamacpp": _LLAMA_CPP}
"""Parameters that change nothing, by the "owned_by" of a model; other servers are sent vLLM's."""
LOWERED = "max_tokens"
"""Key in the `usage` of a reply whose limit of tokens was lowered: the limit that it had."""
POLICY = "x-biasgate-mitigation"
"""Header by which a gateway names the policy applied, and how (docs/mitigation.md); the key in `usage`."""
LONGEST_POLICY = 200
_CHARACTERS_PER_TOKEN, _TOKENS_PER_MESSAGE, _BYTES_PER_MESSAGE = 3, 8, 64
_CONTEXT = re.compile(r"context (?:length|size|window)[^\d\n]{0,20}(\d{1,9})")
_PROMPT = re.compile(r"(\d{1,9}) (?:input tokens|tokens from the input|in the messages)")


class ServerDefaults(msgspec.Struct, frozen=True, kw_only=True):
    """The values that a run's server takes where a request has none, and what the run sent in their place."""

    software: str | None = None
    """ "owned_by" of the model in the server's list; None: not told."""
    sampling: Mapping[str, Any] | None = None
    """The server's own sampling parameters; None: it does not tell them, as vLLM does not."""
    overridden: Mapping[str, int] = {}
    """Neutral values sent wherever the suite sets none."""
    refused: tuple[str, ...] = ()
    """Parameters that the server refuses: it samples with values of its own."""
    context: int | None = None
    """Tokens of a prompt and its reply together; None: not told."""


class ServedModel:
    """The completer of a run's questions to a model or a judge, before the server's client."""

    def __init__(self, inner: Completer) -> None:
        """Asks nothing before the first request."""
        self._inner = inner
        self._serving: Serving | None = None
        self._reading = asyncio.Lock()
        self._neutral: dict[str, int] = {}
        self._refused: list[str] = []
        self._context: int | None = None
        self._is_taken = False
        self._counts_tokens = isinstance(inner, CountsTokens)

    async def serving(self, model: str) -> Serving:
        """See `auditors.types.TellsServing`; the server is asked once."""
        async with self._reading:
            if self._serving is None:
                told = await self._inner.serving(model) if isinstance(self._inner, TellsServing) else Serving()
                self._serving = told
                self._neutral = dict(NEUTRAL.get(self._serving.software, _VLLM))
                self._context = self._serving.context
            return self._serving

    async def defaults(self, model: str) -> ServerDefaults:
        """Return what is known by now."""
        await self.serving(model)
        return self.known or ServerDefaults()

    @property
    def known(self) -> ServerDefaults | None:
        """Defaults as far as known; None before the first request."""
        if (serving := self._serving) is None:
            return None
        return ServerDefaults(
            software=serving.software,
            sampling=serving.sampling,
            overridden=dict(self._neutral),
            refused=tuple(self._refused),
            context=self._context,
        )

    async def complete(self, request: CompletionRequest) -> Completion:
        """Complete as the inner completer does. Raises CompletionError."""
        await self.serving(request.model)
        limit = await self._limit(request)
        while True:
            fitting = msgspec.structs.replace(request, max_tokens=limit)
            try:
                completion = await self._inner.complete(self._neutralised(fitting))
            except CompletionError as exc:
                if exc.kind != "rejected" or exc.status_code not in REFUSED_FOR_WORDS:
                    raise
                if (lower := self._lower(exc, request, limit)) is not None:
                    limit = lower
                    continue
                if named := [name for name in self._neutral if name in str(exc)]:
                    self._refuse(named)
                    continue
                if self._is_taken or not self._neutral:
                    raise
                completion = await self._inner.complete(fitting)  # raises where something else is refused
                self._refuse(list(self._neutral))
            self._is_taken = True
            if limit == request.max_tokens:
                return completion
            return msgspec.structs.replace(completion, usage={**(completion.usage or {}), LOWERED: limit})

    async def complete_all(self, requests: Sequence[CompletionRequest]) -> list[Completion]:
        """See `benchmarks.run.exact.batching.CompletesBatches`."""
        if not isinstance(self._inner, CompletesBatches):
            raise CompletionError("rejected", "batches are not offered", status_code=501)
        await self.serving(requests[0].model)
        return await self._inner.complete_all([self._neutralised(request) for request in requests])

    async def aclose(self) -> None:
        await self._inner.aclose()

    def _refuse(self, names: Sequence[str]) -> None:
        self._refused += names
        self._neutral = {name: value for name, value in self._neutral.items() if name not in names}

    def _neutralised(self, request: CompletionRequest) -> CompletionRequest:
        own = {"top_p"} if request.top_p is not None else set()
        neutral = {name: value for name, value in self._neutral.items() if name not in own}
        return msgspec.structs.replace(request, extra={**neutral, **request.extra})

    async def _limit(self, request: CompletionRequest) -> int:
        """Return the limit of tokens, lowered to what the context leaves, and at least 1."""
        n_bytes = sum(len(message.content.encode()) + _BYTES_PER_MESSAGE for message in request.messages)
        if self._context is None or n_bytes + request.max_tokens <= self._context:
            return request.max_tokens
        prompt = _estimated(request)
        if self._counts_tokens and isinstance(self._inner, CountsTokens):
            try:
                prompt = await self._inner.count_tokens(request.model, request.messages)
            except CompletionError:
                self._counts_tokens = False
        return max(1, min(request.max_tokens, self._context - prompt))

    def _lower(self, exc: CompletionError, request: CompletionRequest, limit: int) -> int | None:
        """Return a lower limit for a request that was refused for its length; None if that is not the reason."""
        if (told := _CONTEXT.search(str(exc))) is None:
            return None
        self._context = min(int(told[1]), self._context or int(told[1]))
        counted = _PROMPT.search(str(exc))
        room = self._context - (_estimated(request) if counted is None else int(counted[1]))
        lower = min(room, limit // 2 if counted is None and room >= limit else limit - 1)
        return lower if lower >= 1 else None


def _estimated(request: CompletionRequest) -> int:
    n_characters = sum(len(message.content) for message in request.messages)
    return n_characters // _CHARACTERS_PER_TOKEN + _TOKENS_PER_MESSAGE * (1 + len(request.messages))
