"""The `.env` of a deployment: its variables, those of which are secrets drawn anew."""

import re
import secrets
from importlib.metadata import version

SECRETS = (
    "POSTGRES_PASSWORD",
    "BIASGATE_ADMIN_KEY",
    "BIASGATE_VIEWER_KEY",
    "BIASGATE_APP_KEY",
    "BIASGATE_SAMPLING_SECRET",
    "GRAFANA_PASSWORD",
)
BYTES = 32
"""Of chance in each; written with letters that a URL and a shell take as they are."""

_TEMPLATE = """\
# Made by `biasgate deploy write`. Read by docker compose, and by the systemd units as /etc/biasgate/biasgate.env.
# Whoever reads this file has every key: it is its owner's alone. `biasgate deploy write --force` leaves it as it is.

# What vLLM serves, and the token of the model hub where a model asks for one.
MODEL=Qwen/Qwen2.5-7B-Instruct
HF_TOKEN=

# The images are built from the package index, at this version.
BIASGATE_SOURCE=index
BIASGATE_VERSION={version}

# The control plane: an administrator, and a viewer (Prometheus). The data plane: an application.
{keys}
"""


def drawn() -> str:
    """A whole `.env` with secrets of its own."""
    keys = "\n".join(f"{name}={secrets.token_urlsafe(BYTES)}" for name in SECRETS)
    return _TEMPLATE.format(version=version("biasgate"), keys=keys)


def lacking(text: str) -> list[str]:
    """Variables that `drawn` has and this `.env` does not, in order."""
    return [name for name in _names(drawn()) if name not in _names(text)]


def _names(text: str) -> list[str]:
    return re.findall(r"^\s*(?:export\s+)?(\w+)\s*=", text, re.MULTILINE)
