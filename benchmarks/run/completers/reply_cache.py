"""Uses replies of earlier runs again (`--reply-cache`), which hides what serving changes: same body and address, at
temperature 0, the server's present fingerprint; each once a run, none kept since it began.
"""

import hashlib
import math
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from auditors.clients.chat_format import chat_body
from auditors.json_errors import UNREADABLE
from auditors.types import (
    Completer,
    Completion,
    CompletionError,
    CompletionRequest,
    CountsTokens,
    Message,
    Serving,
    TellsServing,
)

FROM_CACHE = "from_cache"


class Remembering:
    """A completer before another that remembers replies in files, one each, which only their owner may read."""

    def __init__(self, inner: Completer, folder: Path) -> None:
        """`folder` is made when the first is written."""
        self._inner = inner
        self._folder = folder

    async def serving(self, model: str) -> Serving:
        return await self._inner.serving(model) if isinstance(self._inner, TellsServing) else Serving()

    async def count_tokens(self, model: str, messages: Sequence[Message]) -> int:
        if not isinstance(self._inner, CountsTokens):
            raise CompletionError("rejected", "tokens are not counted", status_code=501)
        return await self._inner.count_tokens(model, messages)

    async def aclose(self) -> None:
        await self._inner.aclose()

    def _path(self, name: str) -> Path:
        return self._folder / name[:2] / name

    def _read(self, name: str, *, before: float = math.inf) -> Completion | None:
        """Return the completion; None if missing, of another version, or not written `before`, in Unix seconds."""
        path = self._path(name)
        try:
            return msgspec.json.decode(path.read_bytes(), type=Completion) if path.stat().st_mtime < before else None
        except (OSError, *UNREADABLE):
            return None

    def _write(self, name: str, completion: Completion) -> None:
        """All or nothing. A reply that cannot be kept is asked for again: no reason to end a run."""
        path = self._path(name)
        part = path.with_name(f"{name}.{os.getpid()}")
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(msgspec.json.encode(completion))
            part.replace(path)
        except OSError:
            with suppress(OSError):
                part.unlink()


def marked(completion: Completion) -> Completion:
    """A reply that is used again: with `requests` 0 and FROM_CACHE 1 in its usage."""
    return msgspec.structs.replace(completion, usage={**(completion.usage or {}), "requests": 0, FROM_CACHE: 1})


class ReplyCache(Remembering):
    """Remembers what is asked at temperature 0."""

    def __init__(self, inner: Completer, origin: str, folder: Path, *, before: float) -> None:
        """`inner` asks the server at `origin`; replies kept `before` the run began, in Unix seconds, are used again."""
        super().__init__(inner, folder)
        self._before = before
        self._origin = origin
        self._fingerprint: str | None = None
        """Of the newest reply of this run; a run begins with a question that is never used again."""
        self._looked = set[str]()

    async def complete(self, request: CompletionRequest) -> Completion:
        """Complete as the inner completer does. A reply used again has `requests` 0 and FROM_CACHE 1 in its usage."""
        name = None
        if request.temperature == 0:
            name = hashlib.sha256(self._origin.encode() + b"\n" + chat_body(request)).hexdigest()
        if name is not None and name not in self._looked:
            self._looked.add(name)
            stored = self._read(name, before=self._before)
            if stored is not None and stored.fingerprint == self._fingerprint:
                return marked(stored)
        completion = await self._inner.complete(request)
        self._fingerprint = completion.fingerprint
        if name is not None and completion.fingerprint is not None:
            self._write(name, completion)
        return completion


def is_from_cache(usage: object) -> bool:
    """Return whether the reply with this usage was used again."""
    return isinstance(usage, dict) and usage.get(FROM_CACHE) == 1
