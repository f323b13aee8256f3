"""What may be shown of the configuration that holds: its values without secrets, and a name for it."""

import hashlib
import re
import typing
from typing import Any

import msgspec

from gateway.config.schema import Config

_QUERY_PASSWORD = re.compile(r"([?&](?:ssl)?password=)[^&]*")


def effective(config: Config) -> dict[str, Any]:
    """Plain data of the configuration that holds; passwords in URLs are masked."""
    masked = _with_masked_urls(msgspec.to_builtins(config))
    return typing.cast(dict[str, Any], masked)


def _with_masked_urls(plain: Any) -> Any:
    if isinstance(plain, dict):
        return {key: _with_masked_urls(value) for key, value in plain.items()}
    if isinstance(plain, list):
        return [_with_masked_urls(value) for value in plain]
    return mask_url(plain) if isinstance(plain, str) and "://" in plain else plain


def digest(config: Config) -> str:
    """Twelve hexadecimal digits that name a configuration, the same on every machine; no secret goes into them."""
    plain = effective(config)
    # The parent fills these two in for its children, anew at every start.
    del plain["server"]["metrics_dir"], plain["sampling"]["secret_env"]
    return hashlib.sha256(msgspec.json.encode(plain, order="deterministic")).hexdigest()[:12]


def mask_url(url: str) -> str:
    """`postgresql://user:***@host/db`, `...?password=***`: a password never appears in logs or pages."""
    url = _QUERY_PASSWORD.sub(r"\1***", url)
    head, at, tail = url.rpartition("@")
    scheme, sep, credentials = head.partition("://")
    if not at or ":" not in credentials:
        return url
    return f"{scheme}{sep}{credentials.split(':', 1)[0]}:***@{tail}"
