"""Adds to every reply of the control plane, from any handler or error, a header and its line in the log."""

from collections.abc import Callable

import structlog
from litestar.types import Message, Scope

from gateway.config.schema import Config

NOSNIFF = (b"x-content-type-options", b"nosniff")
_READING = frozenset({"GET", "HEAD", "OPTIONS"})

log = structlog.get_logger(__name__)


async def forbid_sniffing(message: Message, _scope: Scope) -> None:
    """A browser takes the body for what its content type says and nothing else."""
    if message["type"] == "http.response.start":
        message["headers"] = [*message["headers"], NOSNIFF]


class AccessLog:
    """One line for each control request that changes something, and with `telemetry.access_log` for every one."""

    def __init__(self, config: Callable[[], Config]) -> None:
        self._config = config

    async def __call__(self, message: Message, scope: Scope) -> None:
        # Whoever was at a guard of the control plane left a user, or None where no key was right.
        if message["type"] != "http.response.start" or "user" not in scope:
            return
        method, holder = scope.get("method"), scope["user"]
        if method in _READING and not self._config().telemetry.access_log:
            return
        log.info(
            "control request",
            name=holder.name if holder else None,
            role=holder.role if holder else None,
            method=method,
            path=scope["path"][:200],
            status=message["status"],
        )
