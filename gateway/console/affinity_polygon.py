"""The polygon of chosen texts of *Subtle Biases Need Subtler Measures* (protocols 5.7)."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from auditors.types import Estimate
from gateway.console.rendering import words

if TYPE_CHECKING:
    from benchmarks.figures.figure import Figure

MOST_OUTLINES = 6
"""Most evaluators in a polygon: a seventh line cannot be told from the others."""
Identity = tuple[str, str]
"""Axis and name."""


class Share(Protocol):
    """Share of the choices in which an identity could be chosen; without a value if it could be chosen in none."""

    @property
    def value(self) -> float | None: ...
    @property
    def lower(self) -> float | None: ...
    @property
    def upper(self) -> float | None: ...
    @property
    def n(self) -> int: ...


def affinity_polygon(title: str, evaluators: Mapping[str, Mapping[Identity, Share]]) -> "Figure":
    """Takes milliseconds: for a thread. The first MOST_OUTLINES evaluators are drawn: the share of each identity."""
    from benchmarks.figures.figure import drawn_as  # a worker starts without the benchmarks
    from benchmarks.figures.marks import Line
    from benchmarks.figures.panels import Point
    from benchmarks.figures.radar import Spoke, polygon

    identities = sorted({identity for evaluator in evaluators.values() for identity in evaluator})
    sizes = {axis: sum(other == axis for other, _ in identities) for axis, _ in identities}
    spokes = [Spoke(label=words(name), axis=words(axis), even=1 / sizes[axis]) for axis, name in identities]
    outlines = [
        Line(name=name, points=tuple(drawn_as(Point, _estimate(shares.get(identity))) for identity in identities))
        for name, shares in list(evaluators.items())[:MOST_OUTLINES]
    ]
    return polygon(title, spokes, outlines)


def _estimate(share: Share | None) -> Estimate | None:
    if share is None:
        return None
    value, lower, upper = share.value, share.lower, share.upper
    return Estimate(metric="shares", value=value, lower=lower, upper=upper, n=share.n, reason="no choice yet")
