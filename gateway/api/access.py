"""Who may enter the control plane, by the configuration in force: where from, with which key, and in which role."""

from collections.abc import Callable
from typing import Any, NamedTuple

from litestar.connection import ASGIConnection
from litestar.exceptions import NotAuthorizedException, PermissionDeniedException
from litestar.handlers import BaseRouteHandler

from gateway.api.control_keys import ControlKeys, Holder
from gateway.api.origin import Origins, require_own_page
from gateway.config.schema import Config
from gateway.proxy import headers
from gateway.proxy.refusals import CHALLENGE

SESSION_COOKIE = headers.SESSION_COOKIE.decode()
NOBODY = Holder("anybody", "admin")
"""Who comes where there is no control key."""

Connection = ASGIConnection[Any, Any, Any, Any]


class _Rules(NamedTuple):
    config: Config
    keys: ControlKeys
    origins: Origins


class Access:
    """The guards of the control plane; each is for one kind of route.

    A guard that lets a request pass leaves its `Holder` as the request's `user`.

    Args:
        config: gives the configuration in force; asked for each request, so that a reload replaces keys.

    Raises: ConfigError as `ControlKeys` does.
    """

    def __init__(self, config: Callable[[], Config]) -> None:
        self._config = config
        self._rules = _rules_of(config())

    @property
    def keys(self) -> ControlKeys:
        """Those in force."""
        return self._in_force().keys

    def require_reader(self, connection: Connection, _handler: BaseRouteHandler) -> None:
        """For numbers: a viewer reads them, and changes nothing."""
        self._enter(connection, needs_admin=connection.scope.get("method") not in ("GET", "HEAD"))

    def require_admin(self, connection: Connection, _handler: BaseRouteHandler) -> None:
        """For what holds words of people, to read as well as to change."""
        self._enter(connection, needs_admin=True)

    def require_holder(self, connection: Connection, _handler: BaseRouteHandler) -> None:
        """For a session of one's own, whatever the role."""
        self._enter(connection, needs_admin=False)

    def require_some_key(self, _connection: Connection, _handler: BaseRouteHandler) -> None:
        """For routes that show what people wrote: closed altogether until a control key is configured."""
        if not self.keys:
            raise PermissionDeniedException(
                detail="served text is shown to administrators only: set server.admin_key_env to open this route"
            )

    def protect_metrics(self, connection: Connection, _handler: BaseRouteHandler) -> None:
        """Lets everybody read them unless `server.protect_metrics`."""
        rules = self._in_force()
        if rules.config.server.protect_metrics and _holder(connection, rules.keys) is None:
            raise _unauthorized()

    def _enter(self, connection: Connection, *, needs_admin: bool) -> None:
        rules = self._in_force()
        connection.scope["user"] = None  # a request of the control plane, whoever sends it
        rules.origins.require_own(connection)
        holder = _holder(connection, rules.keys) if rules.keys else NOBODY
        if holder is None:
            raise _unauthorized()
        connection.scope["user"] = holder
        if needs_admin and holder.role != "admin":
            raise PermissionDeniedException(
                detail=f'the key "{holder.name}" is a viewer\'s, which reads numbers only: this needs an admin key'
            )

    def _in_force(self) -> _Rules:
        config = self._config()
        if config is not self._rules.config:
            self._rules = _rules_of(config)
        return self._rules


def name_of(connection: Connection) -> str:
    """Who the record of accesses names: the key's name."""
    holder: Holder = connection.user
    return holder.name


def _rules_of(config: Config) -> _Rules:
    keys = ControlKeys(config)
    return _Rules(config, keys, Origins(config.server.allowed_hosts, is_protected=bool(keys)))


def _holder(connection: Connection, keys: ControlKeys) -> Holder | None:
    """By the key that is sent, or else by the console's session."""
    authorization = connection.headers.get("authorization", "")
    if authorization.partition(" ")[0].lower() == "bearer":  # another scheme is for a proxy in front
        return keys.holder(authorization)
    session = keys.session_holder(connection.cookies.get(SESSION_COOKIE, ""))
    if session is None:
        return None
    require_own_page(connection)
    return session[0]


def _unauthorized() -> NotAuthorizedException:
    return NotAuthorizedException(
        detail="the control key is missing or wrong: send it as Authorization: Bearer KEY",
        headers={"WWW-Authenticate": CHALLENGE},
    )
