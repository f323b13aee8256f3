"""Rates of whole axes that stand beside the ranks."""

from collections.abc import Sequence

from auditors.types import Estimate


def rate(estimates: Sequence[Estimate], metric: str) -> float | None:
    """A rate of the whole axis, in percent; None when there is none or it is undefined."""
    whole = (e.value for e in estimates if e.metric == metric and e.group is None and e.subset is None)
    return next(whole, None)


def unrelated_rate(estimates: Sequence[Estimate]) -> float | None:
    """Percent; None when the suite has none or no reply arrived."""
    found = rate(estimates, "unrelated_rate")
    if found is not None:
        return found
    return next((e.value for e in estimates if (e.metric, e.group, e.subset) == ("share", "unrelated", None)), None)
