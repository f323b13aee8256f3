"""The feature `trying`: a first number on one's own model, with a command and no file."""

from gateway.feature import Command, Feature


class Trying(Feature):
    """See docs/tutorials/first-number.md."""

    name = "trying"
    commands = {
        "try": Command("gateway.features.trying.first_number", "audit every request to a model for an hour"),
        "traffic": Command("gateway.features.trying.traffic", "send harmless varied prompts to a model"),
    }
