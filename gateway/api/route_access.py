"""The role that each route needs, else refused: text of people or models an administrator's, numbers a viewer's."""

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from pathlib import Path
from pkgutil import resolve_name

from litestar.routes import BaseRoute

from gateway.feature import FEATURES
from gateway.invitations import Invitations
from gateway.store.database import Database


class Audience(Enum):
    """The callers that a route admits. The value is the manual's wording."""

    EVERYBODY = "anyone"
    SCRAPER = "anyone; a control key where `server.protect_metrics` is set"
    SENDER = "a data key"
    HOLDER = "any control key, or a rater's link"
    VISITOR = "any control key; the texts that `server.visitors_project` opens"
    VIEWER = "a viewer: numbers, names and states"
    RATER = "a rater's link, for its project and name; an administrator"
    ADMIN = "an administrator: text, and whatever changes something"
    ADMIN_WITH_KEY = "an administrator; closed until there is a control key"


_TABLE: dict[str, list[str]] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
ROUTES: dict[tuple[str, str], Audience] = {
    (method, path): Audience[audience]
    for audience, routes in _TABLE.items()
    for method, path in (route.split() for route in routes)
}
"""The audience by method and path, with the parameters of the path in braces."""


def served_routes(routes: Iterable[BaseRoute]) -> Iterator[tuple[str, str]]:
    """Yield method and path of every route of an app, without the OPTIONS that the framework adds."""
    for route in routes:
        for method in sorted(getattr(route, "methods", ())):
            if method != "OPTIONS":
                yield method, route.path_format


def require_entries(routes: Iterable[BaseRoute], entries: Mapping[tuple[str, str], Audience] = ROUTES) -> None:
    """Raise LookupError, with their names, for routes of an app that the table does not list."""
    missing = sorted(set(served_routes(routes)) - entries.keys())
    if missing:
        names = ", ".join(f"{method} {path}" for method, path in missing)
        raise LookupError(f"gateway/api/route_access.toml has no entry for {names}: say who may call it")


def all_routes() -> dict[tuple[str, str], Audience]:
    """Return the audience of each route, by method and path."""
    routes = dict(ROUTES)
    for feature in FEATURES.values():
        for route, audience in feature.routes.items():
            method, path = route.split()
            routes[method, path] = Audience[audience]
    return routes


def all_invitations(database: Database) -> list[Invitations]:
    """Return the links of raters, of each installed feature that keeps some."""
    places = (feature.invitations for feature in FEATURES.values())
    return [resolve_name(place)(database) for place in places if place is not None]
