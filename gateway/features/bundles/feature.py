"""The feature `bundles`: a finished run as one file that can be signed, verified and scored again."""

from gateway.feature import Command, Feature


class Bundles(Feature):
    """See docs/bundles.md."""

    name = "bundles"
    commands = {
        "audit bundle": Command(
            "gateway.features.bundles.cli.bundle", "pack a finished run into one file that can be signed"
        ),
        "audit verify": Command("gateway.features.bundles.cli.verify", "check that a bundle is as it was signed"),
        "audit score": Command("gateway.features.bundles.cli.score", "score recorded replies; sends nothing"),
    }
    controllers = ("gateway.features.bundles.api:BundlesController",)
    routes = {"GET /audits/{audit_id}/bundle": "ADMIN"}
    inserts = {"audit.downloads": "bundle_download.html"}
