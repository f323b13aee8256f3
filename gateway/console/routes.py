"""All pages of the console; `gateway.api.route_access` says who may open which."""

from litestar import Controller, Router

from gateway.console.alarms import AlarmsController
from gateway.console.audits import AuditPagesController
from gateway.console.entrance import HANDLERS, LoginController
from gateway.console.exchanges import ExchangePagesController
from gateway.console.overview import OverviewController
from gateway.console.settings import SettingsController
from gateway.console.static_files import StaticController, to_the_console
from gateway.feature import FEATURES


def console() -> list[Router]:
    """Return the routers of all pages; an error of a page is a page too."""
    pages: list[type[Controller]] = [
        OverviewController,
        AlarmsController,
        AuditPagesController,
        SettingsController,
        ExchangePagesController,
        *(page for feature in FEATURES.values() for page in feature.pages()),
    ]
    return [
        Router("/", route_handlers=[to_the_console, StaticController, LoginController]),
        Router("/", route_handlers=pages, exception_handlers=HANDLERS),
    ]
