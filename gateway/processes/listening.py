"""Sockets to listen on, and the address under which a person reaches one."""

import errno
import socket

from gateway.errors import ConfigError

BACKLOG = 2048


def bind(host: str, port: int) -> socket.socket:
    """A listening socket. Raises ConfigError, in words, when the address cannot be had."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except socket.gaierror as exc:
        raise ConfigError(f'host "{host}" is unknown: choose an address of this machine with --host') from exc
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as exc:
        listener.close()
        raise ConfigError(_refusal(exc, host, port)) from exc
    return listener


def _refusal(exc: OSError, host: str, port: int) -> str:
    if exc.errno == errno.EADDRINUSE:
        return f"port {port} on {host} is in use: choose another with --port"
    if exc.errno == errno.EACCES:
        return f"port {port} on {host} needs more rights than this user has: choose one above 1023 with --port"
    if exc.errno == errno.EADDRNOTAVAIL:
        return f'"{host}" is not an address of this machine: choose another with --host'
    return f"cannot listen on {host}:{port}: {exc.strerror}"


def reachable(listener: socket.socket, host: str) -> tuple[str, int]:
    """Name and port that reach a socket bound to `host` from this machine."""
    name = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)  # noqa: S104 - translated, not bound
    return name, listener.getsockname()[1]


def root_url(name: str, port: int) -> str:
    """http://NAME:PORT, an IPv6 address in brackets."""
    return f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"
