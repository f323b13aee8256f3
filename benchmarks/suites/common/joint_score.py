"""Declares the number that finished runs of two suites give together."""

from collections.abc import Callable, Sequence

import msgspec

from auditors.types import Estimate
from benchmarks.suites.protocol import Observation, ProtocolName


class JointTable(msgspec.Struct, frozen=True, kw_only=True):
    """The table of two suites with a joint score, side by side on a leaderboard."""

    title: str
    columns: tuple[str, str]
    """The partner's name in the table, then the suite's own."""
    metric: str
    """Metric of both suites that the mean is formed from."""
    mean: Callable[[float, float], float]
    """Mean of the partner's number and the suite's own."""
    beside: tuple[str, ...]
    """Metrics of both suites printed next to it."""
    note: str


class JointScore(msgspec.Struct, frozen=True, kw_only=True):
    """A number that finished runs of two suites give together, kept with the results of the suite that declares it."""

    metric: str
    partner: str
    """Name of the other suite."""
    estimates: Callable[[Sequence[Observation], Sequence[Observation], ProtocolName, int], list[Estimate]]
    """Estimates from the suite's own observations, the partner's, and protocol and seed of the run."""
    table: JointTable
