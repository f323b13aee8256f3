"""All pages of the console; `gateway.api.route_access` says who may open which."""

from pkgutil import resolve_name
from typing import Any

import msgspec
from litestar import Controller, Response, Router, get

from gateway.api.dependencies import Asked, Features, Plane, Settings, Store
from gateway.console.alarms import AlarmsController
from gateway.console.audits import AuditPagesController
from gateway.console.entrance import HANDLERS, LoginController
from gateway.console.exchanges import ExchangePagesController
from gateway.console.overview import OverviewController
from gateway.console.rendering import View
from gateway.console.showing import PageFrame
from gateway.console.static_files import StaticController, to_the_console
from gateway.feature import FEATURES
from gateway.store import auditors_seen, calibrations, schedules


class SettingsController(Controller):
    """Settings to read; they are changed in the file, and reloaded."""

    path = "/console/settings"
    include_in_schema = False

    @get("/")
    async def settings(
        self, request: Asked, pages: PageFrame, database: Store, config: Settings, dataplane: Plane, features: Features
    ) -> Response[Any]:
        async def build() -> View:
            data = {
                "sampling": config.sampling,
                "upstreams": dataplane.upstreams,
                "auditors": config.auditors.sections,
                "seen": await auditors_seen.seen(database),
                "schedules": await schedules.list_schedules(database),
                "calibrations": await calibrations.list_calibrations(database),
                "panels": [
                    panel for each in features.values() for panel in await each.settings_panels(database, config)
                ],
                "drift": msgspec.structs.asdict(config.drift),
            }
            return View(template="settings.html", title="Settings", tab="/console/settings", data=data)

        return await pages.shown(request, build)


def console() -> list[Router]:
    """Return the routers of all pages; an error of a page is a page too."""
    pages: list[type[Controller]] = [
        OverviewController,
        AlarmsController,
        AuditPagesController,
        SettingsController,
        ExchangePagesController,
        *(page for feature in FEATURES.values() for page in map(resolve_name, feature.pages)),
    ]
    return [
        Router("/", route_handlers=[to_the_console, StaticController, LoginController]),
        Router("/", route_handlers=pages, exception_handlers=HANDLERS),
    ]
