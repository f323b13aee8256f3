"""The feature `canary`: two models compared on replayed live exchanges."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gateway.feature import Command, Feature, Panel

if TYPE_CHECKING:
    from litestar import Controller

    from gateway.auditor.part import AuditorContext, AuditorPart
    from gateway.config.schema import Config
    from gateway.store.database import Database

LISTED = 20
"""Canaries on the settings page."""


class Canary(Feature):
    """See docs/canary.md."""

    name = "canary"

    def commands(self) -> Mapping[str, Command]:
        summary = "compare a new model with the one that serves, and wait for a verdict"
        return {"canary": Command("gateway.features.canary.cli", summary)}

    def controllers(self) -> Sequence["type[Controller]"]:
        from gateway.features.canary.api import CanariesController

        return [CanariesController]

    def routes(self) -> Mapping[str, str]:
        return {
            "GET /canaries": "VIEWER",
            "GET /canaries/{canary_id}": "VIEWER",
            "POST /canaries": "ADMIN",
            "POST /canaries/{canary_id}/cancel": "ADMIN",
        }

    def check(self, config: "Config") -> None:
        if config.audits.canary_webhook_env is not None:
            from gateway.features.canary.webhook import read_url

            read_url(config)

    def auditor_part(self, context: "AuditorContext") -> "AuditorPart":
        from gateway.features.canary.auditing import CanaryPart

        return CanaryPart(context)

    async def settings_panels(self, database: "Database", config: "Config") -> Sequence[Panel]:
        from gateway.features.canary import store

        return [Panel("canary_panel.html", {"canaries": await store.list_canaries(database, limit=LISTED)})]
