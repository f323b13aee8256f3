"""/console/settings: what is configured and in force, and what every upstream serves."""

from typing import Any

import msgspec
from litestar import Controller, Response, get

from gateway.api.dependencies import Asked, Features, Plane, Settings, Store
from gateway.console.rendering import View
from gateway.console.showing import PageFrame
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
                "auditors": await auditors_seen.seen(database),
                "schedules": await schedules.list_schedules(database),
                "calibrations": await calibrations.list_calibrations(database),
                "panels": [
                    panel for each in features.values() for panel in await each.settings_panels(database, config)
                ],
                "drift": msgspec.structs.asdict(config.drift),
            }
            return View(template="settings.html", title="Settings", tab="/console/settings", data=data)

        return await pages.shown(request, build)
