"""Lists the environment variables that a configuration names, the processes that read each, and those not set."""

import os
import typing
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from gateway.config.schema import AuditorConfig, Config, Process

PROCESSES: tuple[Process, ...] = typing.get_args(Process)


class NamedVariable(NamedTuple):
    """An environment variable that a setting names."""

    setting: str
    """Key in the file, such as "upstreams.gpu0.api_key_env"."""
    name: str
    read_by: frozenset[Process]
    is_needed: bool
    """False in the section of an auditor that is switched off."""


def named_variables(config: Config) -> list[NamedVariable]:
    """Return every variable that the configuration names, in the order of the settings."""
    variables = list(_walk(config, (), is_needed=True))
    if not config.server.protect_metrics:
        return variables
    # The auditor then asks for a control key at its own /metrics.
    return [
        variable._replace(read_by=variable.read_by | {"auditor"})
        if variable.setting.startswith("server.")
        else variable
        for variable in variables
    ]


def variables_of(config: Config, processes: Collection[Process] = PROCESSES) -> set[str]:
    """Return the names of the variables that processes of these kinds read."""
    return {variable.name for variable in named_variables(config) if not variable.read_by.isdisjoint(processes)}


def unset_variables(
    config: Config, processes: Collection[Process] = PROCESSES, environ: Mapping[str, str] | None = None
) -> list[NamedVariable]:
    """Return the variables that processes of these kinds need and that `environ` lacks or has empty."""
    environ = os.environ if environ is None else environ
    return [
        variable
        for variable in named_variables(config)
        if variable.is_needed and not variable.read_by.isdisjoint(processes) and not environ.get(variable.name)
    ]


def _walk(value: Any, path: tuple[str, ...], *, is_needed: bool) -> Iterator[NamedVariable]:
    if isinstance(value, msgspec.Struct):
        hints = typing.get_type_hints(type(value), include_extras=True)
        is_needed = is_needed and (value.enabled if isinstance(value, AuditorConfig) else True)
        for field in value.__struct_fields__:
            content = getattr(value, field)
            if not field.endswith("_env"):
                yield from _walk(content, (*path, field), is_needed=is_needed)
            elif content:
                yield NamedVariable(".".join((*path, field)), content, _read_by(hints[field]), is_needed)
    elif isinstance(value, list):
        for index, entry in enumerate(value):
            yield from _walk(entry, (*path, str(getattr(entry, "name", None) or index)), is_needed=is_needed)
    elif isinstance(value, dict):
        for name, entry in value.items():
            yield from _walk(entry, (*path, str(name)), is_needed=is_needed)


def _read_by(hint: Any) -> frozenset[Process]:
    [read_by] = [meta.extra["read_by"] for meta in hint.__metadata__ if meta.extra and "read_by" in meta.extra]
    return frozenset(read_by)
