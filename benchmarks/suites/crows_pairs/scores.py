"""CrowS-Pairs' numbers from its replies: LMS, SS, ICAT and the two rates, and the number that ranks."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from auditors.metrics.suite_scores import StereotypeDenominator
from auditors.types import Estimate
from benchmarks.suites.common import masked
from benchmarks.suites.common.estimation import Cell
from benchmarks.suites.common.observations import items_of, where
from benchmarks.suites.common.rank_statistics import values_of
from benchmarks.suites.protocol import Observation, ProtocolName, RankRule

DENOMINATOR: Mapping[ProtocolName, StereotypeDenominator] = {
    "paper": "total",
    "corrected": "meaningful",
}
"""What SS divides by. The paper's table needs every reply; then SS below 50 may only mean many unrelated replies."""


def aggregate(observations: Sequence[Observation], *, protocol: ProtocolName) -> list[Cell]:
    """LMS, SS, ICAT and the two rates, per axis and over all axes."""
    axes = sorted({item.axis for item in items_of(observations)})
    return [cell for axis in [*axes, None] for cell in _selection(observations, axis, DENOMINATOR[protocol])]


def _selection(observations: Sequence[Observation], axis: str | None, denominator: StereotypeDenominator) -> list[Cell]:
    chosen = where(observations, lambda item: axis in (None, item.axis))
    extra = {name: {"ss_denominator": denominator, **both} for name, both in _both_denominators(chosen).items()}
    return masked.cells(chosen, axis=axis, subset=None, unit="sentence pair", denominator=denominator, extra=extra)


def _both_denominators(observations: Sequence[Observation]) -> dict[str, dict[str, float | None]]:
    """SS and ICAT with each denominator, for the reader who compares with a table that used the other."""
    _, by_cluster = masked.sums(observations)
    counts = by_cluster.sum(axis=0)
    return {
        metric: {
            f"over_{denominator}": _defined(statistic(counts, denominator)) for denominator in ("meaningful", "total")
        }
        for metric, statistic in (("ss", masked.ss), ("icat", masked.icat))
    }


def _defined(value: masked.Counts) -> float | None:
    return None if np.isnan(value) else float(value)


def _icat(estimates: Sequence[Estimate]) -> float:
    return values_of(estimates, "icat").get((None, None), math.nan)


RANK_RULE = RankRule("icat", _icat, "highest", "ICAT", "counted")
