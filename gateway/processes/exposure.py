"""Checks the addresses that are listened on: nothing without keys beyond the loopback interface, unless the
configuration says so.
"""

import ipaddress
import socket

from gateway.config.schema import Config
from gateway.errors import ConfigError


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
