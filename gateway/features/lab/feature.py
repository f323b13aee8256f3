"""The feature `lab`: commands that calibrate, compare and distil judges, and fine-tune models against bias."""

from collections.abc import Mapping

from gateway.feature import Command, Feature


class Lab(Feature):
    """The commands of `benchmarks.lab`; see docs/judges.md and docs/regard-ft.md."""

    name = "lab"

    def commands(self) -> Mapping[str, Command]:
        return {
            "judge": Command("gateway.features.lab.judge", "compare a judge with people's labels"),
            "mitigate": Command(
                "gateway.features.lab.mitigate", "fine-tune a model against bias (REGARD-FT), or train a filter"
            ),
        }
