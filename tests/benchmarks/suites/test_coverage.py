"""How often 95 % intervals of every suite hold the truth when replies come in clusters: a table, a row a setting.

Replies are drawn by `tools/simulations/clustered_replies.py`. Coverage must be from 93 to 97 % but for chance of the
seeds; it may be more where clusters hardly differ. Rows also tell how often the interval lay above and below."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import pytest
from scipy.stats import binom

from benchmarks.suites.common.counted import Share
from benchmarks.suites.common.estimation import Cell, CellKey, estimate
from benchmarks.suites.protocol import ProtocolName
from tests.support.tables import ROW
from tools.simulations.clustered_replies import (
    SETTINGS,
    Draw,
    Setting,
    cells_of,
    drawn_difference,
    drawn_favoritism,
    drawn_icat,
    drawn_rate,
)

SUITES = (
    "bbq",
    "cogs",
    "crows_pairs",
    "decision",
    "eec",
    "implicit_association",
    "ltf_test",
    "real_toxicity_prompts",
    "stereoset",
    "unqover",
    "winobias",
)
LIMITED = {"cogs": 60, "ltf_test": 60}
"""Items of suites that ask thousands: enough for the sizes of their clusters."""
TIMES = 400
"""Runs a row."""
UNLIKELY = 0.001
"""Chance with which these seeds may reject a coverage of 93 or 97 %."""


class Coverage(NamedTuple):
    """What became of the intervals of so many runs."""

    n: int
    n_above: int
    """Intervals that lie above the truth."""
    n_below: int
    n_without: int
    """Runs with a reason in place of an interval."""

    @property
    def n_held(self) -> int:
        return self.n - self.n_above - self.n_below

    def row(self, name: str, setting: str, note: str) -> str:
        held, above, below = (
            f"{100 * count / max(1, self.n):5.1f} %" for count in (self.n_held, self.n_above, self.n_below)
        )
        without = f"  {self.n_without} without" if self.n_without else ""
        return f"{name:46} {setting:12} {held} held {above} above {below} below{without}{note}"


def coverage(name: str, cell: Cell, draw: Draw, setting: Setting, times: int) -> Coverage:
    """Of `times` runs with seeds of their own."""
    above = below = without = 0
    for seed in range(times):
        run, truth = draw(cell, setting, np.random.default_rng([seed, *name.encode(), *setting.name.encode()]))
        found = estimate(run, seed=seed)
        if found.lower is None or found.upper is None:
            assert found.reason
            without += 1
        else:
            above += found.lower > truth + 1e-9
            below += found.upper < truth - 1e-9
    return Coverage(times - without, above, below, without)


def demand(found: Coverage, *, may_cover_more: bool) -> None:
    """From 93 to 97 %, as far as so many runs can tell."""
    assert binom.cdf(found.n_held, found.n, 0.93) > UNLIKELY, found
    if not may_cover_more:
        assert binom.sf(found.n_held - 1, found.n, 0.97) > UNLIKELY, found


def measured(
    name: str, cell: Cell, draw: Draw, setting: Setting, record: Callable[[str, object], None], extra: str
) -> None:
    """Measures, records the row and makes the demand; `extra` says why coverage may be above 97 %, "" if it may not."""
    found = coverage(name, cell, draw, setting, TIMES)
    note = f"  ({extra})" if extra and found.n_held > 0.97 * found.n else ""
    record(ROW, "coverage  " + found.row(name, setting.name, note))
    demand(found, may_cover_more=bool(extra))


def widest(suite: str, metric: str) -> Cell:
    """The cell of a metric with the most clusters."""
    found = [cell for cell in cells_of(suite, limit=LIMITED.get(suite)).values() if cell.metric == metric]
    return max(found, key=lambda cell: len(cell.clusters))


NEAR_BOUND = "few successes: near the bound"
FEW_DIFFER = "few clusters differ"

settings = pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)


@pytest.mark.statistical
@settings
@pytest.mark.parametrize("suite", SUITES)
@pytest.mark.simulation
def test_rates_of_every_suite(suite: str, setting: Setting, record_property: Callable[[str, object], None]) -> None:
    """A rate by the suite's own unit, whatever its sizes."""
    cell = widest(suite, "refusal_rate")
    assert isinstance(cell.counted, Share)
    extra = NEAR_BOUND if setting.is_sparse else ""
    measured(f"{suite} refusal_rate", cell, drawn_rate, setting, record_property, extra)


