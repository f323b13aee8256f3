"""Remembers for a day a server's answers to a run's first questions (thinking, what it tells), by address, start
(vLLM's /metrics; else asked again), question and place among equal ones. Refusals and failures are not kept.
"""

import hashlib
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from auditors.clients.chat_format import chat_body
from auditors.types import Completer, Completion, CompletionError, CompletionRequest
from benchmarks.run.completers.reply_cache import Remembering, marked
from benchmarks.run.exact.batching import CompletesBatches
from benchmarks.run.exact.server import PROBES
from benchmarks.run.thinking import QUESTION

FOLDER = "probes"
DAY_SECONDS = 86400
_QUESTIONS = frozenset({QUESTION, *PROBES})


class ProbeCache(Remembering):
    """Remembers the answers to a run's first questions."""

    def __init__(self, inner: Completer, origin: str, began: Callable[[], Awaitable[str | None]], folder: Path) -> None:
        """`inner` asks the server at `origin`, whose process `began` then. `folder`: made at the first write."""
        super().__init__(inner, folder)
        self._origin = origin
        self._began = began
        self._process: str | None = None
        self._has_asked = False
        self._n_times = Counter[str]()

    async def complete(self, request: CompletionRequest) -> Completion:
        """Complete as the inner completer does. An answer used again has `requests` 0 and FROM_CACHE 1 in its usage."""
        if request.messages[0].content not in _QUESTIONS:
            return await self._inner.complete(request)
        if not self._has_asked:
            self._process, self._has_asked = await self._began(), True
        if self._process is None:
            return await self._inner.complete(request)
        started = f"{self._origin}\n{self._process}\n{int(time.time() // DAY_SECONDS)}\n"
        question = hashlib.sha256(started.encode() + chat_body(request)).hexdigest()
        name = f"{question}-{self._n_times[question]}"
        self._n_times[question] += 1
        stored = self._read(name)
        if stored is not None:
            return marked(stored)
        completion = await self._inner.complete(request)
        self._write(name, completion)
        return completion

    async def complete_all(self, requests: Sequence[CompletionRequest]) -> list[Completion]:
        """See `benchmarks.run.exact.batching.CompletesBatches`: questions asked together are never first questions."""
        if not isinstance(self._inner, CompletesBatches):
            raise CompletionError("rejected", "batches are not offered", status_code=501)
        return await self._inner.complete_all(requests)
