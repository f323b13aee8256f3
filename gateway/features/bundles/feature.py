"""The feature `bundles`: a finished run as one file that can be signed, verified and scored again."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gateway.feature import Command, Feature

if TYPE_CHECKING:
    from litestar import Controller


class Bundles(Feature):
    """See docs/bundles.md."""

    name = "bundles"

    def commands(self) -> Mapping[str, Command]:
        return {
            "audit bundle": Command(
                "gateway.features.bundles.cli.bundle", "pack a finished run into one file that can be signed"
            ),
            "audit verify": Command("gateway.features.bundles.cli.verify", "check that a bundle is as it was signed"),
            "audit score": Command("gateway.features.bundles.cli.score", "score recorded replies; sends nothing"),
        }

    def controllers(self) -> Sequence["type[Controller]"]:
        from gateway.features.bundles.api import BundlesController

        return [BundlesController]

    def routes(self) -> Mapping[str, str]:
        return {"GET /audits/{audit_id}/bundle": "ADMIN"}

    def inserts(self) -> Mapping[str, str]:
        return {"audit.downloads": "bundle_download.html"}
