"""Finds media in the fields that hold media, and text as numbers. A text that looks like media elsewhere is text."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from auditors.conditions import NUMBERS_KEPT
from gateway.config.schema import DECISION_PATHS

PLACEHOLDER = "[media]"
LONGEST_ADDRESS = 2048
"""Characters of a link to media; what is longer holds them itself."""
MOST_NUMBERS = 1024
"""Most numbers that are kept of a list in a schema, or of a list of tokens that may be used."""
TOKEN_FIELDS = frozenset({"logprobs", "prompt_logprobs", "token_ids", "prompt_token_ids", "kv_transfer_params"})
"""Members that repeat text as tokens and numbers."""

_LISTED = frozenset({"images", "videos", "audio"})
"""Members with a list of links (System One)."""
_LINKED = frozenset({"image_url", "video_url", "audio_url"})
"""Members with a link, or with an object that has one as `url`."""
_HOLDING = frozenset({"file_data", "b64_json", "image_embeds", "audio_embeds", "video_embeds", "prompt_embeds"})
_HOLDING |= {"encrypted_content"}
"""Members that are encoded bytes and nothing else."""
_INSIDE: Mapping[str, str] = {"input_audio": "data", "audio": "data", "file": "file_data"}
"""Members with an object that has bytes under this name."""
_BY_TYPE: Mapping[str, frozenset[str]] = {
    "base64": frozenset({"data"}),
    "redacted_thinking": frozenset({"data"}),
    "thinking": frozenset({"signature"}),
    "image_generation_call": frozenset({"result"}),
}
"""Members of an object of this `type`."""


def without_media(holder: dict[str, Any]) -> dict[str, Any]:
    """The object with PLACEHOLDER in place of the media that it holds itself; the same one where it holds none."""
    replaced = {name: masked for name, value in holder.items() if (masked := _mask_media(name, value)) is not value}
    kind = holder.get("type")
    if isinstance(kind, str) and kind in _BY_TYPE:
        replaced |= {name: PLACEHOLDER for name in _BY_TYPE[kind] if isinstance(holder.get(name), str)}
    return holder | replaced if replaced else holder


def is_token_data(name: str, value: Any) -> bool:
    """Return whether a member repeats text as tokens; a request's `logprobs` that only asks for them does not."""
    return name in TOKEN_FIELDS and not isinstance(value, bool | int | None)


def numbers_kept(endpoint: str) -> Collection[str]:
    """Return the members of a request in which a list of numbers is not text; a decision's are in its state."""
    return NUMBERS_KEPT | {"state"} if endpoint in DECISION_PATHS else NUMBERS_KEPT


def is_numbers(values: list[Any]) -> bool:
    """Return whether a list can be nothing but text as numbers: token ids, the bytes of a token, an embedding."""
    return bool(values) and all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def numbers(values: list[Any], *, are_text: bool) -> Any:
    """Return the part of such a list that is kept: no text; schemas and tokens, or a mark for long ones."""
    if are_text:
        return []
    return values if len(values) <= MOST_NUMBERS else PLACEHOLDER


def _mask_media(name: str, value: Any) -> Any:
    if name in _LINKED:
        if isinstance(value, dict):
            return _with(value, "url", _is_no_link)
        return PLACEHOLDER if _is_no_link(value) else value
    if name in _LISTED and isinstance(value, list):
        is_held = [isinstance(link, str) and link.lstrip()[:5].lower() == "data:" for link in value]
        masked = [PLACEHOLDER if held else link for link, held in zip(value, is_held, strict=True)]
        return masked if any(is_held) else value
    if name in _HOLDING:
        return PLACEHOLDER if isinstance(value, str) else value
    if name in _INSIDE and isinstance(value, dict):
        return _with(value, _INSIDE[name], lambda value: isinstance(value, str))
    return value


def _with(holder: dict[str, Any], name: str, is_media: Callable[[Any], bool]) -> dict[str, Any]:
    return holder | {name: PLACEHOLDER} if is_media(holder.get(name)) else holder


def _is_no_link(value: Any) -> bool:
    return isinstance(value, str) and (len(value) > LONGEST_ADDRESS or value.lstrip()[:5].lower() == "data:")
