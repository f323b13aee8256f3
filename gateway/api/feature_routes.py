"""Who may call each route of the control plane, those of installed features included."""

from gateway.api.route_access import ROUTES, Audience
from gateway.feature import FEATURES


def all_routes() -> dict[tuple[str, str], Audience]:
    """Return the audience of each route, by method and path."""
    routes = dict(ROUTES)
    for feature in FEATURES.values():
        for route, audience in feature.routes().items():
            method, path = route.split()
            routes[method, path] = Audience[audience]
    return routes
