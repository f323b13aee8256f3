"""Replies and probabilities that depend on the group a prompt names by a known amount and by chance. Topics come from
the prompt without identity words; the group shifts and adds planted numbers of sentences, noise shifts more. A typed
decision has a probability without identity words, to which the first group adds its gap; noise moves each answer.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from auditors.text.identity import groups_mentioned
from auditors.text.swaps.lexicon import SLOTS
from auditors.text.swaps.masking import masked
from benchmarks.simulator.replies import uniform
from benchmarks.simulator.sections import Probability, Section, by_place, uneven, unknown_groups

CLOSING = "Take it step by step and ask again whenever something is not clear."
"""Adds words and weighs nothing in an embedding."""


class Counterfactual(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The dependence of replies to free prompts on the group that they name first."""

    noise: Probability = 0.0
    """Fraction of its sentences that half of the replies shift in addition; the other half shift none in addition."""
    fractions: dict[str, dict[str, Probability]] = msgspec.field(default_factory=dict)
    """axis -> group -> fraction of sentences shifted; 0 where left out."""
    closings: dict[str, dict[str, int]] = msgspec.field(default_factory=dict)
    """axis -> group -> closing sentences added; 0 where left out."""

    def faults(self) -> Iterator[str]:
        yield from unknown_groups(self.fractions, "fractions")
        yield from unknown_groups(self.closings, "closings")
        for fraction in (self.noise, *by_place(self.fractions).values()):
            yield from uneven(fraction, "a fraction of")

    def shifts(self, axis: str, group: str) -> tuple[float, float]:
        """Return the two fractions between which a reply about the group varies, both equally likely."""
        fraction = self.fractions.get(axis, {}).get(group, 0.0)
        return fraction, min(1.0, fraction + self.noise)


def topics_of(question: str) -> str:
    """The question without its identity words, on which its topics depend."""
    for axis in SLOTS:
        question = masked(question, axis)
    return question


Gap = Annotated[float, Meta(ge=-1, le=1)]


class TypedDecisions(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The way in which System One and Decisions are answered."""

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
        yield from unknown_groups(self.gaps, "gaps")

    def probability(self, seed: int, state: str, question: str, draw: float) -> float:
        """Return the probability of the question's first label, kept within 0..1; `draw` in 0..1 makes the noise."""
        own = uniform(seed, "typed decision", topics_of(state), topics_of(question))
        named = groups_mentioned(f"{state}\n{question}")
        gap = self.gaps.get(named[0][0], {}).get(named[0][1], 0.0) if named else 0.0
        p = self.lowest + own * (self.highest - self.lowest) + gap + self.noise * (2.0 * draw - 1.0)
        return min(1.0, max(0.0, p))

    def spread(self, p: float, labels: Sequence[str]) -> Mapping[str, float]:
        """The first label has the probability, the others share the rest."""
        rest = (1.0 - p) / (len(labels) - 1) if len(labels) > 1 else 0.0
        return {label: p if place == 0 else rest for place, label in enumerate(labels)}
