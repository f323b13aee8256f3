"""The feature `deploy`: files of the repository, which `biasgate deploy write` writes; runbooks, which pages show."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gateway.feature import Command, Feature

if TYPE_CHECKING:
    from litestar import Controller


class Deploy(Feature):
    """See docs/install.md."""

    name = "deploy"

    def commands(self) -> Mapping[str, Command]:
        summary = "write the files to run it with: compose, systemd, Helm, alerts, dashboards"
        return {"deploy": Command("gateway.features.deploy.cli", summary)}

    def pages(self) -> Sequence["type[Controller]"]:
        from gateway.features.deploy.runbooks import RunbooksController

        return [RunbooksController]

    def routes(self) -> Mapping[str, str]:
        return {"GET /console/runbooks/{name}": "VIEWER"}
