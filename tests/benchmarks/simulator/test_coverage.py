"""The intervals of suite runs cover what the simulator planted, and "no difference" where none is planted.

A run asks the same items each time, so its target is what is planted for these items. Clusters that differ by design
(persons of a group that is rated higher, questions that offer a group or do not) then make intervals wider than that
target needs: they speak of more items than these. The profiles here keep the clusters of a tested number alike, or, for
UnQover, draw the questions anew for each run.
"""

import random
from collections import defaultdict
from collections.abc import Iterator
from itertools import count, repeat
from pathlib import Path
from typing import Any

import msgspec
import pytest
from scipy.stats import binom

from benchmarks.datasets import fetching
from benchmarks.run.runner import Plan, RunOptions, prepare
from benchmarks.simulator.answer_key import AnswerKey
from benchmarks.simulator.engine import Engine
from benchmarks.simulator.loading import load, parse
from benchmarks.simulator.planted.stereoset import PlantedStereoSet
from benchmarks.simulator.planted.table import Expected, by_questions
from benchmarks.simulator.profile import Profile
from benchmarks.suites.common.estimation import CellKey, estimate
from benchmarks.suites.registry import datasets
from tests.support.long import repeated
from tests.support.simulator.runs import cells, holds, n_covered

MIRROR = Path(__file__).parents[4] / "shared" / "data"
needs_data = pytest.mark.skipif(not MIRROR.is_dir(), reason="no published data beside the repository (shared/data)")

PROFILE = parse(
    {
        "name": "coverage",
        "stereoset": {"p_stereotype": 0.65, "p_unrelated": 0.05},
        "crows_pairs": {"p_stereotype": 0.62, "p_unrelated": 0.06, "p_refusal": 0.02},
        "winobias": {"p_male": 0.55, "p_female": 0.25, "p_unrelated": 0.05, "p_refusal": 0.03},
        "unqover": {"p_unrelated": 0.1, "p_refusal": 0.05, "weights": {"race": {"negative": {"black": 2.0}}}},
        "eec": {"p_refusal": 0.05, "shifts": {"gender": {"female": 3.0}}},
        "bbq": {"p_unknown_ambig": 0.5, "p_stereotype": 0.7, "p_right_pro": 0.9, "p_right_anti": 0.8},
        "implicit_association": {"p_consistent": 0.6, "p_refusal": 0.05},
        "real_toxicity_prompts": {"p_refusal": 0.1, "p_unrelated": 0.05, "weights": {"race": {"black": 3.0}}},
    }
)
PARTS = [0.1, pytest.param(1.0, marks=pytest.mark.simulation)]
"""Of the runs below: what every run does, and all."""
SS = CellKey("ss")
LMS = CellKey("lms")
DIFFERENCE = CellKey("male_female_difference", "gender")
FEMALE = CellKey("share", "gender", "female")
GAP = CellKey("intensity_difference", "gender", "male", "female", "anger")
WORDS = CellKey("mean_word_score")
RATE = CellKey("stereotype_rate")
NEUTRAL = CellKey("share", "gender", "neutral")
BLACK = CellKey("related_share", "race", "black")
PN = CellKey("pn_difference", "race", "black")


def key_of(plan: Plan) -> AnswerKey:
    return AnswerKey(by_questions()[plan.suite.name].facts(plan.dataset))


def fresh(profile: Profile, plan: Plan) -> Iterator[Engine]:
    """A model with another seed for every run: it settles its answers by its seed."""
    key = key_of(plan)
    return (Engine(profile, seed, key) for seed in count())


def same(profile: Profile, plan: Plan) -> Iterator[Engine]:
    """One model, which draws anew whenever it is asked again."""
    return repeat(Engine(profile, 1, key_of(plan)))


def canonical(suite: str, tmp_path: Path, **options: Any) -> Plan:
    fetching.fetch(datasets()[suite], mirror=str(MIRROR), data_dir=tmp_path)
    return prepare(RunOptions(suite=suite, model="simulated", data="canonical", **options), tmp_path)


def demand_nominal(covered: dict[CellKey, int], times: int) -> None:
    """A coverage between 93% and 97% passes; one at either end fails with one choice of seeds in twenty."""
    low, high = binom.ppf(0.05, times, 0.93), binom.ppf(0.95, times, 0.97)
    assert all(low <= n <= high for n in covered.values()), f"{covered}: expected {low:.0f} to {high:.0f} of {times}"


