"""The feature `lab`: calibrates, compares, distils and watches judges, and fine-tunes models against bias."""

from typing import TYPE_CHECKING

from gateway.feature import Command, Feature

if TYPE_CHECKING:
    from gateway.config.schema import Config


class Lab(Feature):
    """The commands of `benchmarks.lab`; see docs/judges.md and docs/regard-ft.md."""

    name = "lab"
    commands = {
        "audit templates": Command("gateway.features.lab.templates", "propose own templates for ltf_test"),
        "judge": Command("gateway.features.lab.judge", "compare a judge with people's labels"),
        "mitigate": Command(
            "gateway.features.lab.mitigate", "fine-tune a model against bias (REGARD-FT), or train a filter"
        ),
    }
    auditor_part = "gateway.features.lab.reference_passes:ReferencePart"

    def check(self, config: "Config") -> None:
        if config.auditors.judge.enabled and config.auditors.judge.reference_set is not None:
            from gateway.features.lab.reference_passes import read_reference_set

            read_reference_set(config.auditors.judge)
