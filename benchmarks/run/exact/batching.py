"""Sends several questions in one request (vLLM's /v1/chat/completions/batch); each alone if refused or not offered."""

import asyncio
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import msgspec

from auditors.types import Completer, Completion, CompletionError, CompletionRequest

MOST_TOGETHER = 16
WAIT_SECONDS = 0.003
"""Seconds that a question waits for others, far below the time that an answer takes."""
CARRIED = frozenset(
    {"logprobs", "top_logprobs", "top_k", "min_p", "repetition_penalty", "add_generation_prompt",
     "continue_final_message", "chat_template_kwargs"}
)  # fmt: skip
"""Fields of a request that a batch takes too; a server may ignore others there, such as an effort of thought."""
NOT_OFFERED = frozenset({404, 405, 501})


@runtime_checkable
class CompletesBatches(Protocol):
    """A completer that can ask several questions in one request."""

    async def complete_all(self, requests: Sequence[CompletionRequest]) -> list[Completion]:
        """The replies, in order, to requests that differ in their messages alone. Raises CompletionError."""


class Batching:
    """A completer that joins requests of the same moment which differ in nothing but their messages."""

    def __init__(self, inner: Completer) -> None:
        """Send requests separately if `inner` completes no batches."""
        self._inner = inner
        self._batches = inner if isinstance(inner, CompletesBatches) else None
        """None once the server has shown that it takes none."""
        self._waiting: dict[bytes, list[tuple[CompletionRequest, asyncio.Future[Completion]]]] = {}
        self._asking = set[asyncio.Task[None]]()

    async def complete(self, request: CompletionRequest) -> Completion:
        """The reply; its usage counts its share of `requests`: 1 of the first of a batch, 0 of the others."""
        if self._batches is None or not request.extra.keys() <= CARRIED or request.response_schema is not None:
            return await self._inner.complete(request)
        kind = msgspec.json.encode(msgspec.structs.replace(request, messages=()), order="sorted")
        answer: asyncio.Future[Completion] = asyncio.get_running_loop().create_future()
        together = self._waiting.setdefault(kind, [])
        together.append((request, answer))
        if len(together) == MOST_TOGETHER:
            self._send(kind)
        elif len(together) == 1:
            asyncio.get_running_loop().call_later(WAIT_SECONDS, self._send_these, kind, together)
        return await answer

    async def aclose(self) -> None:
        for task in self._asking:
            task.cancel()
        await self._inner.aclose()

    def _send_these(self, kind: bytes, together: list[tuple[CompletionRequest, asyncio.Future[Completion]]]) -> None:
        if self._waiting.get(kind) is together:
            self._send(kind)

    def _send(self, kind: bytes) -> None:
        task = asyncio.create_task(self._ask(self._waiting.pop(kind)))
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def _ask(self, together: Sequence[tuple[CompletionRequest, asyncio.Future[Completion]]]) -> None:
        waiting = [(request, answer) for request, answer in together if not answer.done()]
        try:
            if len(waiting) > 1 and self._batches is not None and await self._asked_together(self._batches, waiting):
                return
            await asyncio.gather(*(self._asked_alone(request, answer) for request, answer in waiting))
        except asyncio.CancelledError:
            for _, answer in waiting:
                answer.cancel()
            raise
        except Exception as exc:  # whoever waits for the answer gets it, e.g. that the run was stopped
            for _, answer in waiting:
                _fail(answer, exc)

    async def _asked_together(
        self, batches: CompletesBatches, waiting: Sequence[tuple[CompletionRequest, asyncio.Future[Completion]]]
    ) -> bool:
        """False where each has to be asked alone: no batches are taken, or one of these questions spoils the others."""
        try:
            completions = await batches.complete_all([request for request, _ in waiting])
        except CompletionError as exc:
            if exc.kind in ("rejected", "malformed"):
                if exc.kind == "malformed" or exc.status_code in NOT_OFFERED:
                    self._batches = None
                return False
            for _, answer in waiting:
                _fail(answer, exc)
            return True
        for number, ((_, answer), completion) in enumerate(zip(waiting, completions, strict=True)):
            share = {**(completion.usage or {}), "requests": 0 if number else 1}
            if not answer.done():
                answer.set_result(msgspec.structs.replace(completion, usage=share))
        return True

    async def _asked_alone(self, request: CompletionRequest, answer: asyncio.Future[Completion]) -> None:
        try:
            completion = await self._inner.complete(request)
        except CompletionError as exc:
            _fail(answer, exc)
        else:
            if not answer.done():
                answer.set_result(completion)


def _fail(answer: asyncio.Future[Completion], exc: Exception) -> None:
    if not answer.done():
        answer.set_exception(exc)
