"""The feature `deploy`: files of the repository, which `biasgate deploy write` writes; runbooks, which pages show."""

from gateway.feature import Command, Feature


class Deploy(Feature):
    """See docs/install.md."""

    name = "deploy"
    commands = {
        "deploy": Command(
            "gateway.features.deploy.cli", "write the files to run it with: compose, systemd, Helm, alerts, dashboards"
        )
    }
    pages = ("gateway.features.deploy.runbooks:RunbooksController",)
    routes = {"GET /console/runbooks/{name}": "VIEWER"}
