"""Comparing the gaps of two models: the arithmetic by hand, false stops over 10,000 looks, pairs to a verdict."""

import functools
import math
import random
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.lab.metrics import sequential_comparison as comparison
from benchmarks.lab.metrics.sequential_comparison import BETS, Direction, GapSums, MeanSums
from tests.support.long import repeated
from tests.support.tables import ROW
from tools.simulations.gaps import NULLS, EveryLook, agrees_with_sums, evidence_of_growth, evidence_of_no_growth, worse

LOOKS = 10_000
ALPHA = 0.01
STOP = math.log(1 / ALPHA)

scores = st.lists(st.tuples(st.floats(-1, 1), st.floats(-1, 1)), max_size=40)
Record = Callable[[str, object], None]


def gap_of(pairs: list[tuple[float, float]]) -> GapSums:
    return functools.reduce(lambda gap, pair: comparison.add_pair(gap, *pair), pairs, GapSums())


def sums_of(values: list[float]) -> MeanSums:
    return functools.reduce(comparison.add, values, MeanSums())


def test_evidence_never_exceeds_the_bets_that_it_stands_for() -> None:
    """Values of one size: the e-value is at most the mean of the products 1 + bet * v, and close to it."""
    values = [0.3, -0.2, 0.4, 0.1, -0.1] * 6
    found = comparison.log_evidence_above(sums_of(values), 0.0)

    products = [math.prod(1 + bet * v for v in values) for bet in BETS]
    exact = math.log(sum(products) / len(products))
    assert exact - 0.2 < found <= exact


@given(st.floats(-1, 1), st.floats(-0.9, 0.9))
def test_one_value_is_worth_no_more_than_its_bet(value: float, limit: float) -> None:
    """Each factor lies below (1 + bet * v) / (1 + bet * limit), whatever the value: so its mean is at most 1."""
    factors = [(1 + bet * value) / (1 + bet * limit) for bet in BETS]

    assert comparison.log_evidence_above(sums_of([value]), limit) <= math.log(sum(factors) / len(factors)) + 1e-9


@given(scores, st.sampled_from(["directed", "absolute"]))
def test_bounds_hold_what_was_found(pairs: list[tuple[float, float]], direction: Direction) -> None:
    """Whatever comes, the growth by the means so far lies within its bounds."""
    gap = gap_of(pairs)
    bounds = comparison.growth_bounds(gap, 0.05, direction)

    assert -2.0 <= bounds.lower <= bounds.upper <= 2.0
    if pairs:
        assert bounds.lower - 1e-6 <= comparison.growth(gap, direction) <= bounds.upper + 1e-6


@given(scores, st.sampled_from([-1, 1]), st.sampled_from([-1, 1]))
def test_only_the_size_of_a_gap_counts(pairs: list[tuple[float, float]], of_x: int, of_y: int) -> None:
    """Turning the sign of either side changes nothing about absolute gaps."""
    turned = gap_of([(of_x * x, of_y * y) for x, y in pairs])

    assert comparison.log_evidence_of_growth(turned, 0.05) == pytest.approx(
        comparison.log_evidence_of_growth(gap_of(pairs), 0.05), abs=1e-9
    )
    found, expected = (comparison.growth_bounds(one, 0.05) for one in (turned, gap_of(pairs)))
    assert (found.lower, found.upper) == pytest.approx((expected.lower, expected.upper), abs=1e-9)


def test_several_gaps_share_one_error() -> None:
    """One of K gaps at K / alpha makes the mean reach 1 / alpha; two at half of that do so too."""
    alone = comparison.log_mean_evidence([math.log(400), -9.0, -9.0, -9.0])
    two = comparison.log_mean_evidence([math.log(200), math.log(200), -9.0, -9.0])

    assert alone == pytest.approx(two, abs=1e-4)
    assert alone >= STOP - 1e-9
    with pytest.raises(ValueError, match="no evidence"):
        comparison.log_mean_evidence([])


def test_pairs_and_split_traffic_are_not_mixed() -> None:
    """Sums know how they came about, and a share that changes is refused instead of averaged."""
    split = comparison.add_assigned(comparison.assigned_gap(0.1), 0.5, is_other=True, share=0.1)

    with pytest.raises(ValueError, match="no pair can be added"):
        comparison.add_pair(split, 0.0, 0.0)
    with pytest.raises(ValueError, match="must stay as it was"):
        comparison.add_assigned(split, 0.5, is_other=True, share=0.2)
    with pytest.raises(ValueError, match=r"must be in \(0, 1\)"):
        comparison.assigned_gap(1.0)
    with pytest.raises(ValueError, match=r"must be in \[-1, 1\]"):
        comparison.add_assigned(split, math.nan, is_other=False, share=0.1)
    with pytest.raises(ValueError, match=r"error 1\.0"):
        comparison.growth_bounds(split, 1.0)


def test_split_traffic_finds_both_means() -> None:
    """A tenth of the traffic with a gap of .4 against .1: the means and the growth lie within their bounds."""
    rng, gap = random.Random(3), comparison.assigned_gap(0.1)
    for _ in range(4000):
        is_other = rng.random() < 0.1
        value = max(-1.0, min(1.0, rng.gauss(0.4 if is_other else 0.1, 0.3)))
        gap = comparison.add_assigned(gap, value, is_other=is_other, share=0.1)

    bounds = comparison.growth_bounds(gap, ALPHA)
    assert gap.means == pytest.approx((0.1, 0.4), abs=0.06)
    assert 0.0 < bounds.lower < 0.3 < bounds.upper
    assert comparison.log_evidence_of_growth(gap) > STOP


def test_simulation_is_of_this_module() -> None:
    """What the simulations below add up is what the module adds up."""
    values = np.random.default_rng(2).uniform(-1, 1, (1, 300))

    assert agrees_with_sums(values, 0.05)


