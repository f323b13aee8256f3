"""Reads an OpenAI list of models (GET /v1/models) and what else a server tells of a model; notices a changed model."""

import hashlib
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from auditors.types import CompletionError, Serving

MODELS_PATH = "/v1/models"
LONGEST_LIST_BYTES = 2 * 1024 * 1024
"""Some thousands of models."""


class _ModelList(msgspec.Struct):
    data: list[Any]


def read_models(body: bytes) -> list[dict[str, Any]]:
    """Return the entries that have a name ("id"). Raises CompletionError of kind "malformed" for another body."""
    return [entry for entry in _entries(body) if isinstance(entry, dict) and isinstance(entry.get("id"), str)]


def count_unread(body: bytes) -> int:
    """Return how many entries of a list of models `read_models` leaves out. Raises CompletionError as it does."""
    return len(_entries(body)) - len(read_models(body))


def _entries(body: bytes) -> list[Any]:
    try:
        entries = msgspec.json.decode(body, type=_ModelList).data
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise CompletionError("malformed", f"the reply to {MODELS_PATH} is not a list of models: {exc}") from exc
    if entries and not any(isinstance(entry, dict) for entry in entries):
        raise CompletionError("malformed", f"the reply to {MODELS_PATH} is not a list of models: no entry is an object")
    return entries


async def read_serving(get: Callable[[str], Awaitable[bytes]], model: str) -> Serving:
    """Read a model's entry in the list and, of llama.cpp, /props. `get` returns a body or raises CompletionError."""
    try:
        entry = next((entry for entry in read_models(await get(MODELS_PATH)) if entry["id"] == model), {})
    except CompletionError:
        return Serving()
    software, context, sampling = entry.get("owned_by"), entry.get("max_model_len"), None
    if software == "llamacpp":
        settings = await _llama_settings(get)
        sampling = settings.get("params")
        meta = entry.get("meta")
        context = settings.get("n_ctx") or (meta.get("n_ctx_train") if isinstance(meta, dict) else None)
    return Serving(
        software if isinstance(software, str) else None,
        context if isinstance(context, int) and not isinstance(context, bool) and context > 0 else None,
        sampling if isinstance(sampling, dict) else None,
    )


async def _llama_settings(get: Callable[[str], Awaitable[bytes]]) -> dict[str, Any]:
    try:
        settings = msgspec.json.decode(await get("/props"))["default_generation_settings"]
    except (CompletionError, msgspec.DecodeError, UnicodeDecodeError, RecursionError, KeyError, TypeError):
        return {}
    return settings if isinstance(settings, dict) else {}


def fingerprint_of(entries: list[dict[str, Any]]) -> str:
    """Changes when the served models do: a digest of what identifies each, without the time of asking."""
    identity = sorted((str(e["id"]), str(e.get("root")), str(e.get("max_model_len"))) for e in entries)
    return hashlib.sha256(repr(identity).encode()).hexdigest()[:16]
