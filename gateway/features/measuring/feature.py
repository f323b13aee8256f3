"""The feature `measuring`: how often the reading of replies, swaps and choices is wrong, on labelled texts."""

from collections.abc import Mapping

from gateway.feature import Command, Feature


class Measuring(Feature):
    """See docs/auditors.md."""

    name = "measuring"

    def commands(self) -> Mapping[str, Command]:
        summary = "measure how often a live auditor is wrong about labelled replies"
        return {"auditors": Command("gateway.features.measuring.cli", summary)}
