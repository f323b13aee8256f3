"""All pages of the console, each behind the guard that it needs."""

from litestar import Router

from gateway.api.access import Access
from gateway.api.origin import require_json
from gateway.console.alarms import AlarmsController
from gateway.console.audits import AuditPagesController
from gateway.console.coverage import CoverageController
from gateway.console.entrance import HANDLERS, LoginController
from gateway.console.exchanges import ExchangePagesController
from gateway.console.fingerprints import FingerprintsController
from gateway.console.overview import OverviewController
from gateway.console.raters import RatersController
from gateway.console.settings import SettingsController
from gateway.console.static_files import StaticController, to_the_console
from gateway.console.suite_fingerprints import SuiteFingerprintsController
from gateway.console.visitor import VisitorController


def console(access: Access) -> list[Router]:
    """What an error looks like is a page here."""
    with_text = [access.require_admin, access.require_some_key]
    pages = [
        OverviewController,
        AlarmsController,
        AuditPagesController,
        FingerprintsController,
        SuiteFingerprintsController,
        CoverageController,
        SettingsController,
    ]
    return [
        Router("/", route_handlers=[to_the_console, StaticController, LoginController]),
        Router("/", route_handlers=pages, guards=[access.require_reader], exception_handlers=HANDLERS),
        Router(
            "/",
            route_handlers=[VisitorController],
            guards=[require_json, access.require_holder],
            exception_handlers=HANDLERS,
        ),
        Router("/", route_handlers=[RatersController], guards=[access.require_admin], exception_handlers=HANDLERS),
        Router("/", route_handlers=[ExchangePagesController], guards=with_text, exception_handlers=HANDLERS),
    ]
