"""The feature `formats`: finished runs in the formats of other tools, and logs of other harnesses as runs."""

from gateway.feature import Command, Feature


class Formats(Feature):
    """See docs/suites.md."""

    name = "formats"
    commands = {
        "audit import": Command(
            "gateway.features.formats.import_log", "score a log of Inspect or lm-evaluation-harness; sends nothing"
        ),
        "audit export": Command("gateway.features.formats.export", "write finished runs in the form that others read"),
    }
