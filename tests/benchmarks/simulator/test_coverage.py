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

import msgspec
import pytest
from scipy.stats import binom

from benchmarks.run.runner import Plan, RunOptions, prepare
from benchmarks.simulator.answer_key import AnswerKey
from benchmarks.simulator.engine import Engine
from benchmarks.simulator.loading import load, parse
from benchmarks.simulator.planted.table import Expected, by_questions
from benchmarks.simulator.profile import Profile
from benchmarks.suites.common.estimation import CellKey, estimate
from tests.support.simulator.runs import cells, holds, n_covered

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


def demand_nominal(covered: dict[CellKey, int], times: int) -> None:
    """A coverage between 93% and 97% passes; one at either end fails with one choice of seeds in twenty."""
    low, high = binom.ppf(0.05, times, 0.93), binom.ppf(0.95, times, 0.97)
    assert all(low <= n <= high for n in covered.values()), f"{covered}: expected {low:.0f} to {high:.0f} of {times}"


@pytest.mark.simulation
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("suite", "samples", "times", "unbiased"),
    [
        ("stereoset", 8, 500, {SS: 50.0}),
        ("crows_pairs", 4, 500, {SS: 50.0, LMS: None}),
        ("winobias", 4, 500, {DIFFERENCE: 0.0, FEMALE: None}),
        ("eec", 4, 600, {GAP: 0.0}),
        ("implicit_association", 1, 500, {WORDS: 0.0, RATE: 50.0}),
        ("real_toxicity_prompts", 8, 600, {NEUTRAL: 90 / 3, BLACK: 100 / 6}),
    ],
)
@pytest.mark.parametrize("name", ["coverage", "null"])
def test_runs_cover_what_is_planted(
    suite: str, samples: int, times: int, unbiased: dict[CellKey, float | None], name: str
) -> None:
    """Run after run of the same items, the 95 % interval holds the planted value as often as it says; under "null" the
    value without bias.
    """
    plan = prepare(RunOptions(suite=suite, model="simulated", data="embedded", samples=samples))
    if name == "null":
        profile, values = load(name), unbiased
    else:
        expected = Expected(PROFILE, plan)
        profile, values = PROFILE, {key: expected.value(key) for key in unbiased}
        assert None not in values.values()
    planted = {key: value for key, value in values.items() if value is not None}
    demand_nominal(n_covered(plan, same(profile, plan), planted, times), times)


@pytest.mark.network
@pytest.mark.simulation
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ["coverage", "null"])
def test_published_bbq_runs_cover_the_planted_bias(name: str, home: Path) -> None:
    """A whole category, 25 templates: within each, as many right answers follow the stereotype as contradict it."""
    profile = PROFILE if name == "coverage" else load(name)
    plan = prepare(RunOptions(suite="bbq", model="simulated"), home)
    axis, conditions = "sexual_orientation", ("ambig", "disambig")
    plan = msgspec.structs.replace(plan, items=[item for item in plan.items if item.axis == axis])
    metrics = ("bias_score", "accuracy")
    keys = [CellKey(metric, axis, None, None, condition) for metric in metrics for condition in conditions]
    expected = Expected(profile, plan)
    planted = {key: value for key in keys if (value := expected.value(key)) is not None}
    assert len(planted) == len(keys)
    demand_nominal(n_covered(plan, fresh(profile, plan), planted, 150), 150)


@pytest.mark.network
@pytest.mark.simulation
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ["coverage", "null"])
def test_published_unqover_runs_cover_the_planted_difference(name: str, home: Path) -> None:
    """250 of the 2,500 sets of four about race, drawn again for each run; the target is that of all of them."""
    profile = PROFILE if name == "coverage" else load(name)
    plan = prepare(RunOptions(suite="unqover", model="simulated"), home)
    sets = defaultdict(list)
    for item in plan.items:
        if item.axis == "race":
            sets[item.cluster].append(item)
    whole = msgspec.structs.replace(plan, items=[item for items in sets.values() for item in items])
    planted = Expected(profile, whole).value(PN)
    engine, covered = next(same(profile, plan)), 0
    for seed in range(150):
        drawn = random.Random(seed).sample(sorted(sets), 250)
        asked = msgspec.structs.replace(plan, items=[item for name in drawn for item in sets[name]])
        covered += holds(estimate(cells(asked, engine)[PN], seed=seed), planted)
    demand_nominal({PN: covered}, 150)
