"""Writes the deployment files into a directory, with keys of their own."""

import os
import re
import secrets
import tempfile
from importlib.metadata import version
from pathlib import Path

import msgspec

from gateway.errors import GatewayError
from gateway.features.deploy.files import deployment_files

ENVIRONMENT = "deploy/.env"
SECRETS = (
    "POSTGRES_PASSWORD",
    "BIASGATE_ADMIN_KEY",
    "BIASGATE_VIEWER_KEY",
    "BIASGATE_APP_KEY",
    "BIASGATE_SAMPLING_SECRET",
    "GRAFANA_PASSWORD",
)
BYTES = 32
"""Random bytes in each secret; written with letters that a URL and a shell take as they are."""

_TEMPLATE = """\
# Made by `biasgate deploy write`. Read by docker compose, and by the systemd units as /etc/biasgate/biasgate.env.
# This file holds every key: only its owner may read it. `biasgate deploy write --force` leaves it as it is.

# What vLLM serves, and the token of the model hub where a model asks for one.
MODEL=Qwen/Qwen2.5-7B-Instruct
HF_TOKEN=

# The images are built from the package index, at this version.
BIASGATE_SOURCE=index
BIASGATE_VERSION={version}

# The control plane: an administrator, and a viewer (Prometheus). The data plane: an application.
{keys}
"""
_PUBLIC, _PUBLIC_FOLDER, _SECRET = 0o644, 0o755, 0o600
"""Modes: containers read the files as users of their own, whatever the writer's umask; keys are the owner's."""


class Written(msgspec.Struct, frozen=True):
    """The result of `write`."""

    files: list[str]
    is_env_new: bool
    lacking: list[str]
    """Variables that an older `.env`, which is kept, does not have."""


def write(directory: Path, *, force: bool = False) -> Written:
    """Write every file, and `deploy/.env` if absent. Raises GatewayError; first, for present files without `force`."""
    try:
        files = deployment_files()
        if not force and (there := [name for name in files if os.path.lexists(directory / name)]):
            more = f" and {len(there) - 1} more of its files" if len(there) > 1 else ""
            raise GatewayError(
                f"{directory / there[0]}{more} would be overwritten: name another directory, or give --force "
                f"(it leaves {ENVIRONMENT} alone)"
            )
        for name, source in files.items():
            for n in range(len(Path(name).parts)):
                folder = directory.joinpath(*Path(name).parts[:n])
                if not folder.is_dir():
                    folder.mkdir(parents=True)
                    folder.chmod(_PUBLIC_FOLDER)
            _replace(directory / name, source.read_bytes(), _PUBLIC)
        env = directory / ENVIRONMENT
        if env.exists():
            return Written(sorted(files), False, lacking(env.read_text(encoding="utf-8-sig")))
        _replace(env, drawn().encode(), _SECRET)
        return Written(sorted([*files, ENVIRONMENT]), True, [])
    except UnicodeDecodeError as exc:
        raise GatewayError(f"{directory / ENVIRONMENT} is not UTF-8 text: {exc.reason} at byte {exc.start}") from exc
    except OSError as exc:
        why = f"cannot write {exc.filename or directory}: {exc.strerror or exc}"
        raise GatewayError(f"{why}; name a directory that you may write to") from exc


def drawn() -> str:
    """A whole `.env` with secrets of its own."""
    keys = "\n".join(f"{name}={secrets.token_urlsafe(BYTES)}" for name in SECRETS)
    return _TEMPLATE.format(version=version("biasgate"), keys=keys)


def lacking(text: str) -> list[str]:
    """Variables that `drawn` has and this `.env` does not, in order."""
    return [name for name in _names(drawn()) if name not in _names(text)]


def _names(text: str) -> list[str]:
    return re.findall(r"^\s*(?:export\s+)?(\w+)\s*=", text, re.MULTILINE)


def _replace(path: Path, content: bytes, mode: int) -> None:
    """All of it or nothing, never through a link that stands there, and with its mode from the first byte on."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".biasgate-")  # 0600
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            os.fchmod(file.fileno(), mode)
        os.replace(name, path)  # noqa: PTH105 - both are names
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
