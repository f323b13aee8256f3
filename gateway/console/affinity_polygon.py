"""Whose texts models and people choose: the polygon of *Subtle Biases Need Subtler Measures* (protocols 5.7)."""

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
    from benchmarks.figures.radar import Outline, Spoke, polygon  # a worker starts without the benchmarks

    identities = sorted({identity for evaluator in evaluators.values() for identity in evaluator})
    sizes = {axis: sum(other == axis for other, _ in identities) for axis, _ in identities}
    spokes = [Spoke(label=words(name), axis=words(axis), even=1 / sizes[axis]) for axis, name in identities]
    outlines = [
        Outline(name=name, estimates=tuple(_estimate(identity, shares.get(identity)) for identity in identities))
        for name, shares in list(evaluators.items())[:MOST_OUTLINES]
    ]
    return polygon(title, spokes, outlines)


def _estimate(identity: Identity, share: Share | None) -> Estimate | None:
    if share is None:
        return None
    axis, name = identity
    return Estimate(
        metric="selection_share",
        axis=axis,
        group=name,
        value=share.value,
        lower=share.lower,
        upper=share.upper,
        n=share.n,
        reason=None if share.value is not None else "no choice yet",
    )
