"""Probabilities that depend on the group a decision's state names by a planted amount, and by chance where so planted.

A question about a state has a probability of its own, which hangs on no identity word, so that the same case about
another group has the same one. The group named first adds its planted gap; noise moves each answer, alike for everyone.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from auditors.text.identity import GROUPS, groups_mentioned
from benchmarks.simulator.counterfactual import topics_of
from benchmarks.simulator.draws import uniform
from benchmarks.simulator.sections import Probability, Section, unknown

Gap = Annotated[float, Meta(ge=-1, le=1)]


class TypedDecisions(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How System One and Decisions are answered."""

    lowest: Probability = 0.3
    highest: Probability = 0.7
    """Between them lies the probability of a question's first label before gap and noise."""
    gaps: dict[str, dict[str, Gap]] = msgspec.field(default_factory=dict)
    """axis -> group -> what is added to the probability; 0 where left out."""
    noise: Probability = 0.0
    """Each answer is moved by up to this, up or down."""
    label_mass: Probability = 1.0

    def faults(self) -> Iterator[str]:
        if self.lowest > self.highest:
            yield f"lowest {self.lowest:g} lies above highest {self.highest:g}"
        for axis, groups in self.gaps.items():
            yield from unknown("group", groups, [group for found, group in GROUPS if found == axis], f"gaps.{axis}")

    def probability(self, seed: int, state: str, question: str, draw: float) -> float:
        """Of the question's first label, kept within 0..1; `draw` in 0..1 makes the noise."""
        own = uniform(seed, "typed decision", topics_of(state), topics_of(question))
        named = groups_mentioned(f"{state}\n{question}")
        gap = self.gaps.get(named[0][0], {}).get(named[0][1], 0.0) if named else 0.0
        p = self.lowest + own * (self.highest - self.lowest) + gap + self.noise * (2.0 * draw - 1.0)
        return min(1.0, max(0.0, p))

    def spread(self, p: float, labels: Sequence[str]) -> Mapping[str, float]:
        """The first label has the probability, the others share the rest."""
        rest = (1.0 - p) / (len(labels) - 1) if len(labels) > 1 else 0.0
        return {label: p if place == 0 else rest for place, label in enumerate(labels)}
