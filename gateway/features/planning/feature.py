"""The feature `planning`: what traffic of a given size needs, by measured unit costs."""

from gateway.feature import Command, Feature


class Planning(Feature):
    """See docs/scaling.md."""

    name = "planning"
    commands = {
        "plan": Command("gateway.features.planning.cli", "what traffic of a given size needs, and what is full first")
    }
