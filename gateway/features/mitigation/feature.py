"""The feature `mitigation`: policies on live requests, and what they change."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gateway.config.sections import FeatureSection
from gateway.feature import Feature, Panel
from gateway.features.mitigation.config import MITIGATION

if TYPE_CHECKING:
    from litestar import Controller

    from gateway.auditor.part import AuditorContext, AuditorPart
    from gateway.config.schema import Config
    from gateway.store.database import Database
    from gateway.worker_part import WorkerContext, WorkerPart


class LiveMitigation(Feature):
    """See docs/mitigation.md."""

    name = "mitigation"

    def sections(self) -> Sequence[FeatureSection[Any]]:
        return [MITIGATION]

    def check_sections(self, config: "Config") -> None:
        if MITIGATION.of(config):
            from gateway.features.mitigation.policy_checks import check_mitigation

            check_mitigation(config)

    def controllers(self) -> Sequence["type[Controller]"]:
        from gateway.features.mitigation.api import LiveMitigationsController

        return [LiveMitigationsController]

    def routes(self) -> Mapping[str, str]:
        return {"GET /live/mitigations": "VIEWER"}

    def worker_part(self, context: "WorkerContext") -> "WorkerPart":
        from gateway.features.mitigation.mitigation import MitigationPart

        return MitigationPart(context)

    def auditor_part(self, context: "AuditorContext") -> "AuditorPart":
        from gateway.features.mitigation.auditing import ArmsPart

        return ArmsPart()

    async def settings_panels(self, database: "Database", config: "Config") -> Sequence[Panel]:
        return [Panel("mitigation_panel.html", {"policies": MITIGATION.of(config)})]
