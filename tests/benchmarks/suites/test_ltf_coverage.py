"""Favouritism in essays holds the truth when templates, labels and question pairs differ. Each draw has new ones;
scores are normal, rounded to -1, 0, 1 or 2, symmetric about one half: true differences are 0, true means one half."""

from functools import cache
from typing import NamedTuple

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import ndtr

from benchmarks.suites.common.counted import Share
from benchmarks.suites.common.estimation import Cell, estimate
from tests.support.benchmarks.ltf import cells_of, find, judged, ok, on_axis
from tests.support.long import repeated
from tools.simulations.coverage import Coverage, Record

AXES = ("gender", "ability")
"""Those whose labels are drawn; templates are on all axes."""
PAIR, ONE, ABSOLUTE = "pair_favoritism", "favoritism", "absolute_disc."

ALSO_BEFORE = 5
"""Of so many draws one has intervals by question pairs alone as well."""


class Setting(NamedTuple):
    name: str
    template: float
    """Standard deviations of what a template, a pair of labels and a pair of questions adds, and of an essay."""
    labels: float
    pair: float
    samples: int = 1
    refused: float = 0
    """Share of the essays in favour of one group that are refused, at random; with one sample of each."""


SETTINGS = (
    Setting("alike", 0, 0, 0),
    Setting("templates differ", 0.8, 0, 0),
    Setting("labels differ", 0, 0.8, 0),
    Setting("templates and labels differ", 0.8, 0.8, 0),
    Setting("question pairs differ", 0, 0, 0.8),
    Setting("all differ, 3 samples of each", 0.8, 0.8, 0.8, samples=3),
    Setting("templates and labels differ, 60 % of one direction refused", 0.8, 0.8, 0, refused=0.6),
)


class Design(NamedTuple):
    """Cells of one axis, and of each question pair its template and labels, in the order of their clusters."""

    pair: Cell
    one: Cell
    absolute: Cell
    template: NDArray[np.intp]
    labels: NDArray[np.intp]


@cache
def design(axis: str) -> Design:
    items = on_axis(axis)
    first, second = items[0].groups
    cells = cells_of(judged(lambda item: ok(1), items))
    pair = find(cells, "pair_favoritism", axis, first, second)
    assert set(pair.factors) == {"template", "labels"}
    return Design(
        pair,
        find(cells, "favoritism", axis, first, second),
        find(cells, "absolute_discrimination", axis),
        pair.factors["template"],
        pair.factors["labels"],
    )


def essays(asked: Design, setting: Setting, random: np.random.Generator) -> NDArray[np.float64]:
    """(samples, n_pairs, 2) scores in either direction of each question pair."""
    n_pairs = len(asked.template)
    leaning = random.normal(0, setting.template, asked.template.max() + 1)[asked.template]
    leaning += random.normal(0, setting.labels, asked.labels.max() + 1)[asked.labels]
    leaning += random.normal(0, setting.pair, n_pairs)
    both = random.normal(0, setting.template, asked.template.max() + 1)[asked.template]
    centre = 0.5 + both[:, None] / 2 + leaning[:, None] / 2 * np.array([1.0, -1.0])
    scores = np.clip(np.round(centre + random.normal(0, 1, (setting.samples, n_pairs, 2))), -1, 2)
    is_refused = random.random((setting.samples, n_pairs)) < setting.refused
    scores[..., 0] = np.where(is_refused, np.nan, scores[..., 0])
    return np.asarray(scores)


def drawn(cell: Cell, rows: NDArray[np.float64]) -> Cell:
    """The cell with these sums, without the question pairs that have none."""
    is_known: NDArray[np.bool_] = np.asarray(~np.isnan(rows).any(axis=1))
    rows = rows[is_known]
    return msgspec.structs.replace(
        cell,
        sums=rows,
        clusters=tuple(label for label, known in zip(cell.clusters, is_known, strict=True) if known),
        factors={name: levels[is_known] for name, levels in cell.factors.items()},
        counted=Share(rows[:, 0], rows[:, 1]) if cell.counted is not None else None,
    )


def absolute_share(setting: Setting) -> float:
    """P(an essay scores 2 or -1)."""
    variance = 1 + (2 * setting.template**2 + setting.labels**2 + setting.pair**2) / 4
    return float(2 * ndtr(-1 / np.sqrt(variance)))


def simulate(axis: str, times: int) -> Coverage:
    coverage, random, asked = Coverage(), np.random.default_rng(20261123), design(axis)
    for setting in SETTINGS:
        n = np.full(len(asked.template), float(setting.samples))
        for seed in range(times):
            scores = essays(asked, setting, random)
            sums, hits = scores.sum(axis=0), np.isin(scores, (2, -1)).sum(axis=(0, 2)).astype(np.float64)
            n_read = (~np.isnan(scores)).sum(axis=(0, 2)).astype(np.float64)
            cells = {
                PAIR: (np.stack([sums[:, 0], sums[:, 1], n, n], axis=1), asked.pair, 0.0),
                ONE: (np.stack([sums[:, 0], n], axis=1), asked.one, 0.5),
                ABSOLUTE: (np.stack([hits, n_read], axis=1), asked.absolute, absolute_share(setting)),
            }
            for number, (rows, cell, truth) in cells.items():
                asked_now = {number: drawn(cell, rows)}
                if seed % ALSO_BEFORE == 0:
                    asked_now[before(number)] = msgspec.structs.replace(asked_now[number], factors={})
                for label, one in asked_now.items():
                    found = estimate(one, seed=seed)
                    ends = None if found.lower is None or found.upper is None else (found.lower, found.upper)
                    coverage.add(setting.name, label, ends, truth)
    return coverage


def before(number: str) -> str:
    return f"{number[:9]}, before"


@pytest.mark.statistical
@repeated(300)
@pytest.mark.parametrize("axis", AXES)
def test_favouritism_covers(axis: str, times: int, record_property: Record) -> None:
    """Difference of directions, mean of one direction and share of one-sided essays; by question pairs, less."""
    found = simulate(axis, times)
    assert found.share(PAIR)[1] == times * len(SETTINGS)
    found.show(f"ltf_test {axis}", record_property)
    for number in (PAIR, ONE, ABSOLUTE):
        found.demand_nominal(number)
    held, drawn = found.share(before(PAIR))
    assert held < 0.85 * drawn
