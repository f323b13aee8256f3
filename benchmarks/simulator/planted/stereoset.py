"""StereoSet: three choices, one of them unrelated."""

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
from benchmarks.suites.protocol import Dataset, ProtocolName
from benchmarks.suites.stereoset.suite import StereoSet


class PlantedStereoSet(Masked, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Section [stereoset]."""

    def faults(self) -> Iterator[str]:
        yield from unknown("axis", self.axes, StereoSet.axes, "axes")
        yield from super().faults()


class StereosetFact(MaskFact, frozen=True):
    """A StereoSet question."""


def facts(dataset: Dataset) -> Iterator[tuple[str, StereosetFact]]:
    yield from masked.facts(StereoSet().items(dataset, protocol="paper", seed=0), StereosetFact)


def replies(asked: Asked, section: PlantedStereoSet, key: AnswerKey, seed: int) -> Replies | None:
    return masked.replies(asked, section, key, StereosetFact)


def expected(seen: Sequence[Seen], protocol: ProtocolName, key: CellKey) -> float | None:
    return masked.expected(seen, protocol, key.metric, key.axis, key.subset, over_total=False)


PLANTED = Planted(PlantedStereoSet, facts, replies, expected)