@pytest.mark.simulation
@pytest.mark.statistical
@settings
@pytest.mark.parametrize("ss", [0.5, 0.65])
@pytest.mark.parametrize(
    ("suite", "protocol"), [("stereoset", "corrected"), ("crows_pairs", "corrected"), ("crows_pairs", "paper")]
)
def test_icat(
    suite: str, protocol: ProtocolName, ss: float, setting: Setting, record_property: Callable[[str, object], None]
) -> None:
    """ICAT of a model without preference (SS 50), and of one with a preference."""
    cell = cells_of(suite, protocol)[CellKey("icat")]
    name = f"{suite} {protocol} icat, SS {100 * ss:.0f}"
    extra = "" if ss == 0.5 or setting.n_clusters > 12 else "the interval of SS holds 50 and reaches far"
    measured(name, cell, partial(drawn_icat, ss), setting, record_property, extra)


@pytest.mark.simulation
@pytest.mark.statistical
@settings
@pytest.mark.parametrize("gap", [0.0, 0.5])
def test_positive_negative_difference(
    gap: float, setting: Setting, record_property: Callable[[str, object], None]
) -> None:
    """P-N where groups are named alike in both questions, or half as often in one."""
    cell = widest("unqover", "pn_difference")
    is_hard_to_tell = setting.is_sparse or setting.likeness > 0.9 or setting.n_clusters < 20
    name = f"unqover pn_difference, gap {gap:g}"
    extra = FEW_DIFFER if is_hard_to_tell else ""
    measured(name, cell, partial(drawn_difference, gap), setting, record_property, extra)


@pytest.mark.simulation
@pytest.mark.statistical
@pytest.mark.parametrize(
    "setting", [setting for setting in SETTINGS if setting.n_clusters > 12], ids=lambda setting: setting.name
)
@pytest.mark.parametrize("n_pairs", [2, 3, 8])
@pytest.mark.parametrize("gap", [0.0, 0.5])
def test_group_favoritism(
    gap: float, n_pairs: int, setting: Setting, record_property: Callable[[str, object], None]
) -> None:
    """GroupFav with two, three or eight question pairs for each of seven opponents."""
    cell = widest("ltf_test", "group_favoritism")
    is_hard_to_tell = setting.is_sparse or (setting.likeness > 0.9 and (gap == 0 or n_pairs == 2))
    name = f"ltf_test group_favoritism, gap {gap:g}, {n_pairs} pairs"
    extra = FEW_DIFFER if is_hard_to_tell else ""
    measured(name, cell, partial(drawn_favoritism, gap, n_pairs), setting, record_property, extra)


def test_known_probabilities_of_few_items_have_a_narrow_interval() -> None:
    """24 items known to 1e-14 in mode exact: no fallback to so many single trials."""
    cell = widest("stereoset", "refusal_rate")
    parts = np.full(len(cell.clusters), 1 - 1e-14)
    counted = Share(parts, np.ones(len(parts)))
    run = Cell(
        metric="share",
        clusters=cell.clusters,
        sums=parts[:, None],
        statistic=lambda sums: 100 * sums[..., 0] / len(parts),
        unit="item",
        n=len(parts),
        counted=counted,
        is_exact=True,
    )

    found = estimate(run, seed=0)
    assert found.lower is not None
    assert found.upper is not None
    assert found.upper - found.lower < 1e-10
