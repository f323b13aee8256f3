"""The feature `fingerprints`: the console's pages that show models side by side."""

from gateway.feature import Feature


class Fingerprints(Feature):
    """See docs/console.md."""

    name = "fingerprints"
    pages = (
        "gateway.features.fingerprints.live_page:FingerprintsController",
        "gateway.features.fingerprints.suite_pages:SuiteFingerprintsController",
    )
    tabs = {"/console/fingerprints": "Fingerprints"}
    routes = {
        "GET /console/fingerprints": "VIEWER",
        "GET /console/fingerprints/suites": "VIEWER",
        "GET /console/fingerprints/suites/{suite}": "VIEWER",
    }
    worker_part = "gateway.features.fingerprints.suite_pages:FingerprintsPart"
