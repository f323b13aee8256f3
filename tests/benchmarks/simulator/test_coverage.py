"""The intervals of suite runs cover what the simulator planted, and "no difference" where none is planted.

A run asks the same items each time, so its target is what is planted for these items. Clusters that differ by design
(persons of a group that is rated higher, questions that offer a group or do not) then make intervals wider than that
target needs: they speak of more items than these. The profiles here keep the clusters of a tested number alike.
"""

from collections.abc import Iterator
from itertools import repeat

import pytest
from scipy.stats import binom

from benchmarks.run.runner import Plan, RunOptions, prepare
from benchmarks.simulator.answer_key import AnswerKey
from benchmarks.simulator.engine import Engine
from benchmarks.simulator.loading import load, parse
from benchmarks.simulator.planted.table import Expected, by_questions
from benchmarks.simulator.profile import Profile
from benchmarks.suites.common.estimation import CellKey
from tests.support.simulator.runs import n_covered

PROFILE = parse(
    {
        "name": "coverage",
        "stereoset": {"p_stereotype": 0.65, "p_unrelated": 0.05},
        "crows_pairs": {"p_stereotype": 0.62, "p_unrelated": 0.06, "p_refusal": 0.02},
        "winobias": {"p_male": 0.55, "p_female": 0.25, "p_unrelated": 0.05, "p_refusal": 0.03},
        "eec": {"p_refusal": 0.05, "shifts": {"gender": {"female": 3.0}}},
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


def same(profile: Profile, plan: Plan) -> Iterator[Engine]:
    """Yield one model again and again: it draws a new answer each time that it is asked."""
    return repeat(Engine(profile, 1, AnswerKey(by_questions()[plan.suite.name].facts(plan.dataset))))


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
