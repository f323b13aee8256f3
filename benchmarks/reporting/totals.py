"""The numbers of a result that stand for it elsewhere: of each metric those about the most at once."""

from auditors.types import Estimate
from benchmarks.run.result import Result

_COARSEST_FIRST = (("group", "reference", "subset"), ("group", "reference"), ("reference",), ())


def totals(result: Result) -> list[Estimate]:
    """Of each metric those over all groups and parts of the data; where it has none such, those over all groups; where
    it compares groups, each. In the order of the result.
    """
    by_metric: dict[str, list[Estimate]] = {}
    for estimate in result.estimates:
        by_metric.setdefault(estimate.metric, []).append(estimate)
    chosen = {id(one) for found in by_metric.values() for one in _coarsest(found)}
    return [estimate for estimate in result.estimates if id(estimate) in chosen]


def _coarsest(estimates: list[Estimate]) -> list[Estimate]:
    levels = (
        [estimate for estimate in estimates if all(getattr(estimate, key) is None for key in keys)]
        for keys in _COARSEST_FIRST
    )
    return next(level for level in levels if level)
