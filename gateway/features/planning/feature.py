"""The feature `planning`: what traffic of a given size needs, by measured unit costs."""

from collections.abc import Mapping

from gateway.feature import Command, Feature


class Planning(Feature):
    """See docs/scaling.md."""

    name = "planning"

    def commands(self) -> Mapping[str, Command]:
        summary = "what traffic of a given size needs, and what is full first"
        return {"plan": Command("gateway.features.planning.cli", summary)}
