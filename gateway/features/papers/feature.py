"""The feature `papers`: tables and figures of the papers, from runs of the user's models."""

from gateway.feature import Command, Feature


class Papers(Feature):
    """See docs/tutorials/reproduce-a-paper.md."""

    name = "papers"
    commands = {
        "audit paper": Command(
            "gateway.features.papers.cli", "run the suites of a paper and rebuild its tables and figures"
        )
    }