def false_stops(name: str, runs: int, seed: int) -> float:
    """Share of runs without any growth that are stopped at any of the looks."""
    draw, is_absolute = NULLS[name]
    rng, stopped = np.random.default_rng(seed), 0
    for first in range(0, runs, 50):
        pairs = draw(rng, (min(50, runs - first), LOOKS))
        stopped += int((evidence_of_growth(pairs, 0.0, is_absolute=is_absolute).max(axis=1) >= STOP).sum())
    return stopped / runs


@pytest.mark.statistical
@repeated(500, quick=10)
@pytest.mark.parametrize("name", NULLS)
def test_a_model_that_is_no_worse_is_hardly_ever_stopped(name: str, times: int, record_property: Record) -> None:
    """10,000 looks at each of 500 runs without growth: at most 1 % come to 1 / 1 %; of 10, none."""
    share = false_stops(name, times, 73)

    record_property(
        ROW, f"canary   | not worse: {name:<42} | ever stopped in {LOOKS} looks: {share:.1%} of {times} runs"
    )
    assert share <= 0.01


@pytest.mark.statistical
def test_traffic_that_changes_is_no_growth() -> None:
    """Split traffic whose level drifts and whose questions repeat: no run of 20 is stopped for it."""
    rng, stopped = np.random.default_rng(79), 0
    for _ in range(20):
        level = np.repeat(np.clip(np.cumsum(rng.normal(0, 0.15, 200)), -1, 1), 10)
        is_other = rng.random(2000) < 0.2
        gap, peak = comparison.assigned_gap(0.2), -math.inf
        for t, (value, other) in enumerate(zip(level, is_other, strict=True)):
            gap = comparison.add_assigned(gap, float(value), is_other=bool(other), share=0.2)
            if t % 10 == 9:
                peak = max(peak, comparison.log_evidence_of_growth(gap, 0.0, "directed"))
        stopped += peak >= STOP
    assert stopped == 0


@pytest.mark.statistical
@repeated(400, quick=60)
@pytest.mark.parametrize(
    ("name", "stable", "other", "spread", "n_gaps"),
    [
        ("gap 0 to .15, spread .3", 0.0, 0.15, 0.3, 1),
        ("gap .1 to .3, spread .4", 0.1, 0.3, 0.4, 8),
        ("gap -.1 to .3, spread .4", -0.1, 0.3, 0.4, 8),
        ("gap 0 to .2, spread .4, one of 24", 0.0, 0.2, 0.4, 24),
    ],
)
def test_a_worse_model_is_stopped_within_300_pairs(
    name: str, stable: float, other: float, spread: float, n_gaps: int, times: int, record_property: Record
) -> None:
    """A gap that grew by .15 to .4 stops the canary within 300 pairs at the median; other gaps have no evidence."""
    pairs = worse(np.random.default_rng(83), (times, 2000), stable, other, spread)
    is_there = evidence_of_growth(pairs, 0.0, is_absolute=True) >= STOP + math.log(n_gaps)
    pairs_to_stop = np.where(is_there.any(axis=1), is_there.argmax(axis=1) + 1, 2001)
    median, nine_in_ten = np.quantile(pairs_to_stop, [0.5, 0.9])

    record_property(
        ROW, f"canary   | {name:<34} | {n_gaps:>2} gaps | pairs to a stop: {median:.0f}, 90 %: {nine_in_ten:.0f}"
    )
    assert median <= 300


@pytest.mark.statistical
@repeated(200, quick=30)
@pytest.mark.parametrize("smallest", [0.1, 0.05])
def test_an_equal_model_is_promoted(smallest: float, times: int, record_property: Record) -> None:
    """With the same gap on both sides the smallest difference is excluded in all runs of 4,000 pairs."""
    pairs = worse(np.random.default_rng(89), (times, 4000), 0.0, 0.0, 0.25)
    is_there = evidence_of_no_growth(pairs, smallest) >= STOP
    needed = np.where(is_there.any(axis=1), is_there.argmax(axis=1) + 1, 4001)

    record_property(
        ROW, f"canary   | equal, spread .25, less than {smallest} excluded | median {np.median(needed):.0f} pairs"
    )
    assert needed.max() <= 4000


@pytest.mark.statistical
def test_a_model_that_is_worse_by_the_smallest_difference_is_hardly_ever_promoted() -> None:
    """Worse by exactly what was to be excluded: at most 1 % of 100 runs ever exclude it in 4,000 looks."""
    rng = np.random.default_rng(97)
    values = np.where(rng.random((100, 4000)) < 0.1, 1.0, 0.0)
    ever = EveryLook((values - 0.0) / 2).above(-0.1 / 2, -1).max(axis=1) >= STOP

    assert float(ever.mean()) <= 0.01


@pytest.mark.statistical
@pytest.mark.long
@pytest.mark.parametrize(("stable", "other"), [(0.3, 0.3), (0.3, -0.1), (0.0, 0.2)])
def test_bounds_of_an_absolute_gap_are_hardly_ever_wrong(stable: float, other: float) -> None:
    """|g_y| - |g_x| lies within its bounds at each of 20 looks in 97 % of 100 runs or more (promised: 98 %)."""
    rng, missed = random.Random(101), 0
    for _ in range(100):
        gap, is_missed = GapSums(), False
        for t in range(1, 401):
            gap = comparison.add_pair(gap, *(max(-1, min(1, rng.gauss(mean, 0.35))) for mean in (stable, other)))
            if t % 20 == 0:
                bounds = comparison.growth_bounds(gap, ALPHA)
                is_missed |= not bounds.lower <= abs(other) - abs(stable) <= bounds.upper
        missed += is_missed
    assert missed <= 3
