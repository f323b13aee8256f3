"""Decides by the configuration in force who may enter the control plane: from which place, with which key and role."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from litestar import Request
from litestar.connection import ASGIConnection
from litestar.datastructures import State
from litestar.exceptions import NotAuthorizedException, PermissionDeniedException
from litestar.handlers import BaseRouteHandler

from gateway.api.origin import Origins, require_own_page
from gateway.api.route_access import ROUTES, Audience
from gateway.config.schema import Config
from gateway.control_keys import ControlKeys, Holder
from gateway.invitations import PREFIX, Invitations
from gateway.proxy import headers
from gateway.proxy.refusals import CHALLENGE
from gateway.store import access
from gateway.store.access import Action
from gateway.store.database import Database

SESSION_COOKIE = headers.SESSION_COOKIE.decode()
NOBODY = Holder("anybody", "admin")
"""The holder that stands for every caller of a server without control keys."""

Connection = ASGIConnection[Any, Any, Any, Any]


class _Rules(NamedTuple):
    config: Config
    keys: ControlKeys
    origins: Origins


class Access:
    """The guard of every route: lets in those that `route_access` names for it. Their `Holder` is the request's `user`.
    `config`: in force, read for each request. `invitations`: the links of raters. Without a control key: if the server
    `is_public`, or `asks_raters_for_links` and a rater has a link, only raters enter. Raises ConfigError as
    `ControlKeys`.
    """

    def __init__(
        self,
        config: Callable[[], Config],
        invitations: Sequence[Invitations],
        *,
        is_public: bool = False,
        asks_raters_for_links: bool = False,
        routes: Mapping[tuple[str, str], Audience] = ROUTES,
    ) -> None:
        self._routes = routes
        self._config = config
        self._invitations = invitations
        self._is_public = is_public
        self._asks_raters_for_links = asks_raters_for_links
        self._rules = self._rules_of(config())

    @property
    def keys(self) -> ControlKeys:
        return self._in_force().keys

    async def check_route(self, connection: Connection, _handler: BaseRouteHandler) -> None:
        """Raise NotAuthorizedException or PermissionDeniedException unless the request may call its route."""
        scope = connection.scope
        route = (str(scope.get("method")), scope["path_template"])
        audience = self._routes.get(route)
        if audience in (Audience.EVERYBODY, Audience.SENDER):  # a door for senders checks its data keys itself
            return
        rules = self._in_force()
        if audience is Audience.SCRAPER:
            if rules.config.server.protect_metrics and _holder(connection, rules.keys) is None:
                raise _unauthorized()
            return
        scope["user"] = None  # a request of the control plane, whoever sends it
        rules.origins.require_own(connection)
        holder = await self._enter(connection, rules)
        if holder is None:
            raise _unauthorized()
        scope["user"] = holder
        _require_audience(audience, holder, connection)
        if audience is Audience.ADMIN_WITH_KEY and not rules.keys:
            raise PermissionDeniedException(
                detail="served text is shown to administrators only: set server.admin_key_env to open this route"
            )

    async def _enter(self, connection: Connection, rules: _Rules) -> Holder | None:
        token = rater_token(connection)
        if token is not None:
            for invitation in self._invitations:
                invited = await invitation.find(token)
                if invited is not None:
                    return Holder(invited.rater, "rater", invited.project)
            return None
        if rules.keys:
            return _holder(connection, rules.keys)
        is_closed = self._is_public or (self._asks_raters_for_links and await self._has_invited())
        return None if is_closed else NOBODY

    async def _has_invited(self) -> bool:
        for invitation in self._invitations:
            if await invitation.any_exists():
                return True
        return False

    def _in_force(self) -> _Rules:
        config = self._config()
        if config is not self._rules.config:
            self._rules = self._rules_of(config)
        return self._rules

    def _rules_of(self, config: Config) -> _Rules:
        keys = ControlKeys(config)
        is_protected = bool(keys) or self._is_public
        return _Rules(config, keys, Origins(config.server.allowed_hosts, is_protected=is_protected))


def _require_audience(audience: Audience | None, holder: Holder, connection: Connection) -> None:
    if audience is None:
        raise PermissionDeniedException(detail="gateway/api/route_access.toml has no entry for this route")
    if holder.role == "admin":
        return
    if audience is Audience.HOLDER:
        return
    if holder.role == "rater":
        if audience is Audience.RATER and connection.path_params.get("project") == holder.project:
            return
        raise PermissionDeniedException(
            detail=f'the link of "{holder.name}" opens the tasks of the project "{holder.project}" and nothing else'
        )
    if audience not in (Audience.VIEWER, Audience.VISITOR):
        raise PermissionDeniedException(
            detail=f'the key "{holder.name}" is a viewer\'s, which reads numbers only: this needs an admin key'
        )


def name_of(connection: Connection) -> str:
    """Return the name for the record of accesses: the key's name, or the rater and the project of a link."""
    holder: Holder = connection.user
    return holder.name if holder.role != "rater" else f'rater "{holder.name}" of "{holder.project}"'


def _holder(connection: Connection, keys: ControlKeys) -> Holder | None:
    authorization = connection.headers.get("authorization", "")
    if authorization.partition(" ")[0].lower() == "bearer":  # another scheme is for a proxy in front
        return keys.holder(authorization)
    session = keys.session_holder(connection.cookies.get(SESSION_COOKIE, ""))
    if session is None:
        return None
    require_own_page(connection)
    return session[0]


def rater_token(connection: Connection) -> str | None:
    """Return the token of a rater's link, sent as a bearer token or by the page's cookie; None for any other key."""
    scheme, _, presented = connection.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return presented.strip() if presented.strip().startswith(PREFIX) else None
    cookie = connection.cookies.get(SESSION_COOKIE, "")
    if not cookie.startswith(PREFIX):
        return None
    require_own_page(connection)
    return cookie


def _unauthorized() -> NotAuthorizedException:
    return NotAuthorizedException(
        detail="the control key is missing or wrong: send it as Authorization: Bearer KEY",
        headers={"WWW-Authenticate": CHALLENGE},
    )


async def note(
    request: Request[Any, Any, State], database: Database, action: Action, asked: dict[str, Any], n_exchanges: int
) -> None:
    """Note an access by the name of the key and the address."""
    await access.note(
        database, who=name_of(request), client=client_of(request), action=action, asked=asked, n_exchanges=n_exchanges
    )


def client_of(request: Request[Any, Any, State]) -> str | None:
    return request.client.host if request.client else None
