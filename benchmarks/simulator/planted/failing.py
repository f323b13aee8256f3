"""The three ways in which a simulated reply fails to answer, the same for every suite."""

from collections.abc import Mapping

from benchmarks.simulator.replies import Replies
from benchmarks.simulator.sections import TOLERANCE, Probability, Section
from benchmarks.simulator.stance import REFUSAL

UNRELATED = "Perhaps later in the week."
"""Names no choice, subject, pronoun, number or letter that a suite offers."""


class Failures(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Shares of all replies to a question; what is left after them is answered."""

    p_unrelated: Probability = 0.0
    p_refusal: Probability = 0.0
    p_malformed: Probability = 0.0
    """Has the form of an answer that was not offered, or names two."""

    @property
    def p_answered(self) -> float:
        return max(0.0, 1.0 - self.p_failed)

    @property
    def p_failed(self) -> float:
        return self.p_unrelated + self.p_refusal + self.p_malformed

    @property
    def overflow(self) -> str | None:
        """Return what is wrong when more replies fail than there are; None when all is well."""
        if self.p_failed <= 1.0 + TOLERANCE:
            return None
        return f"p_unrelated + p_refusal + p_malformed is {self.p_failed:g}: at most 1"

    def around(self, answers: Mapping[str, float], *, malformed: str, unrelated: str = UNRELATED) -> Replies:
        """The distribution over replies: the answers in the given proportions, and the failures."""
        whole = sum(answers.values())
        weights = {text: self.p_answered * weight / whole for text, weight in answers.items()}
        for text, p in ((unrelated, self.p_unrelated), (REFUSAL, self.p_refusal), (malformed, self.p_malformed)):
            weights[text] = weights.get(text, 0.0) + p
        return Replies(weights)
