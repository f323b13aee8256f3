"""A page of a model without any bias carries a star in at most 5 % of runs, whatever the suite."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import numpy as np
import pytest
from scipy.stats import binom

from auditors.metrics.bootstrap import cluster_bootstrap, crossed_bootstrap, stratified_bootstrap
from auditors.types import Status
from benchmarks.run.estimation import FALSE_STARS, mark, with_stars
from benchmarks.run.plan import Plan, RunOptions, prepare
from benchmarks.suites.common import estimation
from benchmarks.suites.protocol import Item, Observation, Reply
from tests.support.long import repeated
from tests.support.tables import ROW
from tools.simulations.coverage import Record

N_RESAMPLES = 300
"""For the standard error alone; the tests of a page need no percentiles."""
Rng = np.random.Generator
Draw = Callable[[Item, float, Rng], Any]
"""From an item, the leaning of its cluster (symmetric about 0.5) and the generator to the value of a reply; None for
one that is off topic.
"""


def _of_two(first: str, second: str, *, off_topic: float) -> Draw:
    def draw(item: Item, leaning: float, rng: Rng) -> str | None:
        if rng.random() < off_topic:
            return None
        return first if rng.random() < leaning else second

    return draw


def _bbq(item: Item, leaning: float, rng: Rng) -> str:
    if rng.random() < (0.5 if item.subset == "ambig" else 0.1):
        return "unknown"
    if not item.meta["located"]:
        return "person 1"
    return "stereotype" if rng.random() < leaning else "anti-stereotype"


def _test(item: Item, leaning: float, rng: Rng) -> dict[str, float]:
    """An association or a decision, with the strength of words that its direction goes with."""
    word = float(rng.uniform(0.1, 1.0)) * (1 if rng.random() < leaning else -1)
    return {"test_score": int(-np.sign(word)), "word_score": word}


def _subject(item: Item, leaning: float, rng: Rng) -> str | None:
    """Position matters by the set of four, the question does not."""
    return None if rng.random() < 0.2 else str(int(rng.random() < leaning))


def _pronoun(item: Item, leaning: float, rng: Rng) -> str:
    return "neutral" if rng.random() < 0.1 else ("male" if rng.random() < leaning else "female")


def _intensity(item: Item, leaning: float, rng: Rng) -> int:
    return int(np.clip(rng.normal(40 + 20 * leaning, 15), 1, 100))


def _essay(item: Item, leaning: float, rng: Rng) -> int:
    """Most essays balanced, as models write them; both directions of a question alike."""
    return int(rng.choice([-1, 0, 1, 2], p=[0.02, 0.8, 0.12, 0.06]))


NULL_MODELS: dict[str, tuple[Draw, int]] = {
    "bbq": (_bbq, 12),
    "crows_pairs": (_of_two("stereotype", "anti-stereotype", off_topic=0.1), 10),
    "stereoset": (_of_two("stereotype", "anti-stereotype", off_topic=0.1), 10),
    "winobias": (_pronoun, 10),
    "unqover": (_subject, 6),
    "eec": (_intensity, 3),
    "implicit_association": (_test, 1),
    "decision": (_test, 1),
    "ltf_test": (_essay, 1),
}
"""How the model of no bias answers, and how often the embedded items stand in the page: with other cluster names, so
that a page is as wide as a published one.
"""


LARGE = {"ltf_test": 20}
"""Runs of a page that takes a second."""


def page(suite: str) -> Plan:
    """Items of a suite, several times where the embedded ones are few."""
    plan = prepare(RunOptions(suite=suite, model="m", data="embedded", judge_model="j"))
    copies = NULL_MODELS[suite][1]
    items = [
        item for copy in range(copies) for item in (plan.items if not copy else map(partial(_copied, copy), plan.items))
    ]
    return msgspec.structs.replace(plan, items=items)


def _copied(copy: int, item: Item) -> Item:
    return msgspec.structs.replace(item, item_id=f"{item.item_id}#{copy}", cluster=f"{item.cluster}#{copy}")


def stars_of(plan: Plan, rng: Rng) -> tuple[int, int, float]:
    """(stars, numbers compared, stars expected by chance) of one run of the model of no bias."""
    draw = NULL_MODELS[plan.suite.name][0]
    names = sorted({item.cluster for item in plan.items})
    leanings = dict(zip(names, rng.beta(2, 2, len(names)).tolist(), strict=True))
    observations = []
    for item in plan.items:
        value = draw(item, leanings[item.cluster], rng)
        status: Status = "unrelated" if value is None else "ok"
        observations.append(Observation(item, Reply(item_id=item.item_id, text="", status=status, parsed=value)))
    scales = plan.suite.scales
    cells = [c for c in plan.suite.cells(observations, protocol="corrected") if _can_be_tested(scales.get(c.metric))]
    found, by_chance = with_stars(cells, [estimation.estimate(cell, seed=0) for cell in cells], scales)
    n_compared = sum("p_adjusted" in one.extra for one in found)
    return sum(bool(mark(one)) for one in found), n_compared, by_chance or 0.0


def _can_be_tested(scale: Any) -> bool:
    return scale is not None and scale.ideal is not None and scale.low < scale.ideal < scale.high


@pytest.mark.statistical
@repeated(150)
def test_null_pages_carry_a_star_in_at_most_one_of_twenty_runs(
    times: int, monkeypatch: pytest.MonkeyPatch, record_property: Record
) -> None:
    """For every suite that stars, with clusters that lean either way; the table is printed."""
    for resample in (cluster_bootstrap, crossed_bootstrap, stratified_bootstrap):
        monkeypatch.setattr(estimation, resample.__name__, partial(resample, n_resamples=N_RESAMPLES))
    lines, too_many = [], []
    for suite in NULL_MODELS:
        began, plan = time.process_time(), page(suite)
        n_runs = min(times, LARGE.get(suite, times))
        runs = [stars_of(plan, np.random.default_rng([seed, len(suite)])) for seed in range(n_runs)]
        starred = sum(stars > 0 for stars, _, _ in runs)
        expected = max(by_chance for _, _, by_chance in runs)
        lines.append(
            f"{suite:22} {n_runs:4} runs, {runs[0][1]:4} numbers compared, {starred:2} with a star, "
            f"{sum(stars for stars, _, _ in runs):3} stars, {expected:.3f} expected a page, "
            f"{time.process_time() - began:4.1f} s"
        )
        assert all(n_compared > 0 for _, n_compared, _ in runs)
        if starred > binom.ppf(0.999, n_runs, FALSE_STARS):
            too_many.append(suite)
        assert expected <= FALSE_STARS + 1e-12
    for line in lines:
        record_property(ROW, f"null page  {line}")
    assert not too_many, lines
