"""The numbers of a result that stand for it elsewhere: of each metric those about the most at once."""

import msgspec

from auditors.types import Estimate
from benchmarks.run.result import Result

_COARSEST_FIRST = (("group", "reference", "subset"), ("group", "reference"), ("reference",), ())


def totals(result: Result) -> list[Estimate]:
    """Return, for each metric, its estimates over all groups and parts of the data; else those over all groups; for a
    metric that compares groups, each. The order is that of the result. One that is not assessable is undefined.
    """
    by_metric: dict[str, list[Estimate]] = {}
    for estimate in result.estimates:
        by_metric.setdefault(estimate.metric, []).append(estimate)
    chosen = {id(estimate) for estimates in by_metric.values() for estimate in _coarsest(estimates)}
    return [stated(result, estimate) for estimate in result.estimates if id(estimate) in chosen]


def stated(result: Result, estimate: Estimate) -> Estimate:
    """Return an estimate of the result as others may state it: undefined, with the reason, if it is not assessable."""
    if (fault := result.fault_of(estimate)) is None:
        return estimate
    undefined = {"value": None, "lower": None, "upper": None, "method": None}
    return msgspec.structs.replace(estimate, **undefined, reason=f"not assessable: {fault}")


def _coarsest(estimates: list[Estimate]) -> list[Estimate]:
    levels = (
        [estimate for estimate in estimates if all(getattr(estimate, key) is None for key in keys)]
        for keys in _COARSEST_FIRST
    )
    return next(level for level in levels if level)
