"""WinoBias: which pronoun fills the gap, per type of sentence."""

from collections.abc import Iterator, Sequence

import msgspec

from benchmarks.simulator.answer_key import AnswerKey
from benchmarks.simulator.planted.kinds import Outcome, Planted, Seen, percentage, total
from benchmarks.simulator.replies import UNRELATED, Failures, Replies
from benchmarks.simulator.sections import TOLERANCE, Parted, Probability
from benchmarks.simulator.text_request import Asked, normalised, offered, sentence
from benchmarks.suites.common.estimation import CellKey
from benchmarks.suites.protocol import Dataset, Item, ProtocolName
from benchmarks.suites.winobias.data import KINDS, prompts_from

PRONOUNS = {"male": "he", "female": "she", "neutral": "they"}
MASK = "[MASK]"


class PlantedWinoBias(Parted, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Section [winobias]: shares of all replies; the rest is a neutral pronoun. No form of reply is malformed here."""

    own, part, valid = "types", "type", KINDS

    p_male: Probability = 0.4
    p_female: Probability = 0.4
    p_unrelated: Probability = 0.0
    p_refusal: Probability = 0.0
    types: dict[str, dict[str, Probability]] = msgspec.field(default_factory=dict)
    """Probabilities by "type1" and "type2"."""

    @property
    def p_neutral(self) -> float:
        return 1.0 - self.p_male - self.p_female - self.p_unrelated - self.p_refusal

    @property
    def overflow(self) -> str | None:
        if self.p_neutral >= -TOLERANCE:
            return None
        return f"p_male + p_female + p_unrelated + p_refusal is {1 - self.p_neutral:g}: at most 1"

    def replies(self) -> Replies:
        shares = {"male": self.p_male, "female": self.p_female, "neutral": max(0.0, self.p_neutral)}
        answered = sum(shares.values())
        pronouns = {PRONOUNS[name]: share for name, share in shares.items()} if answered > 0 else {"they": 1.0}
        return Failures(p_unrelated=self.p_unrelated, p_refusal=self.p_refusal).around(pronouns, malformed=UNRELATED)


class Gap(msgspec.Struct, frozen=True):
    """A sentence with its pronoun masked: which type it is of."""

    kind: str


def facts(dataset: Dataset) -> Iterator[tuple[str, Gap]]:
    by_kind = {kind: Gap(kind) for kind in KINDS}
    for prompt in prompts_from(dataset.records):
        yield normalised(prompt.sentence), by_kind[prompt.kind]


def replies(request: Asked, section: PlantedWinoBias, key: AnswerKey, seed: int) -> Replies | None:
    """A pronoun by the odds of the sentence's type; None for another prompt or an unknown sentence."""
    text = sentence(request.user)
    if text is None or MASK not in text or offered(request.user):
        return None
    gap = key.find(Gap, normalised(text))
    return None if gap is None else section.odds(gap.kind).replies()


def expected(seen: Sequence[Seen], protocol: ProtocolName, key: CellKey) -> float | None:
    """Shares of the four classes, the difference of two, and the two rates; a sentence counts as often as it occurs."""
    chosen = [entry for entry in seen if key.subset in (None, entry.item.subset)]
    whole = total(chosen, weight=_weight)

    def share(name: str) -> float | None:
        return percentage(total(chosen, lambda _, outcome: _class(outcome) == name, _weight), whole)

    if key.metric == "share" and key.group is not None:
        return share(key.group)
    if key.metric == "unrelated_rate":
        return share("unrelated")
    if key.metric == "refusal_rate":
        return percentage(total(chosen, lambda _, outcome: outcome.status == "refusal", _weight), whole)
    if key.metric == "male_female_difference":
        male, female, unrelated = share("male"), share("female"), share("unrelated")
        is_undefined = male is None or female is None or unrelated is None or unrelated >= 100.0 - TOLERANCE
        return None if is_undefined else (male or 0.0) - (female or 0.0)
    return None


def _class(outcome: Outcome) -> str:
    return str(outcome.value) if outcome.status == "ok" else "unrelated"


def _weight(item: Item, _: Outcome) -> float:
    return float(item.meta["weight"])


PLANTED = Planted(PlantedWinoBias, facts, replies, expected)
