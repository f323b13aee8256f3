"""Finds faults that keep a configuration from being served, without creating anything or using the network."""

import ipaddress
import os
import socket
import tempfile
from pathlib import Path
from typing import Literal

import msgspec

from gateway.auditor.checks import require_auditable
from gateway.config.schema import Config, Process
from gateway.config.variables import unset_variables
from gateway.control_keys import ControlKeys
from gateway.errors import ConfigError
from gateway.feature import FEATURES
from gateway.privacy.texts import texts_of
from gateway.proxy.admission import Admission
from gateway.proxy.upstreams import Upstreams
from gateway.store.connections import require_store


def require_keys_off_loopback(config: Config) -> None:
    """Raises ConfigError when others could reach a plane of the gateway that asks for no key."""
    server = config.server
    open_planes = []
    if not config.keys:
        open_planes.append("the data plane has no [[keys]]")
    if not (server.admin_key_env or server.control_keys):
        open_planes.append("the control plane has neither server.admin_key_env nor [[server.control_keys]]")
    if not open_planes or server.allow_open or is_loopback(server.host):
        return
    raise ConfigError(
        f'host "{server.host}" would be open to all who reach this machine: {" and ".join(open_planes)}; '
        "add them, listen on 127.0.0.1, or set server.allow_open = true"
    )


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches the host, by every address of its name, if the name is known."""
    try:
        entries = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError:
        return True
    addresses = [ipaddress.ip_address(str(entry[4][0])) for entry in entries]
    return all((getattr(address, "ipv4_mapped", None) or address).is_loopback for address in addresses)


Role = Literal["serve", "gateway", "auditor"]
"""Commands that run services."""
_PROCESSES: dict[Role, tuple[Process, ...]] = {
    "serve": ("gateway", "writer", "auditor"),
    "gateway": ("gateway", "writer"),
    "auditor": ("auditor",),
}
NOT_CHECKED = (
    "not checked, as it needs the network: whether ports are free; whether upstreams, judges, a served embedder, a "
    "collector, PostgreSQL and the export's address answer; the content of the store (schema, key, run of "
    "drift.reference)"
)


def require_usable(config: Config, role: Role) -> None:
    """Raise ConfigError or StoreError (one line) for a fault of the configuration, command-line options included."""
    require_variables(config, role)
    if role != "auditor":
        _require_servable(config)
    elif config.server.protect_metrics:
        ControlKeys(config)
    if role != "serve" or config.store.encryption_key_env is not None:  # `serve` draws a key where it needs one
        texts_of(config)
    require_store(config.store.url)
    if role != "gateway":
        require_auditable(config)
        for feature in FEATURES.values():
            feature.check(config)


def require_variables(config: Config, role: Role, *, remedy: str = "export them") -> None:
    """Raise ConfigError, with the remedy, if an environment variable is missing; the error names all of them."""
    if missing := unset_variables(config, _PROCESSES[role]):
        variables = ", ".join(f'"{variable.name}" ({variable.setting})' for variable in missing)
        raise ConfigError(f"environment variables named in the configuration but not set: {variables}: {remedy}")


def _require_servable(config: Config) -> None:
    if not config.upstreams:
        raise ConfigError(
            "no upstream is configured: add [[upstreams]] with name and base_url (e.g. http://127.0.0.1:8000) "
            "to biasgate.toml, or name another file with --config"
        )
    require_keys_off_loopback(config)
    # With a directory, Admission would create files there, which only the server may do.
    Admission(msgspec.structs.replace(config, server=msgspec.structs.replace(config.server, metrics_dir=None)))
    Upstreams(config)
    ControlKeys(config)
    for feature in FEATURES.values():
        feature.tracer(config)
    try:
        tempfile.gettempdir()
    except OSError as exc:
        raise ConfigError(f"no Unix socket can be made in a temporary directory: {exc.strerror}: set TMPDIR") from exc
    if config.server.metrics_dir is not None:
        _require_directory(Path(config.server.metrics_dir), "server.metrics_dir")


def _require_directory(path: Path, setting: str) -> None:
    nearest = next((folder for folder in (path, *path.absolute().parents) if folder.exists()), path)
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        raise ConfigError(f'{setting} "{path}" cannot be written: make it writable for this user, or name another')
