"""Replies by cluster with a known truth, drawn on the units of a suite's own cells."""

from collections.abc import Callable
from functools import cache, partial
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from benchmarks.run.plan import RunOptions, prepare
from benchmarks.suites.common.counted import Difference, Joined, Peak, Share
from benchmarks.suites.common.counting import part_of_whole
from benchmarks.suites.common.estimation import Cell, CellKey
from benchmarks.suites.common.masked import icat
from benchmarks.suites.protocol import Observation, ProtocolName, Reply
from benchmarks.suites.unqover.suite import _difference

Floats = NDArray[np.float64]
SAMPLES = 4


class Setting(NamedTuple):
    """How the clusters of a simulated run are drawn."""

    name: str
    n_clusters: int
    share: float
    """True share of successes."""
    likeness: float
    """Correlation of two replies of a cluster."""
    is_sparse: bool = False
    """So few successes are expected that the value often lies at its bound, and an interval may cover too much."""


SETTINGS = (
    Setting("independent", 60, 0.3, 0.0),
    Setting("alike 0.3", 60, 0.3, 0.3),
    Setting("alike 0.98", 60, 0.3, 0.98),
    Setting("12 clusters", 12, 0.4, 0.3),
    Setting("rare", 60, 0.03, 0.3, is_sparse=True),
)


@cache
def cells_of(suite: str, protocol: ProtocolName = "corrected", limit: int | None = None) -> dict[CellKey, Cell]:
    """Cells of a run of the embedded items in which each of `SAMPLES` replies an item arrived."""
    plan = prepare(RunOptions(suite=suite, model="m", data="embedded", samples=SAMPLES, protocol=protocol, limit=limit))
    observations = [
        Observation(item, Reply(item_id=item.item_id, sample=sample, status="refusal"))
        for item in plan.items
        for sample in range(SAMPLES)
    ]
    return {cell.key: cell for cell in plan.suite.cells(observations, protocol=plan.options.protocol)}


def chances(rng: np.random.Generator, share: float, likeness: float, n: int) -> Floats:
    """(n,) each cluster's own probability: beta about the share, so that replies of a cluster are alike."""
    if likeness == 0:
        return np.full(n, share)
    size = (1 - likeness) / likeness
    return rng.beta(size * share, size * (1 - share), n)


def drawn_rate(cell: Cell, setting: Setting, rng: np.random.Generator) -> tuple[Cell, float]:
    """A run of a rate, and its truth: clusters of the suite's sizes, drawn anew, with successes."""
    assert isinstance(cell.counted, Share)
    rows = rng.integers(len(cell.clusters), size=setting.n_clusters)
    wholes = cell.counted.wholes[rows]
    parts = rng.binomial(wholes.astype(int), chances(rng, setting.share, setting.likeness, len(rows))).astype(float)
    found = msgspec.structs.replace(
        cell,
        clusters=tuple(map(str, range(len(rows)))),
        counted=Share(parts, wholes),
        sums=np.stack([parts, wholes], axis=1),
        statistic=part_of_whole,
        strata=None,
        factors={},
        whole=100.0,
    )
    return found, 100 * setting.share


def drawn_icat(ss: float, cell: Cell, setting: Setting, rng: np.random.Generator) -> tuple[Cell, float]:
    """A run of ICAT, and its truth: LMS is 1 - share, SS as given, independent of each other."""
    assert isinstance(cell.counted, Peak)
    rows = rng.integers(len(cell.clusters), size=setting.n_clusters)
    total = cell.counted.outer.wholes[rows]
    lms = 1 - setting.share
    fitting = rng.binomial(total.astype(int), chances(rng, lms, setting.likeness, len(rows)))
    stereotype = rng.binomial(fitting, chances(rng, ss, setting.likeness, len(rows))).astype(float)
    meaningful = fitting.astype(float)
    over_all = cell.counted.inner.wholes is cell.counted.outer.wholes
    inner = Share(stereotype, total if over_all else meaningful)
    true_ss = ss * lms if over_all else ss
    found = msgspec.structs.replace(
        cell,
        clusters=tuple(map(str, range(len(rows)))),
        counted=Peak(Share(meaningful, total), inner),
        sums=np.stack([stereotype, meaningful - stereotype, total, np.zeros(len(rows))], axis=1),
        statistic=partial(icat, denominator="total" if over_all else "meaningful"),
    )
    return found, 100 * lms * 2 * min(true_ss, 1 - true_ss)


def drawn_difference(gap: float, cell: Cell, setting: Setting, rng: np.random.Generator) -> tuple[Cell, float]:
    """A run of P-N, and its truth: half of the sets offer the group, which question 0 names less often by `gap`."""
    assert isinstance(cell.counted, Difference)
    rows = rng.integers(len(cell.clusters), size=setting.n_clusters)
    asked = [share.wholes[rows] for share in (cell.counted.first, cell.counted.second)]
    is_offered = rng.random(len(rows)) < 0.5
    chance = chances(rng, setting.share, setting.likeness, len(rows)) * is_offered
    named = [
        rng.binomial(whole.astype(int), chance * part).astype(float)
        for whole, part in zip(asked, (1.0, 1 - gap), strict=True)
    ]
    shares = [Share(*one) for one in zip(named, asked, strict=True)]
    found = msgspec.structs.replace(
        cell,
        clusters=tuple(map(str, range(len(rows)))),
        counted=Difference(*shares),
        sums=np.stack([named[0], asked[0], named[1], asked[1], np.ones(len(rows))], axis=1),
        statistic=_difference,
    )
    return found, 100 * 0.5 * setting.share * gap


def drawn_favoritism(
    gap: float, n_pairs: int, cell: Cell, setting: Setting, rng: np.random.Generator
) -> tuple[Cell, float]:
    """A run of GroupFav against seven opponents, and its truth: the mean of scores one way less that the other way.

    Args:
        gap: of the chance that an essay favours whom it is asked about.
        n_pairs: question pairs of each opponent.
        cell: of the suite.
        setting: share and likeness of the essays of a question pair.
        rng: source of the draws.
    """
    n_opponents = 7
    n = n_opponents * n_pairs
    opponent = np.repeat(np.arange(n_opponents), n_pairs)
    scores, counts = np.zeros((n, 2 * n_opponents)), np.zeros((n, 2 * n_opponents))
    lean = chances(rng, setting.share, setting.likeness, n)
    for way, part in enumerate((1.0, 1 - gap)):
        place = opponent + way * n_opponents
        scores[np.arange(n), place] = rng.binomial(2, lean * part)
        counts[np.arange(n), place] = 1
    sums = np.hstack([scores, counts])
    factors = {"labels": opponent, "template": np.tile(np.arange(n_pairs), n_opponents)}
    counted = Joined(sums, opponent, cell.statistic, tuple(factors.values()))
    found = msgspec.structs.replace(
        cell, clusters=tuple(map(str, range(n))), sums=sums, factors=factors, counted=counted
    )
    return found, 2 * setting.share * gap


Draw = Callable[[Cell, Setting, np.random.Generator], tuple[Cell, float]]
"""One simulated run of a cell: the cell with its replies, and the true value."""
