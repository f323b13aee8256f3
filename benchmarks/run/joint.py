"""A number that finished runs of two suites give together (see `benchmarks.suites.protocol.JointScore`)."""

from collections.abc import Sequence

import msgspec

from benchmarks.run.result import Result
from benchmarks.suites.common.observations import without_exhausted
from benchmarks.suites.protocol import (
    JointScore,
    Observation,
)


def joined(result: Result, joint: JointScore, own: Sequence[Observation], partners: Sequence[Observation]) -> Result:
    """The result with the score of it and a run of the partner, of the same model and options.

    Args:
        result: of the suite that declares the score.
        joint: the score.
        own: what the result rests on.
        partners: what the partner's result rests on.
    """
    rest = [one for one in result.estimates if one.metric != joint.metric]
    found = joint.estimates(without_exhausted(own), without_exhausted(partners), result.protocol, result.seed)
    if result.precision is not None:
        found = [msgspec.structs.replace(one, lower=None, upper=None, method=None, reason=STOPPED) for one in found]
    return msgspec.structs.replace(result, estimates=[*rest, *found])


STOPPED = "no interval: the two runs stopped at looks of their own (--precision)"
