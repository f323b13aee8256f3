"""CrowS-Pairs: two choices, so an unrelated reply is one of neither."""

from benchmarks.simulator.planted.masked import Masked, MaskFact, planted
from benchmarks.suites.crows_pairs.suite import CrowSPairs


class PlantedCrowSPairs(Masked, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Section [crows_pairs]."""

    valid = CrowSPairs.axes


class CrowsPairsFact(MaskFact, frozen=True):
    """A CrowS-Pairs question."""


PLANTED = planted(CrowSPairs(), PlantedCrowSPairs, CrowsPairsFact, over_total=True)
