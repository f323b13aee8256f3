"""Stereotype rates of association tests and decisions hold the truth when prompts and categories differ: each draw has
new prompts (and categories), each with its own probability of the stereotype, normal on the logit scale."""

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import expit

from auditors.metrics.bootstrap import cluster_bootstrap
from benchmarks.suites.common.counted import Share
from benchmarks.suites.common.estimation import Cell, estimate
from benchmarks.suites.decision.suite import Decision
from benchmarks.suites.implicit_association.suite import ImplicitAssociation
from benchmarks.suites.protocol import Observation, ProtocolName, Reply
from tests.support.long import repeated
from tools.simulations.coverage import Coverage, Record, mean_probability

SUITES = {suite.name: suite for suite in (ImplicitAssociation(), Decision())}
LOGIT = 0.5
P_DIRECTED = 0.95
ALL, THESE, DOMAIN, CATEGORY, BEFORE = "all categories", "these categories", "one domain", "one category", "before"


class Setting(NamedTuple):
    name: str
    stimuli: float
    """Standard deviation between prompts of a category, on the logit scale."""
    categories: float
    """The same between categories."""
    samples: int = 1
    protocol: ProtocolName = "corrected"


SETTINGS = (
    Setting("stimuli alike", 0, 0),
    Setting("stimuli differ by 1", 1, 0),
    Setting("stimuli differ by 2", 2, 0),
    Setting("categories differ by 1", 0, 1),
    Setting("both differ by 1", 1, 1),
    Setting("stimuli differ by 1, repeated as printed", 1, 0, protocol="paper"),
    Setting("stimuli differ by 1, 5 samples of each", 1, 0, samples=5),
)


class Design(NamedTuple):
    """What a protocol asks: cells by their place, and of each its prompts' rows among all prompts."""

    cells: dict[str, tuple[Cell, NDArray[np.intp]]]
    category: NDArray[np.intp]
    """(n_prompts,)"""
    in_domain: NDArray[np.bool_]
    in_category: NDArray[np.bool_]
    prompt_of_test: NDArray[np.intp]
    """(n_tests,)"""


@cache
def design(name: str, protocol: ProtocolName) -> Design:
    suite = SUITES[name]
    items = list(suite.items(suite.load("embedded"), protocol=protocol, seed=0))
    parsed = {"test_score": -1, "word_score": 1.0}
    observed = [Observation(item, Reply(item_id=item.item_id, status="ok", parsed=parsed)) for item in items]
    found = {cell.key: cell for cell in suite.cells(observed, protocol=protocol)}
    places: dict[str, tuple[str | None, str | None]] = {
        ALL: (None, None),
        DOMAIN: ("race", None),
        CATEGORY: ("race", "racism"),
    }
    whole = next(cell for key, cell in found.items() if key == ("stereotype_rate", None, None, None, None))
    row = {cluster: place for place, cluster in enumerate(whole.clusters)}
    cells = {}
    for place, (axis, subset) in places.items():
        cell = next(one for key, one in found.items() if key == ("stereotype_rate", axis, None, None, subset))
        cells[place] = cell, np.array([row[cluster] for cluster in cell.clusters])
    about = {item.cluster: item for item in items}
    assert whole.strata is not None
    return Design(
        cells,
        np.unique(whole.strata, return_inverse=True)[1],
        np.array([about[cluster].axis == "race" for cluster in whole.clusters]),
        np.array([(about[cluster].axis, about[cluster].subset) == ("race", "racism") for cluster in whole.clusters]),
        np.array([row[item.cluster] for item in items]),
    )


def drawn(cell: Cell, rows: NDArray[np.intp], counts: NDArray[np.float64]) -> Cell:
    """The cell with other replies: (n_prompts, 2) consistent and reversed."""
    sums = np.zeros((len(rows), cell.sums.shape[1]))
    sums[:, :2] = counts[rows]
    sums[:, 2] = counts[rows].sum(axis=1)
    return msgspec.structs.replace(cell, sums=sums, counted=Share(sums[:, 0], sums[:, 0] + sums[:, 1]))


def ends_of(cell: Cell, seed: int) -> tuple[Sequence[float] | None, Sequence[float] | None]:
    """The interval, and of a number over all categories the one of these categories."""
    found = estimate(cell, seed=seed)
    if found.lower is None or found.upper is None:
        return None, None
    return (found.lower, found.upper), found.extra.get("interval_of_these_categories")


def simulate(name: str, times: int) -> Coverage:
    coverage, random = Coverage(), np.random.default_rng(20261123)
    for setting in SETTINGS:
        asked = design(name, setting.protocol)
        for seed in range(times):
            of_category = LOGIT + random.normal(0, setting.categories, asked.category.max() + 1)
            logit = of_category[asked.category] + random.normal(0, setting.stimuli, len(asked.category))
            directed = random.binomial(setting.samples, P_DIRECTED, len(asked.prompt_of_test))
            consistent = random.binomial(directed, expit(logit)[asked.prompt_of_test])
            tests = np.stack([consistent, directed - consistent], axis=1).astype(np.float64)
            counts = np.zeros((len(asked.category), 2))
            np.add.at(counts, asked.prompt_of_test, tests)
            every = mean_probability(of_category, setting.stimuli)[asked.category]
            weights = np.bincount(asked.prompt_of_test)
            population = 100 * float(mean_probability(LOGIT, np.hypot(setting.stimuli, setting.categories)))
            over_all, of_these = ends_of(drawn(*asked.cells[ALL], counts), seed)
            coverage.add(setting.name, ALL, over_all, population)
            if setting.protocol == "corrected":
                domain, _ = ends_of(drawn(*asked.cells[DOMAIN], counts), seed)
                category, _ = ends_of(drawn(*asked.cells[CATEGORY], counts), seed)
                coverage.add(setting.name, THESE, of_these, 100 * float(np.average(every, weights=weights)))
                coverage.add(setting.name, DOMAIN, domain, 100 * float(every[asked.in_domain].mean()))
                coverage.add(setting.name, CATEGORY, category, 100 * float(every[asked.in_category].mean()))
            by_test = cluster_bootstrap(tests, asked.cells[ALL][0].statistic, rng=random, n_resamples=500).interval
            assert by_test is not None
            coverage.add(setting.name, BEFORE, (by_test.lower, by_test.upper), population)
    return coverage


@pytest.mark.statistical
@repeated(45)
@pytest.mark.parametrize("name", list(SUITES))
def test_stereotype_rates_cover(name: str, times: int, record_property: Record) -> None:
    """Over all categories, for these ones, by domain and by category; resampling tests, as before, covers less."""
    found = simulate(name, times)
    assert found.share(ALL)[1] == times * len(SETTINGS)
    found.show(name, record_property)
    for number in (ALL, THESE, DOMAIN, CATEGORY):
        found.demand_nominal(number)
    held, n_drawn = found.share(BEFORE, "categories differ by 1")
    assert held < 0.85 * n_drawn
