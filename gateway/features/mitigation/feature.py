"""The feature `mitigation`: policies on live requests, and what they change."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gateway.feature import Feature, Panel
from gateway.features.mitigation.config import MITIGATION

if TYPE_CHECKING:
    from gateway.config.schema import Config
    from gateway.store.database import Database


class LiveMitigation(Feature):
    """See docs/mitigation.md."""

    name = "mitigation"
    sections = (MITIGATION,)
    controllers = ("gateway.features.mitigation.api:LiveMitigationsController",)
    routes = {"GET /live/mitigations": "VIEWER"}
    worker_part = "gateway.features.mitigation.mitigation:MitigationPart"
    auditor_part = "gateway.features.mitigation.auditing:ArmsPart"

    def check_sections(self, config: "Config") -> None:
        if MITIGATION.of(config):
            from gateway.features.mitigation.policy_checks import check_mitigation

            check_mitigation(config)

    async def settings_panels(self, database: "Database", config: "Config") -> Sequence[Panel]:
        return [Panel("mitigation_panel.html", {"policies": MITIGATION.of(config)})]
