"""Collects the rules of installed features on who may enter: the audience of each route, and the links of raters."""

from gateway.api.route_access import ROUTES, Audience
from gateway.feature import FEATURES
from gateway.invitations import Invitations
from gateway.store.database import Database


def all_routes() -> dict[tuple[str, str], Audience]:
    """Return the audience of each route, by method and path."""
    routes = dict(ROUTES)
    for feature in FEATURES.values():
        for route, audience in feature.routes().items():
            method, path = route.split()
            routes[method, path] = Audience[audience]
    return routes


def all_invitations(database: Database) -> list[Invitations]:
    """Return the links of raters, of each installed feature that keeps some."""
    optional_links = (feature.invitations(database) for feature in FEATURES.values())
    return [links for links in optional_links if links is not None]
