"""Addresses of servers: as they may be printed (without passwords, keys and tokens), and the proxy in front of them."""

import re
from ipaddress import ip_address
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

_SHOWN_PARAMETERS = frozenset(
    {
        *("sslmode", "sslrootcert", "sslnegotiation", "host", "hostaddr", "port", "user", "dbname", "service"),
        *("application_name", "connect_timeout", "target_session_attrs", "load_balance_hosts", "options", "mode"),
        *("api-version", "version", "region", "endpoint_override", "window", "limit", "model", "run", "status"),
    }
)
"""Parameters of a query that are not secret; the value of any other is masked."""
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,31}://[^\s\"'<>`]+")
_PARAMETER = re.compile(r"(?<=[?&;])([^=&;#?]+)(=?)([^&#]*)")
_HOST_AND_PORT = re.compile(r"(?:\[[^]]{0,64}\]|[^:@\[\]]*)(?::\d*)?")
_NAMES_NO_USER = ("abfs", "abfss")
"""Schemes of addresses like CONTAINER@ACCOUNT."""
_KEEPS_USER = ("postgresql", "postgres")

MASK = "***"


def mask_url(url: str) -> str:
    """Return an address with its password and the values of its query masked, e.g. `https://***@host/v1?key=***`."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        return url
    user, at, place = _split_user(rest, scheme)
    if not at:
        return f"{scheme}{separator}{_mask_query(rest)}"
    name, colon, _ = user.partition(":")
    if scheme in _NAMES_NO_USER and not colon:
        masked_user = name
    else:
        masked_user = f"{name}:{MASK}" if scheme in _KEEPS_USER and colon else name if scheme in _KEEPS_USER else MASK
    return f"{scheme}{separator}{masked_user}@{_mask_query(place)}"


def mask_addresses(text: str) -> str:
    """Return a text in which every address is masked."""
    return _ADDRESS.sub(lambda match: mask_url(match[0]), text) if "://" in text else text


def without_credentials(url: str) -> str:
    """Return an address without its user, and with the values of its query masked."""
    scheme, separator, rest = url.partition("://")
    return f"{scheme}{separator}{_mask_query(_split_user(rest, scheme)[2])}" if separator else url


def proxy_for(url: str) -> str | None:
    """Return the proxy through which the environment (http_proxy, no_proxy, ...) reaches a server; None without one."""
    parts, proxies = urlsplit(url), getproxies()
    host = parts.hostname or ""
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy or is_loopback(host) or proxy_bypass(host):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine: localhost, a name under it, or an address such as 127.0.0.1 and ::1."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _split_user(rest: str, scheme: str) -> tuple[str, str, str]:
    """Return user and password, "@", and the rest; a password may hold any sign that should have been escaped."""
    user, at, place = rest.rpartition("@")
    authority = re.split(r"[/?#]", user, maxsplit=1)[0]
    if at and authority != user and _HOST_AND_PORT.fullmatch(authority) and scheme not in _KEEPS_USER:
        return "", "", rest  # the "@" stands in the path or the query
    return (user, at, place) if at else ("", "", rest)


def _mask_query(rest: str) -> str:
    path, mark, query = rest.partition("?")
    if not mark:
        return rest
    return path + _PARAMETER.sub(
        lambda match: match[0] if match[1].lower() in _SHOWN_PARAMETERS else f"{match[1]}={MASK}" if match[2] else MASK,
        mark + query,
    )
