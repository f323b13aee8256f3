"""Renders the parts of the configuration in force that may be shown: its values without secrets, and a name for it."""

import hashlib
import typing
from typing import Any

import msgspec

from auditors.addresses import mask_url
from gateway.config.schema import Config


def effective(config: Config) -> dict[str, Any]:
    """Plain data of the configuration that holds; passwords in URLs are masked."""
    masked = _with_masked_urls(msgspec.to_builtins(config))
    return typing.cast(dict[str, Any], masked)


def _with_masked_urls(plain: Any) -> Any:
    if isinstance(plain, dict):
        return {key: _with_masked_urls(value) for key, value in plain.items()}
    if isinstance(plain, list):
        return [_with_masked_urls(value) for value in plain]
    return mask_url(plain) if isinstance(plain, str) else plain


def digest(config: Config) -> str:
    """Twelve hexadecimal digits that name a configuration, the same on every machine; no secret goes into them."""
    plain = effective(config)
    # The parent fills these two in for its children, anew at every start.
    del plain["server"]["metrics_dir"], plain["sampling"]["secret_env"]
    return hashlib.sha256(msgspec.json.encode(plain, order="deterministic")).hexdigest()[:12]
