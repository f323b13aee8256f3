"""The feature `canary`: two models compared on replayed live exchanges."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gateway.feature import Command, Feature, Panel

if TYPE_CHECKING:
    from gateway.config.schema import Config
    from gateway.store.database import Database

LISTED = 20
"""Canaries on the settings page."""


class Canary(Feature):
    """See docs/canary.md."""

    name = "canary"
    commands = {
        "canary": Command(
            "gateway.features.canary.cli", "compare a new model with the one that serves, and wait for a verdict"
        )
    }
    controllers = ("gateway.features.canary.api:CanariesController",)
    routes = {
        "GET /canaries": "VIEWER",
        "GET /canaries/{canary_id}": "VIEWER",
        "POST /canaries": "ADMIN",
        "POST /canaries/{canary_id}/cancel": "ADMIN",
    }
    auditor_part = "gateway.features.canary.auditing:CanaryPart"

    def check(self, config: "Config") -> None:
        if config.audits.canary_webhook_env is not None:
            from gateway.features.canary.webhook import read_url

            read_url(config)

    async def settings_panels(self, database: "Database", config: "Config") -> Sequence[Panel]:
        from gateway.features.canary import store

        return [Panel("canary_panel.html", {"canaries": await store.list_canaries(database, limit=LISTED)})]
