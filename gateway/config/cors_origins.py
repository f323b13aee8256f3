"""Checks `server.cors_origins`: each value must be what a browser sends as Origin, or no page would ever match it."""

import json
import re

from gateway.config.schema import ServerConfig
from gateway.errors import ConfigError

_ORIGIN = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<host>[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?|\[[0-9a-f:.]+\])(?::(?P<port>[0-9]{1,5}))?",
    re.IGNORECASE,
)
_DEFAULT_PORTS = {"http": 80, "https": 443}


def validate_cors_origins(server: ServerConfig, where: str) -> None:
    """Raise ConfigError, one line that names the value and what to write instead."""
    origins = server.cors_origins
    if isinstance(origins, str):
        if origins != "*":
            raise ConfigError(
                f"{where}: server.cors_origins is {json.dumps(origins)}: give a list of origins, such as "
                '["https://app.example"], or "*" for any'
            )
        return
    for origin in origins:
        if problem := _problem(origin, is_alone=len(origins) == 1):
            raise ConfigError(f"{where}: server.cors_origins has {json.dumps(origin)}: {problem}")


def _problem(origin: str, *, is_alone: bool) -> str | None:
    if origin == "*":
        return None if is_alone else '"*" allows every origin: list it alone, or leave it out'
    if origin == "null":
        return "any sandboxed page and any file sends that: serve the page from an address and name that"
    parts = _ORIGIN.fullmatch(origin)
    if parts is None:
        return (
            'write scheme://host or scheme://host:port as browsers send it, such as "https://app.example", without a '
            "path, a slash at its end, a user or a pattern"
        )
    scheme, port = parts["scheme"].lower(), parts["port"]
    if port is not None and not 1 <= int(port) <= 65535:
        return "its port is not between 1 and 65535"
    if port is not None and (int(port) == _DEFAULT_PORTS.get(scheme) or port.startswith("0")):
        return f'browsers do not send the port like that: write "{scheme}://{parts["host"]}{_sent_port(scheme, port)}"'
    return None


def _sent_port(scheme: str, port: str) -> str:
    return "" if int(port) == _DEFAULT_PORTS.get(scheme) else f":{int(port)}"
