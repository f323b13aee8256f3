"""The feature `fingerprints`: the console's pages that show models side by side."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gateway.feature import Feature

if TYPE_CHECKING:
    from litestar import Controller

    from gateway.worker_part import WorkerContext, WorkerPart


class Fingerprints(Feature):
    """See docs/console.md."""

    name = "fingerprints"

    def pages(self) -> Sequence["type[Controller]"]:
        from gateway.features.fingerprints.live_page import FingerprintsController
        from gateway.features.fingerprints.suite_pages import SuiteFingerprintsController

        return [FingerprintsController, SuiteFingerprintsController]

    def tabs(self) -> Mapping[str, str]:
        return {"/console/fingerprints": "Fingerprints"}

    def routes(self) -> Mapping[str, str]:
        return {
            "GET /console/fingerprints": "VIEWER",
            "GET /console/fingerprints/suites": "VIEWER",
            "GET /console/fingerprints/suites/{suite}": "VIEWER",
        }

    def worker_part(self, context: "WorkerContext") -> "WorkerPart":
        from gateway.features.fingerprints.suite_pages import FingerprintsPart

        return FingerprintsPart(context.database)
