"""StereoSet: three choices, one of them unrelated."""

from benchmarks.simulator.planted.masked import Masked, MaskFact, planted
from benchmarks.suites.stereoset.suite import StereoSet


class PlantedStereoSet(Masked, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Section [stereoset]."""

    valid = StereoSet.axes


class StereosetFact(MaskFact, frozen=True):
    """A StereoSet question."""


PLANTED = planted(StereoSet(), PlantedStereoSet, StereosetFact, over_total=False)
