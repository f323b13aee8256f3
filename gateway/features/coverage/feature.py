"""The feature `coverage`: how much of the traffic that names an identity no suite asks about."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gateway.feature import Feature

if TYPE_CHECKING:
    from litestar import Controller

    from gateway.auditor.part import AuditorContext, AuditorPart


class TrafficCoverage(Feature):
    """See docs/coverage.md."""

    name = "coverage"

    def controllers(self) -> Sequence["type[Controller]"]:
        from gateway.features.coverage.routes import LiveCoverageController

        return [LiveCoverageController]

    def pages(self) -> Sequence["type[Controller]"]:
        from gateway.features.coverage.routes import CoverageController

        return [CoverageController]

    def tabs(self) -> Mapping[str, str]:
        return {"/console/coverage": "Coverage"}

    def routes(self) -> Mapping[str, str]:
        return {"GET /live/coverage": "VIEWER", "POST /live/coverage": "ADMIN", "GET /console/coverage": "VIEWER"}

    def auditor_part(self, context: "AuditorContext") -> "AuditorPart":
        from gateway.features.coverage.auditing import CoveragePart

        return CoveragePart(context)
