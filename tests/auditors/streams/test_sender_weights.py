"""No stated sampling rate makes an exchange weigh more than its share, and bounds and detectors hold all the same."""

import random
from collections.abc import Callable
from itertools import accumulate

import msgspec
import pytest

from auditors.metrics.weighting import hajek_mean, kish_effective_n
from auditors.streams import gaps
from auditors.streams.drift import DriftSettings
from auditors.streams.estimates import bounds_of
from auditors.streams.sender_weights import RECALLED, counted_probability, next_largest, relative_probability
from auditors.streams.soundness import read_state
from auditors.streams.state import StreamState, record_gap, update

SETTINGS = DriftSettings()
SHARE = SETTINGS.max_weight_share
FORGED = (1e-6, 2**-10, 2**-20, 1e-160)


def run(
    state: StreamState, n: int, mean: float, rate: Callable[[int], float] = lambda _: 1.0, seed: int = 1
) -> StreamState:
    """The stream after so many refusals and answers, each sent at a rate of its own."""
    rng = random.Random(seed)
    for number in range(n):
        state = update(state, float(rng.random() < mean), rate(number), SETTINGS, sender_rate=rate(number))
    return state


@pytest.fixture(scope="module")
def calm() -> StreamState:
    """A stream that is watched, with 5 % refusals."""
    return run(StreamState(), 2100, 0.05)


@pytest.mark.parametrize("rate", FORGED)
def test_one_forged_rate_changes_nothing(calm: StreamState, rate: float) -> None:
    """Neither the mean nor its precision, and three hundred exchanges at 90 % raise the alarm."""
    after = update(calm, 1.0, rate, SETTINGS, sender_rate=rate)
    assert hajek_mean(after.sums) - hajek_mean(calm.sums) < 1.0 / calm.sums.n
    assert kish_effective_n(after.sums) > calm.sums.n
    assert not after.alarm
    assert run(after, 300, 0.9).alarm
    assert read_state(msgspec.json.encode(after)) == after


def test_twenty_forged_rates_still_leave_the_alarm(calm: StreamState) -> None:
    """Each raises the largest weight by a twentieth; what they bring is bounded, shown and recalled."""
    after = run(calm, 20, 1.0, lambda _: 2**-10)
    assert after.largest_weight == pytest.approx((1.0 - SHARE) ** -20)
    assert after.n_cut == 20
    assert 0.5 < after.cut_share < 1.0
    assert run(msgspec.structs.replace(after, detector=calm.detector), 300, 0.9).alarm
    assert run(after, 20 * RECALLED, 0.05).largest_weight == pytest.approx(1.0)


@pytest.mark.parametrize("seed", range(4))
def test_no_exchange_has_more_than_its_share(seed: int) -> None:
    """Beyond what an exchange at rate 1 weighs, whatever rates come in whatever order."""
    rng = random.Random(seed)
    largest, weights = 1.0, list[float]()
    for _ in range(600):
        rate = rng.choice((1.0, 0.5, rng.random() or 1.0, 2.0 ** -rng.randrange(11), 2**-10))
        weights.append(min(1.0 / rate, largest))
        largest = next_largest(largest, rate, SHARE)
    for weight, before in zip(weights, [0.0, *accumulate(weights)], strict=False):
        assert weight <= 1.0 + SHARE / (1.0 - SHARE) * before + 1e-9


def test_two_rates_are_estimated_without_bias() -> None:
    """A tenth of the sample stands for ten times the traffic of the rest; the mean is that of the traffic."""
    rng = random.Random(4)
    state = StreamState()
    for number in range(6000):
        rate, mean = (0.01, 0.2) if number % 10 == 0 else (1.0, 0.8)
        state = update(state, float(rng.random() < mean), rate, SETTINGS, sender_rate=rate)
    truth = (0.1 * 100 * 0.2 + 0.9 * 0.8) / (0.1 * 100 + 0.9)
    assert hajek_mean(state.sums) == pytest.approx(truth, abs=0.06)
    bounds = bounds_of(state)
    assert bounds.lower < truth < bounds.upper


def test_bounds_cover_at_all_times() -> None:
    """Of 20 streams with rates of all kinds, whose values are independent of them, no more than one is ever missed."""
    missed = 0
    for seed in range(20):
        rng = random.Random(seed)
        state, is_missed = StreamState(), False
        for number in range(300):
            rate = rng.choice((1.0, 0.5, 2**-10))
            state = update(state, float(rng.random() < 0.3), rate, SETTINGS, sender_rate=rate)
            if number % 10 == 0:
                bounds = bounds_of(state)
                is_missed |= not bounds.lower <= 0.3 <= bounds.upper
        missed += is_missed
    assert missed <= 1


def test_a_gap_is_not_blinded_either() -> None:
    """One forged rate in either side of a gap leaves the weights of later blocks."""
    state = StreamState()
    for number in range(60):
        rate = 1e-6 if number == 20 else 1.0
        sides = ([0.2], []) if number % 2 else ([], [0.3])
        state = record_gap(state, *sides, rate, SETTINGS, sender_rate=rate)
    assert state.sums.n == 30
    assert state.sums.w == pytest.approx(30, rel=0.1)


def test_what_is_relayed_is_not_touched() -> None:
    """At rate 1, and in streams of nothing else, every number is the one that it was."""
    assert counted_probability(0.05, 1.0, 1.0) == relative_probability(0.05, 1.0, 1.0) == 0.05
    assert next_largest(1.0, 1.0, SHARE) == 1.0
    sides = gaps.Block(), [0.2], [0.3]
    assert gaps.add(*sides, relative_probability(0.05, 1.0, 1.0)) == gaps.add(*sides, 0.05)


@pytest.mark.parametrize("rate", [0.0, -0.5, 1.5, float("nan"), float("inf")])
def test_what_is_no_rate_is_refused(rate: float) -> None:
    """As an impossible probability is."""
    with pytest.raises(ValueError, match="sender's rate"):
        update(StreamState(), 0.5, 0.5, SETTINGS, sender_rate=rate)
