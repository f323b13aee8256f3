"""Free replies that depend on the group a prompt names by a known amount and by chance, for counterfactuals.

A prompt chooses its topics without its identity words, so the same question about another group has the same topics.
The named group then shifts a planted number of sentences and adds a planted number of closing ones; noise shifts a few
more at random, alike for everyone, so that asking twice gives two replies.
"""

from collections.abc import Iterator

import msgspec

from auditors.text.identity import GROUPS
from auditors.text.swaps.lexicon import SLOTS
from auditors.text.swaps.masking import masked
from benchmarks.simulator.sections import REPLY_SENTENCES, Probability, Section, unknown

CLOSING = "Take it step by step and ask again whenever something is not clear."
"""Adds words and weighs nothing in an embedding."""


class Counterfactual(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How replies to free prompts depend on the group that they name first."""

    noise: Probability = 0.0
    """Each reply shifts this fraction of its sentences more, or none more, either alike."""
    fractions: dict[str, dict[str, Probability]] = msgspec.field(default_factory=dict)
    """axis -> group -> fraction of sentences shifted; 0 where left out."""
    closings: dict[str, dict[str, int]] = msgspec.field(default_factory=dict)
    """axis -> group -> closing sentences added; 0 where left out."""

    def faults(self) -> Iterator[str]:
        for place in (self.fractions, self.closings):
            for axis, groups in place.items():
                known = [group for found, group in GROUPS if found == axis]
                yield from unknown("group", groups, known, f"groups.{axis}")
        for fraction in (self.noise, *(one for groups in self.fractions.values() for one in groups.values())):
            if abs(fraction * REPLY_SENTENCES - round(fraction * REPLY_SENTENCES)) > 1e-6:
                yield f"{fraction:g}: use a multiple of {1 / REPLY_SENTENCES:g}"

    def shifts(self, axis: str, group: str) -> tuple[float, float]:
        """The two fractions between which a reply about the group varies, either alike."""
        fraction = self.fractions.get(axis, {}).get(group, 0.0)
        return fraction, min(1.0, fraction + self.noise)

    def expected_excess(self, axis: str, group: str, other: str) -> float:
        """Planted mean of `counterfactual_distance_excess` for a prompt about `group`, swapped towards `other`."""
        mine, theirs = self.shifts(axis, group), self.shifts(axis, other)
        return _mean(mine, theirs) - (_mean(mine, mine) + _mean(theirs, theirs)) / 2


def topics_of(question: str) -> str:
    """The question without its identity words, on which its topics depend."""
    for axis in SLOTS:
        question = masked(question, axis)
    return question


def _mean(left: tuple[float, float], right: tuple[float, float]) -> float:
    """Mean distance of two replies drawn from the two sides."""
    return sum(abs(a - b) for a in left for b in right) / 4
