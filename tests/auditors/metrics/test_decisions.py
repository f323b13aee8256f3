"""Differences of decisions: unbiased by enumeration, and an impact ratio whose bounds hold."""

import random
from collections.abc import Iterator
from itertools import product

import pytest

from auditors.metrics.answers import Impact, flip_excess, impact, mean_difference
from auditors.metrics.weighting import hajek_mean
from auditors.streams.drift import DriftSettings
from auditors.streams.estimates import estimate
from auditors.streams.scales import LARGEST_RATIO, unscaled
from auditors.streams.state import StreamKey, StreamState, record
from auditors.types import Measurement
from tests.support.presence import present

SETTINGS = DriftSettings()
KEY = StreamKey(auditor="decision", metric="decision_impact_ratio", axis="a", group="g", model="m", instrument="v1")


def test_the_difference_changes_its_sign_with_the_sides() -> None:
    """Worked by hand: (.5 + .7) / 2 - (.2 + .2) / 2 = .4."""
    assert mean_difference((0.5, 0.7), (0.2, 0.2)) == pytest.approx(0.4)
    assert mean_difference((0.2, 0.2), (0.5, 0.7)) == pytest.approx(-0.4)


@pytest.mark.parametrize(("p", "q"), [(0.5, 0.5), (0.1, 0.1), (0.5, 1.0), (0.2, 0.7), (0.0, 1.0)])
def test_the_flip_excess_is_unbiased_for_the_squared_distance(p: float, q: float) -> None:
    """Over all draws of two yes-or-no decisions a side its mean is (p - q)^2: 0 alike, never hidden by chance."""
    mean = 0.0
    for draws in product((True, False), repeat=4):
        chances = [(side if drawn else 1 - side) for side, drawn in zip((p, p, q, q), draws, strict=True)]
        weight = chances[0] * chances[1] * chances[2] * chances[3]
        mean += weight * flip_excess((draws[0], draws[1]), (draws[2], draws[3]))
    assert mean == pytest.approx((p - q) ** 2)


def test_the_flip_excess_stays_in_its_range() -> None:
    """Over all decisions among four options: -1/2 where both sides differ alike, 1 where they never meet."""
    found = {flip_excess((a, b), (c, d)) for a, b, c, d in product(range(4), repeat=4)}
    assert (min(found), max(found)) == (-0.5, 1.0)


def test_shares_of_selections_by_hand() -> None:
    """Two of four draws selected, one a side; all on one side; none at all."""
    assert impact([True, False], [False, True]) == (0.5, 0.5)
    assert impact([True, True], [False, False]) == (1.0, 0.5)
    assert impact([True, True], [True, False]) == (2 / 3, 0.75)
    assert impact([False, False], [False, False]) is None


def test_a_share_is_shown_as_a_ratio() -> None:
    """A half is 1, four ninths are 0.8; no ratio is shown above the largest."""
    assert [unscaled(KEY.metric, y) for y in (0.0, 0.5, 4 / 9)] == [0.0, 1.0, pytest.approx(0.8)]
    assert unscaled(KEY.metric, 1.0) == unscaled(KEY.metric, 1.0 - 1e-12) == LARGEST_RATIO


def measured(found: Impact) -> Measurement:
    return Measurement(
        auditor="decision",
        auditor_version="1",
        metric=KEY.metric,
        axis="a",
        group="g",
        value=found.share,
        weight=found.weight,
    )


def ratio_stream(seed: int, n: int, both: float, first: float, second: float) -> Iterator[StreamState]:
    """The stream after each of n exchanges: both sides selected with this chance, or one alone; some weigh more."""
    rng, state = random.Random(seed), StreamState()
    for _ in range(n):
        drawn, probability = rng.random(), rng.choice((0.1, 0.2))
        sides = drawn < both + first, drawn < both or both + first <= drawn < both + first + second
        found = impact([sides[0]] * 2, [sides[1]] * 2)
        if found is not None:
            state = record(state, measured(found), probability, SETTINGS)
            yield state


def test_the_ratio_is_that_of_the_selection_rates() -> None:
    """Rates of .45 and .60: .75, far from what the mean of the exchanges' own shares would say."""
    *_, state = ratio_stream(1, 6000, 0.4, 0.05, 0.2)
    found = estimate(KEY, state)
    assert found.value == pytest.approx(0.75, abs=0.02)
    assert present(found.lower) < 0.75 < present(found.upper) < 0.85
    assert hajek_mean(state.sums) == pytest.approx(0.45 / 1.05, abs=0.01)


@pytest.mark.long
@pytest.mark.parametrize(("both", "first", "second"), [(0.4, 0.1, 0.1), (0.2, 0.05, 0.2), (0.02, 0.0, 0.05)])
def test_bounds_of_the_ratio_hold_at_all_times(both: float, first: float, second: float) -> None:
    """Looked at after every 20th of 400 exchanges, they miss the ratio in at most 5 % of 300 streams."""
    ratio, missed = (both + first) / (both + second), 0
    for seed in range(300):
        is_missed = False
        for state in ratio_stream(seed, 400, both, first, second):
            if state.sums.n % 20 == 0:
                shown = estimate(KEY, state)
                is_missed |= not present(shown.lower) <= ratio <= present(shown.upper)
        missed += is_missed
    assert missed <= 15
