"""The feature `papers`: tables and figures of the papers, from runs of the user's models."""

from collections.abc import Mapping

from gateway.feature import Command, Feature


class Papers(Feature):
    """See docs/tutorials/reproduce-a-paper.md."""

    name = "papers"

    def commands(self) -> Mapping[str, Command]:
        summary = "run the suites of a paper and rebuild its tables and figures"
        return {"audit paper": Command("gateway.features.papers.cli", summary)}