@pytest.mark.statistical
@pytest.mark.timeout(900)
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize(
    ("suite", "samples", "n_runs", "keys"),
    [
        ("stereoset", 8, 500, [SS]),
        ("crows_pairs", 4, 500, [SS, LMS]),
        ("winobias", 4, 500, [DIFFERENCE, FEMALE]),
        ("eec", 4, 600, [GAP]),
        ("implicit_association", 1, 500, [WORDS, RATE]),
        ("real_toxicity_prompts", 8, 600, [NEUTRAL, BLACK]),
    ],
)
def test_runs_of_embedded_items_cover_what_is_planted(
    suite: str, samples: int, n_runs: int, keys: list[CellKey], part: float
) -> None:
    """Run after run of the same items, the 95% interval holds the planted value as often as it says."""
    plan = prepare(RunOptions(suite=suite, model="simulated", data="embedded", samples=samples))
    expected = Expected(PROFILE, plan)
    planted = {key: value for key in keys if (value := expected.value(key)) is not None}
    assert len(planted) == len(keys)
    times = round(n_runs * part)
    demand_nominal(n_covered(plan, same(PROFILE, plan), planted, times), times)


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("suite", "samples", "n_runs", "unbiased"),
    [
        ("stereoset", 8, 500, {SS: 50.0}),
        ("crows_pairs", 4, 500, {SS: 50.0}),
        ("winobias", 4, 500, {DIFFERENCE: 0.0}),
        ("eec", 4, 600, {GAP: 0.0}),
        ("implicit_association", 1, 500, {WORDS: 0.0, RATE: 50.0}),
        ("real_toxicity_prompts", 8, 600, {NEUTRAL: 90 / 3, BLACK: 100 / 6}),
    ],
)
@pytest.mark.parametrize("part", PARTS)
def test_the_null_profile_shows_no_difference(
    suite: str, samples: int, n_runs: int, unbiased: dict[CellKey, float], part: float
) -> None:
    """Under "null" the interval of the headline number misses the value without bias in about one run of twenty."""
    plan = prepare(RunOptions(suite=suite, model="simulated", data="embedded", samples=samples))
    times = round(n_runs * part)
    demand_nominal(n_covered(plan, same(load("null"), plan), unbiased, times), times)


@needs_data
@pytest.mark.statistical
@pytest.mark.timeout(900)
@repeated(300, quick=12)
def test_canonical_stereoset_runs_cover_the_planted_ss(tmp_path: Path, times: int) -> None:
    """400 of the published items, asked again and again."""
    plan = canonical("stereoset", tmp_path, limit=400)
    demand_nominal(n_covered(plan, same(PROFILE, plan), {SS: PROFILE.section(PlantedStereoSet).ss}, times), times)


@needs_data
@pytest.mark.statistical
@pytest.mark.timeout(900)
@pytest.mark.long
@repeated(150, quick=15)
@pytest.mark.parametrize("name", ["coverage", "null"])
def test_canonical_bbq_runs_cover_the_planted_bias(name: str, tmp_path: Path, times: int) -> None:
    """A whole category, 25 templates: within each, as many right answers follow the stereotype as contradict it."""
    profile = PROFILE if name == "coverage" else load(name)
    plan = canonical("bbq", tmp_path)
    axis, conditions = "sexual_orientation", ("ambig", "disambig")
    plan = msgspec.structs.replace(plan, items=[item for item in plan.items if item.axis == axis])
    metrics = ("bias_score", "accuracy")
    keys = [CellKey(metric, axis, None, None, condition) for metric in metrics for condition in conditions]
    expected = Expected(profile, plan)
    planted = {key: value for key in keys if (value := expected.value(key)) is not None}
    assert len(planted) == len(keys)
    demand_nominal(n_covered(plan, fresh(profile, plan), planted, times), times)


@needs_data
@pytest.mark.statistical
@pytest.mark.timeout(900)
@pytest.mark.long
@repeated(150, quick=15)
@pytest.mark.parametrize("name", ["coverage", "null"])
def test_canonical_unqover_runs_cover_the_planted_difference(name: str, tmp_path: Path, times: int) -> None:
    """250 of the 2,500 sets of four about race, drawn anew for each run; the target is that of all of them."""
    profile = PROFILE if name == "coverage" else load(name)
    plan = canonical("unqover", tmp_path)
    sets = defaultdict(list)
    for item in plan.items:
        if item.axis == "race":
            sets[item.cluster].append(item)
    whole = msgspec.structs.replace(plan, items=[item for items in sets.values() for item in items])
    planted = Expected(profile, whole).value(PN)
    assert planted is not None
    engine, covered = next(same(profile, plan)), 0
    for seed in range(times):
        drawn = random.Random(seed).sample(sorted(sets), 250)
        asked = msgspec.structs.replace(plan, items=[item for name in drawn for item in sets[name]])
        found = estimate(cells(asked, engine)[PN], seed=seed)
        covered += holds(found, planted)
    demand_nominal({PN: covered}, times)
