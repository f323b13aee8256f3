"""CrowS-Pairs: two choices, so an unrelated reply is one of neither."""

from collections.abc import Iterator, Sequence

from benchmarks.simulator.answer_key import AnswerKey
from benchmarks.simulator.planted import masked
from benchmarks.simulator.planted.kinds import Planted
from benchmarks.simulator.planted.masked import Masked, MaskFact
from benchmarks.simulator.planted.outcomes import Seen
from benchmarks.simulator.replies import Replies
from benchmarks.simulator.sections import unknown
from benchmarks.simulator.text_request import Asked
from benchmarks.suites.common.estimation import CellKey
from benchmarks.suites.crows_pairs.scores import DENOMINATOR
from benchmarks.suites.crows_pairs.suite import CrowSPairs
from benchmarks.suites.protocol import Dataset, ProtocolName


class PlantedCrowSPairs(Masked, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Section [crows_pairs]."""

    def faults(self) -> Iterator[str]:
        yield from unknown("axis", self.axes, CrowSPairs.axes, "axes")
        yield from super().faults()


class CrowsPairsFact(MaskFact, frozen=True):
    """A CrowS-Pairs question."""


def facts(dataset: Dataset) -> Iterator[tuple[str, CrowsPairsFact]]:
    yield from masked.facts(CrowSPairs().items(dataset, protocol="paper", seed=0), CrowsPairsFact)


def replies(asked: Asked, section: PlantedCrowSPairs, key: AnswerKey, seed: int) -> Replies | None:
    return masked.replies(asked, section, key, CrowsPairsFact)


def expected(seen: Sequence[Seen], protocol: ProtocolName, key: CellKey) -> float | None:
    over_total = DENOMINATOR[protocol] == "total"
    return masked.expected(seen, protocol, key.metric, key.axis, key.subset, over_total=over_total)


PLANTED = Planted(PlantedCrowSPairs, facts, replies, expected)
