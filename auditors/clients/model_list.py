"""Reads an OpenAI list of models (GET /v1/models), and tells when what a model's name stands for has changed."""

import hashlib
from typing import Any

import msgspec

from auditors.types import CompletionError

MODELS_PATH = "/v1/models"
LONGEST_LIST_BYTES = 2 * 1024 * 1024
"""Some thousands of models."""


class _ModelList(msgspec.Struct):
    data: list[Any]


_decoder = msgspec.json.Decoder(_ModelList)


def read_models(body: bytes) -> list[dict[str, Any]]:
    """Return the entries that have a name ("id"). Raises CompletionError of kind "malformed" for another body."""
    return [entry for entry in _entries(body) if isinstance(entry, dict) and isinstance(entry.get("id"), str)]


def count_unread(body: bytes) -> int:
    """Return how many entries of a list of models `read_models` leaves out. Raises CompletionError as it does."""
    return len(_entries(body)) - len(read_models(body))


def _entries(body: bytes) -> list[Any]:
    try:
        entries = _decoder.decode(body).data
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise CompletionError("malformed", f"the reply to {MODELS_PATH} is not a list of models: {exc}") from exc
    if entries and not any(isinstance(entry, dict) for entry in entries):
        raise CompletionError("malformed", f"the reply to {MODELS_PATH} is not a list of models: no entry is an object")
    return entries


def context_tokens(body: bytes, model: str) -> int | None:
    """Longest context of a model, in tokens, which vLLM's list has; None where this one does not say."""
    try:
        length = next((entry.get("max_model_len") for entry in read_models(body) if entry["id"] == model), None)
    except CompletionError:
        return None
    return length if isinstance(length, int) and not isinstance(length, bool) and length > 0 else None


def fingerprint_of(entries: list[dict[str, Any]]) -> str:
    """Changes when the served models do: a digest of what identifies each, without the time of asking."""
    identity = sorted((str(e["id"]), str(e.get("root")), str(e.get("max_model_len"))) for e in entries)
    return hashlib.sha256(repr(identity).encode()).hexdigest()[:16]
