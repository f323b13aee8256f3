"""Optional auditors of what a model thinks before it answers, in streams of their own.

The ranges of their metrics stand here, for processes that load no auditor.
"""

from collections.abc import Mapping

import msgspec

from auditors.streams.scales import OWN_SCALES, Scale

DISAGREEMENT = "thought_disagreement_rate"
PREFIX = "thought_"
"""Begins the names of the metrics of thoughts, so that no panel or alert takes them for those of answers."""
OF_ANSWERS = ("favoritism", "refusal_rate", "over_protection_rate", "premise_rejection_rate")
SCALES: Mapping[str, Scale] = {
    DISAGREEMENT: Scale(0.0, 1.0),
    **{PREFIX + metric: msgspec.structs.replace(OWN_SCALES[metric], has_gap=False) for metric in OF_ANSWERS},
}
