"""Reloading: what a new configuration file changes, what of it has to wait for a restart, and what is refused."""

import logging
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from gateway.config.effective import digest
from gateway.config.schema import Config
from gateway.config.sections import feature_sections
from gateway.errors import ConfigError, StoreError
from gateway.processes.usable import Role, require_usable, require_variables

logger = logging.getLogger(__name__)

RELOADED_SERVER_KEYS = frozenset(
    {"max_body_bytes", "max_buffered_bytes", "relayed_paths", "admin_key_env", "control_keys", "protect_metrics"}
    | {"allowed_hosts", "cors_origins", "allow_open"}
)
HELD_KEYS = {
    "server": frozenset(Config().server.__struct_fields__) - RELOADED_SERVER_KEYS,
    "store": frozenset({"url"}),
    "sampling": frozenset({"secret_env"}),
    "telemetry": frozenset({"log_format", "otlp_endpoint"}),
}
"""Section to keys that a running gateway keeps: they are built into sockets, processes or the store."""

_AUDITOR_SECTIONS = frozenset(
    {"server", "store", "upstreams", "aliases", "sampling", "auditors", "drift", "audits", "telemetry"}
)


def auditor_sections() -> frozenset[str]:
    """Return the sections that the auditor works by; when a value there changes, the auditor is started again."""
    return _AUDITOR_SECTIONS | {section.name for section in feature_sections() if section.is_read_by_auditor}


class Change(NamedTuple):
    """The change from the configuration in force to the next one."""

    config: Config
    """The configuration from now on: the file, but for the keys that cannot change."""
    sections: list[str]
    """Top-level sections in which something changes."""
    waiting: list[str]
    """`section.key` of what the file changes and only a restart can."""


class Reloader:
    """Reads the file again (`read` may raise ConfigError), and gives a change to `apply` or logs in a line why not."""

    def __init__(
        self,
        current: Config,
        read: Callable[[], Config],
        apply: Callable[[Change], None],
        outcomes: Counter[str],
        *,
        role: Role,
    ) -> None:
        self.current = current
        self._role: Role = role
        self._outcomes = outcomes
        outcomes.update(applied=0, refused=0)  # a counter that is there from the start shows its first rise
        self._read = read
        self._apply = apply

    def reload(self) -> None:
        """Never raises: a refused file leaves everything as it is."""
        try:
            change = change_of(self.current, self._read(), self._role)
        except (ConfigError, StoreError) as exc:
            self._outcomes["refused"] += 1
            logger.error("configuration not reloaded, %s stays in force: %s", digest(self.current), exc)
            return
        self.current = change.config
        self._outcomes["applied"] += 1
        logger.warning("configuration reloaded: %s", describe(change))
        self._apply(change)


def change_of(current: Config, target: Config, role: Role) -> Change:
    """Raises ConfigError or StoreError when the wanted configuration cannot be run with."""
    if not target.upstreams and role != "auditor":
        raise ConfigError("it has no upstream: keep at least one [[upstreams]]")
    next_one, waiting = _held_back(current, target)
    require_variables(next_one, role, remedy="they were not set at the start: name others, or export them and restart")
    require_usable(next_one, role)  # what is wrong must be known before any process is told
    sections = [name for name in next_one.__struct_fields__ if getattr(next_one, name) != getattr(current, name)]
    return Change(next_one, sections, waiting)


def describe(change: Change) -> str:
    """One line: what is in force, what changed, what waits."""
    changed = ", ".join(change.sections) or "nothing"
    line = f"{digest(change.config)} is in force, changed: {changed}"
    if change.waiting:
        line += f"; these keys wait for a restart: {', '.join(change.waiting)}"
    return line


def _held_back(current: Config, target: Config) -> tuple[Config, list[str]]:
    waiting: list[str] = []
    sections: dict[str, Any] = {}
    for section, keys in HELD_KEYS.items():
        old, new = getattr(current, section), getattr(target, section)
        held = {key: getattr(old, key) for key in sorted(keys) if getattr(old, key) != getattr(new, key)}
        waiting += [f"{section}.{key}" for key in held]
        sections[section] = msgspec.structs.replace(new, **held)
    return msgspec.structs.replace(target, **sections), waiting
