"""The feature `measuring`: how often the reading of replies, swaps and choices is wrong, on labelled texts."""

from gateway.feature import Command, Feature


class Measuring(Feature):
    """See docs/auditors.md."""

    name = "measuring"
    commands = {
        "auditors": Command(
            "gateway.features.measuring.cli", "measure how often a live auditor is wrong about labelled replies"
        )
    }
