"""Redacts JSON bodies, so that they keep their form. Token ids, log-probabilities, media and bodies that are not JSON
could carry text past the patterns and are dropped. Events were joined before.
"""

from collections import Counter
from collections.abc import Collection
from typing import Any

import msgspec

from auditors.conditions import NUMBERS_KEPT
from gateway.privacy.media import PLACEHOLDER, is_numbers, is_token_data, numbers, without_media
from gateway.privacy.redaction import Redactor

USER_PLACEHOLDER = "[user]"

_USER_FIELDS = ("user", "safety_identifier", "prompt_cache_key")


def user_of(request: bytes) -> str | None:
    """Return a request's user (`user`, `safety_identifier` or `metadata.user_id`); None if it names none."""
    body = _decoded(request)
    if not isinstance(body, dict):
        return None
    metadata = body.get("metadata")
    in_metadata = metadata.get("user_id") if isinstance(metadata, dict) else None
    candidates = [body.get("user"), body.get("safety_identifier"), in_metadata]
    return next((name for name in candidates if isinstance(name, str) and name), None)


def redacted_request(
    body: bytes, redactor: Redactor, counts: Counter[str], numbers_kept: Collection[str] = NUMBERS_KEPT
) -> bytes:
    """Return the request without what identifies a person, empty if it is not JSON; numbers in `numbers_kept` stay."""
    content = _decoded(body)
    if content is None:
        return b""
    if isinstance(content, dict):
        holders: list[tuple[Any, str]] = [(content, field) for field in _USER_FIELDS]
        holders.append((content.get("metadata"), "user_id"))
        for holder, field in holders:
            if isinstance(holder, dict) and holder.get(field) is not None:
                holder[field] = USER_PLACEHOLDER
    return _encoded(content, redactor, counts, numbers_kept)


def redacted_response(body: bytes, redactor: Redactor, counts: Counter[str]) -> bytes:
    content = _decoded(body)
    return b"" if content is None else _encoded(content, redactor, counts)


def _encoded(content: Any, redactor: Redactor, counts: Counter[str], numbers_kept: Collection[str] = ()) -> bytes:
    try:
        return msgspec.json.encode(_walked(content, redactor, counts, numbers_kept=numbers_kept))
    except RecursionError:
        return b""


def _walked(
    value: Any,
    redactor: Redactor,
    counts: Counter[str],
    *,
    has_numbers: bool = False,
    numbers_kept: Collection[str] = (),
) -> Any:
    """Redact every string, keys too. With `has_numbers`, and in members in `numbers_kept`, numbers are not text."""
    match value:
        case str():
            if value == PLACEHOLDER:
                counts["media"] += 1
                return value
            return redactor.redacted(value, counts)
        case dict():
            return {
                redactor.redacted_name(key, counts): None
                if is_token_data(key, member) and not has_numbers
                else _walked(member, redactor, counts, has_numbers=has_numbers or key in numbers_kept)
                for key, member in without_media(value).items()
            }
        case list() if is_numbers(value):
            return numbers(value, are_text=not has_numbers)
        case list():
            return [_walked(item, redactor, counts, has_numbers=has_numbers) for item in value]
    return value


def _decoded(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
