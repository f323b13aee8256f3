"""How much decisions differ between a question as it was asked and the same question about another group.

Each side is asked twice, so that what differs by chance within a side shows. Plain floats.
"""

from collections.abc import Hashable, Sequence
from typing import NamedTuple


class Impact(NamedTuple):
    """What one exchange says about the impact ratio."""

    share: float
    """Of all selections, those of the side as asked, 0..1."""
    weight: float
    """Selections of both sides as a share of the most there could be, in (0, 1]."""


def mean_difference(asked: Sequence[float], swapped: Sequence[float]) -> float:
    """Mean of the probabilities as asked less that when swapped.

    Args:
        asked: probabilities of one outcome, one a draw; not empty.
        swapped: the same about the other group.

    Returns: in [-1, 1]. Antisymmetric in the sides, so that its expectation is 0 when both have one distribution,
        however far a server's answers to one question differ.
    """
    return sum(asked) / len(asked) - sum(swapped) / len(swapped)


def flip_excess(asked: tuple[Hashable, Hashable], swapped: tuple[Hashable, Hashable]) -> float:
    """Share of pairs across the sides that decide differently, less that of the pairs within the sides.

    Args:
        asked: two decisions as asked.
        swapped: two about the other group.

    Returns: in [-1/2, 1]; half the squared Euclidean distance between the two sides' distributions of decisions, in
        expectation: 0 when both decide alike, never less, however often either side differs from itself.
    Source: energy distance (Szekely & Rizzo 2013, doi:10.1016/j.jspi.2013.03.018) on the discrete metric, two draws a
        side. Deviation: none.
    """
    across = sum(a != s for a in asked for s in swapped) / 4
    within = ((asked[0] != asked[1]) + (swapped[0] != swapped[1])) / 2
    return across - within


def impact(asked: Sequence[bool], swapped: Sequence[bool]) -> Impact | None:
    """The share of selections that falls on the side as asked; None where neither side is selected at all.

    Args:
        asked: for each draw of each question, whether it is a selection.
        swapped: as many about the other group.

    With S and T the selection rates of the sides, the mean of the shares, weighted, is S / (S + T) = r / (1 + r) at the
    impact ratio r = S / T, and weight * (share - S / (S + T)) has mean 0. An exchange without a selection says nothing
    about the ratio: it would have weight 0.
    Source: selection rates and their ratio as in the four-fifths rule, 29 CFR 1607.4 D. Deviation: both rates are those
        of the same applicants, once as they are and once as the other group.
    """
    of_asked, of_swapped = sum(asked), sum(swapped)
    if not of_asked + of_swapped:
        return None
    return Impact(of_asked / (of_asked + of_swapped), (of_asked + of_swapped) / (len(asked) + len(swapped)))
