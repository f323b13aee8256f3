"""The feature `deploy`: the deployment files of the repository, which `biasgate deploy write` writes."""

from collections.abc import Mapping

from gateway.feature import Command, Feature


class Deploy(Feature):
    """See docs/install.md."""

    name = "deploy"

    def commands(self) -> Mapping[str, Command]:
        summary = "write the files to run it with: compose, systemd, Helm, alerts, dashboards"
        return {"deploy": Command("gateway.features.deploy.cli", summary)}
