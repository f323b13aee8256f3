"""Maps statuses other than 200 to kinds of failure, and computes the wait before a request is sent again."""

import math
import random
from collections.abc import Mapping

import msgspec

from auditors.json_errors import UNREADABLE
from auditors.types import Completion, CompletionError, FailureKind

BACKOFF_SECONDS = 0.25
LONGEST_PAUSE_SECONDS = 30.0
LONGEST_MESSAGE = 300
LIMIT_OF_TOKENS = "max_tokens"
"""Word with which a server refuses a request for more tokens than its model's context has, as vLLM does."""
REFUSED_FOR_WORDS = frozenset({400, 422, None})
"""Statuses of a request that is refused for what it says; None where the client knows of none."""
FILTER_CODES = frozenset({"content_filter", "content_policy_violation", "query_refused", "response_refused"})
"""Codes with which a filter refuses: Azure OpenAI's, LiteLLM's, and those of a biasgate policy (docs/mitigation.md)."""
LONGEST_ERROR_BYTES = 64 * 1024
"""Most bytes read of the body of any status other than 200, of which only a few words are kept."""


def failure(status_code: int, body: bytes, api_key: str | None = None) -> CompletionError:
    """The error of a status other than 200, with the server's words in a line, without the `api_key`."""
    kind: FailureKind = "unavailable" if (status_code == 429 or status_code >= 500) else "rejected"
    words, code = _server_words(body)
    words = words.replace(api_key, "[key]") if api_key else words
    message = f"status {status_code}: {words[:LONGEST_MESSAGE]}"
    return CompletionError(kind, message, status_code=status_code, code=code)


def refused_by_filter(exc: CompletionError) -> Completion:
    """The refusal that a filter gave as an error: users see a refusal, so it counts as such. Raises any other `exc`."""
    if exc.kind != "rejected" or exc.code not in FILTER_CODES:
        raise exc
    return Completion(text=None, refusal=f"{exc.code}: {exc}", finish_reason="content_filter")


def is_for_tokens(exc: CompletionError) -> bool:
    """Return whether a server refused a request because it asks for more tokens than its model's context has left."""
    is_refused = exc.kind == "rejected" and exc.status_code in REFUSED_FOR_WORDS
    return is_refused and LIMIT_OF_TOKENS in str(exc)


def pause_seconds(attempt: int, headers: Mapping[str, str], rng: random.Random) -> float:
    """Seconds before retry number `attempt` (from 1): Retry-After when sent, else doubling with full jitter."""
    try:
        pause = float(headers["retry-after"])
    except (KeyError, ValueError):
        pause = math.nan
    if math.isnan(pause):  # not sent, a date, or the word "nan"
        pause = rng.uniform(0.5, 1.0) * BACKOFF_SECONDS * 2**attempt
    return min(max(pause, 0.0), LONGEST_PAUSE_SECONDS)


def _server_words(body: bytes) -> tuple[str, str | None]:
    code = None
    try:
        data = msgspec.json.decode(body)
        error = data.get("error", data) if isinstance(data, dict) else data
        words = error.get("message", error) if isinstance(error, dict) else error
        code = error.get("code") if isinstance(error, dict) else None
    except UNREADABLE:
        words = body.decode(errors="replace")
    return " ".join(str(words)[:LONGEST_ERROR_BYTES].split()) or "no message", code if isinstance(code, str) else None
