"""The role that each route needs, else refused: text of people or models an administrator's, numbers a viewer's."""

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
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


_TABLE: dict[Audience, str] = {
    Audience.EVERYBODY: """
        GET /
        GET /livez
        GET /readyz
        GET /console/login
        GET /console/static/{name}
    """,
    Audience.SCRAPER: "GET /metrics",
    Audience.HOLDER: """
        GET /console/session
        POST /console/session
        DELETE /console/session
    """,
    Audience.VIEWER: """
        GET /suites
        GET /audits
        GET /audits/compare
        GET /audits/{audit_id}
        GET /audits/{audit_id}/events
        GET /audits/{audit_id}/gate
        GET /audits/{audit_id}/report
        GET /audits/{audit_id}/result
        GET /schedules
        GET /schedules/{schedule_id}
        GET /judges/calibrations
        GET /judges/calibrations/{digest}
        GET /live/alarms
        GET /live/circuits
        GET /live/detectors
        GET /live/estimates
        GET /live/ledger
        GET /live/streams/{stream_id}/history
        GET /live/streams/{stream_id}/replicas
        GET /console
        GET /console/alarms
        GET /console/alarms/{stream_id}
        GET /console/audits
        GET /console/audits/compare
        GET /console/audits/{audit_id}
        GET /console/settings
        GET /schema
        GET /schema/openapi.json
        GET /schema/{path}
    """,
    Audience.ADMIN: """
        POST /audits
        POST /audits/estimate
        POST /audits/{audit_id}/cancel
        POST /audits/{audit_id}/resume
        GET /audits/compare/report
        GET /audits/{audit_id}/items
        GET /audits/{audit_id}/responses
        POST /schedules
        DELETE /schedules/{schedule_id}
        POST /judges/calibrations
        POST /live/alarms/{stream_id}/acknowledge
        GET /live/alarms/acknowledgements
        POST /live/streams/{stream_id}/restart
        GET /console/audits/{audit_id}/items
    """,
    Audience.ADMIN_WITH_KEY: """
        GET /live/exchanges
        DELETE /live/exchanges
        GET /live/exchanges/access
        GET /live/exchanges/compare
        GET /live/exchanges/redactions
        GET /live/exchanges/{exchange_id}
        GET /console/exchanges
        GET /console/exchanges/{exchange_id}
    """,
}

ROUTES: dict[tuple[str, str], Audience] = {
    (method, path): audience
    for audience, lines in _TABLE.items()
    for method, path in (line.split() for line in lines.split("\n") if line.strip())
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
        raise LookupError(f"gateway/api/route_access.py has no entry for {names}: say who may call it")


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
