"""The feature `coverage`: how much of the traffic that names an identity no suite asks about."""

from gateway.feature import Feature


class TrafficCoverage(Feature):
    """See docs/coverage.md."""

    name = "coverage"
    controllers = ("gateway.features.coverage.routes:LiveCoverageController",)
    pages = ("gateway.features.coverage.routes:CoverageController",)
    tabs = {"/console/coverage": "Coverage"}
    routes = {"GET /live/coverage": "VIEWER", "POST /live/coverage": "ADMIN", "GET /console/coverage": "VIEWER"}
    auditor_part = "gateway.features.coverage.auditing:CoveragePart"
