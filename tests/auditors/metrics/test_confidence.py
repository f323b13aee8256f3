"""The confidence sequence: the theorem by hand, a readable reference, its misses over thousands of looks."""

import functools
import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditors.metrics import sequential
from auditors.metrics.intervals import Interval
from auditors.metrics.sequential import BET_PERIOD, EVERY_VALUE_UNTIL, LARGEST_BET, ConfidenceSums
from tools.simulations.stream_bank import EstimateBank

pairs = st.lists(st.tuples(st.floats(0, 1), st.floats(0.01, 1)), max_size=60)


def sums_of(values: list[tuple[float, float]]) -> ConfidenceSums:
    return functools.reduce(lambda sums, pair: sequential.add(sums, *pair), values, ConfidenceSums())


def plain_theorem(values: list[float], level: float) -> Interval:
    """Theorem 2 as printed, for equal weights, with the renewal of bets that the module states."""
    centre, weight, spread, bet = 0.0, 0.0, 0.0, LARGEST_BET
    for t, x in enumerate(values, start=1):
        predicted = (0.5 + sum(values[: t - 1])) / t
        centre, weight = centre + bet * x, weight + bet
        spread += 4 * (x - predicted) ** 2 * (-math.log(1 - bet) - bet) / 4
        if t < EVERY_VALUE_UNTIL or t % BET_PERIOD == 0:
            mean = (0.5 + sum(values[:t])) / (t + 1)
            variance = (0.25 + sum((one - mean) ** 2 for one in values[:t])) / (t + 1)
            bet = min(LARGEST_BET, math.sqrt(2 * math.log(40) / (variance * (t + 1) * math.log(t + 2))))
    half = (math.log(2 / (1 - level)) + spread) / weight
    return Interval(max(0.0, centre / weight - half), min(1.0, centre / weight + half))


@pytest.mark.parametrize("level", [0.8, 0.95, 0.999])
def test_equal_weights_are_the_theorem(level: float) -> None:
    """With w = 1 the bounds are those of the printed formula, whatever the level."""
    rng = random.Random(5)
    values = [round(rng.betavariate(2, 5), 3) for _ in range(150)]

    found = sequential.interval(sums_of([(y, 1.0) for y in values]), level)

    expected = plain_theorem(values, level)
    assert (found.lower, found.upper) == pytest.approx((expected.lower, expected.upper), abs=1e-12)


def test_unequal_weights_solve_the_inequality() -> None:
    """At the bounds, and only outside them, the score process of that mean reaches its boundary."""
    rng = random.Random(6)
    values = [(rng.random(), rng.choice([1.0, 0.2])) for _ in range(400)]
    sums = sums_of(values)

    def inside(m: float) -> bool:
        score, boundary = 0.0, math.log(40)
        partial = ConfidenceSums()
        for t, (y, w) in enumerate(values, start=1):
            off = w * (y - m) - ((0.5 + partial.wy) / t - m * (1 + partial.w) / t)
            score += partial.bet * w * (y - m)
            boundary += (-math.log(1 - partial.bet) - partial.bet) * off * off
            partial = sequential.add(partial, y, w)
        return abs(score) <= boundary

    found = sequential.interval(sums)

    assert [inside(m) for m in (found.lower + 1e-6, found.upper - 1e-6)] == [True, True]
    assert [inside(m) for m in (found.lower - 1e-6, found.upper + 1e-6)] == [False, False]


@given(pairs, st.floats(0.5, 0.999))
def test_bounds_stay_in_the_range(values: list[tuple[float, float]], level: float) -> None:
    """Whatever comes, 0 <= lower <= upper <= 1 and the bet stays a bet."""
    sums = sums_of(values)
    found = sequential.interval(sums, level)

    assert 0.0 <= found.lower <= found.upper <= 1.0
    assert 0.0 < sums.bet <= LARGEST_BET


def ever_missed(mean: float, runs: int, looks: int, rng: np.random.Generator, *, strata: bool = False) -> float:
    """Share of runs in which the bounds miss the mean at any of the looks, one after every value."""
    bank, missed = EstimateBank(runs), np.zeros(runs, dtype=bool)
    for _ in range(looks):
        if strata:  # a tenth of the traffic has mean .6 and is sampled ten times as often as the rest, mean .2
            is_rich = rng.random(runs) < 10 / 19
            y, weight = (rng.random(runs) < np.where(is_rich, 0.6, 0.2)), np.where(is_rich, 0.1, 1.0)
        else:
            y, weight = rng.random(runs) < mean, np.ones(runs)
        bank.step(y.astype(np.float64), weight)
        lower, upper = bank.bounds()
        missed |= (lower > mean) | (upper < mean)
    return float(missed.mean())


@pytest.mark.statistical
@pytest.mark.parametrize("looks", [500, pytest.param(10_000, marks=pytest.mark.simulation)])
@pytest.mark.parametrize(("mean", "strata"), [(0.05, False), (0.5, False), (0.24, True)])
def test_few_runs_ever_miss_the_mean(mean: float, strata: bool, looks: int) -> None:
    """At most 5 % of 400 runs ever miss in 10,000 looks; weighted bounds cover all traffic (.24), not the sample."""
    assert ever_missed(mean, 400, looks, np.random.default_rng(31), strata=strata) <= 0.05
