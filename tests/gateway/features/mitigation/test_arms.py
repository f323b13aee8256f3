"""Two arms of a policy: the difference that was planted, its bounds at all times, and what counts once."""

import math
import random

import msgspec
import pytest

from auditors.streams.scales import scaled
from auditors.types import Arm
from gateway.features.mitigation.arms import SEEN_BITS, ArmsState, add_exchange, difference, new_arms
from tests.support.long import repeated
from tests.support.presence import present

ERROR = 0.025


def seen(share: float, n: int, *, treated: float, control: float, seed: int = 0) -> ArmsState:
    """The state after n exchanges whose values are 1 with these probabilities, else 0."""
    rng, state = random.Random(seed), new_arms(share)
    for _ in range(n):
        is_treated = rng.random() < share
        value = float(rng.random() < (treated if is_treated else control))
        state = add_exchange(state, "treated" if is_treated else "control", [value], 0)
    return state


@pytest.mark.parametrize("share", [0.5, 0.2])
def test_a_planted_difference_is_found(share: float) -> None:
    """It lies within the bounds, and the evidence is beyond the 5 % level; means of both arms are their own."""
    state = seen(share, 3_000, treated=0.2, control=0.6)
    found = present(difference(state, ERROR))
    assert found.bounds.lower < -0.4 < found.bounds.upper < 0.0
    assert found.log_evidence > math.log(20.0)
    assert abs((state.treated.mean or 0.0) - 0.2) < 0.06
    assert abs((state.control.mean or 0.0) - 0.6) < 0.06


def test_what_one_exchange_brings_counts_once() -> None:
    """Several values share one draw of the arm, so their mean is one value; missing ones are counted beside it."""
    state = add_exchange(new_arms(0.5), "treated", [0.0, 1.0], 1)
    assert (state.treated.n, state.treated.total, state.treated.missing) == (1, 0.5, 1)
    assert (state.control.n, state.gap.n) == (0, 1)


def test_nothing_is_said_before_both_arms_have_a_value() -> None:
    """An arm without a value has no mean: there is no difference, and no zero in its place."""
    state = add_exchange(new_arms(0.5), "treated", [1.0], 0)
    assert difference(state, ERROR) is None
    assert difference(add_exchange(state, "control", [], 1), ERROR) is None
    assert difference(add_exchange(state, "control", [0.0], 0), ERROR) is not None


def called_by(n_comparisons: int, *, knows_units: bool) -> int:
    """How many comparisons without a difference are ever called one: 10 exchanges of each conversation, all alike."""
    called = 0
    for seed in range(n_comparisons):
        rng, state, is_called = random.Random(seed), new_arms(0.5), False
        for _ in range(30):
            unit, value = f"{rng.getrandbits(64):016x}", float(rng.random() < 0.3)
            arm: Arm = "treated" if rng.random() < 0.5 else "control"
            for _ in range(10):
                state = add_exchange(state, arm, [value], 0, unit if knows_units else None)
            found = difference(state, ERROR)
            is_called |= found is not None and not found.bounds.lower <= 0.0 <= found.bounds.upper
        called += is_called
    return called


def test_a_conversation_counts_once() -> None:
    """Its exchanges have one draw and depend on each other: each counted, they would show what is not there."""
    assert called_by(10, knows_units=True) <= 1
    assert called_by(10, knows_units=False) >= 2


def test_no_conversation_is_ever_counted_twice() -> None:
    """Of 1,500 almost all are counted, none of them again, and the rest is said; the memory of them stays small."""
    rng, state = random.Random(0), new_arms(0.5)
    units = [f"{rng.getrandbits(64):016x}" for _ in range(1_500)]
    for unit in units:
        state = add_exchange(state, "treated", [1.0], 0, unit)
    assert 1_400 < state.treated.n == 1_500 - state.repeated
    again = state
    for unit in units[::7]:
        again = add_exchange(again, "control", [0.0], 1, unit)
    assert (again.treated, again.control, again.gap) == (state.treated, state.control, state.gap)
    assert again.repeated == state.repeated + len(units[::7])
    assert len(state.seen) <= SEEN_BITS // 8 + 100
    assert msgspec.json.decode(msgspec.json.encode(state), type=ArmsState) == state


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, math.nan])
def test_one_arm_alone_is_no_comparison(share: float) -> None:
    """A policy that treats all or none has none."""
    with pytest.raises(ValueError, match="share"):
        new_arms(share)


@pytest.mark.statistical
@repeated(100, quick=10)
@pytest.mark.parametrize("factor", [1.0, 1.5])
def test_bounds_hold_for_few_clients_and_heavy_tails(factor: float, times: int) -> None:
    """Bounds hold at all looks in at least 90 of 100 comparisons of twenty clients that come in spells."""
    planted, missed, width = math.log2(factor), 0, 0.0
    for seed in range(times):
        rng, state, is_missed, client = random.Random(seed), new_arms(0.5), False, 0
        usual = [rng.gauss(0.0, 1.5) for _ in range(20)]
        for number in range(600):
            if rng.random() < 0.1:
                client = 0 if rng.random() < 0.5 else rng.randrange(20)
            arm: Arm = "treated" if rng.random() < 0.5 else "control"
            seconds = 2.0 ** usual[client] * rng.paretovariate(1.5) * (factor if arm == "treated" else 1.0)
            state = add_exchange(state, arm, [scaled("answer_seconds", math.log2(seconds))], 0)
            if number % 20 == 19 and (found := difference(state, ERROR)) is not None:
                is_missed |= not found.bounds.lower <= planted / 14.0 <= found.bounds.upper
        missed += is_missed
        assert found is not None
        width += 14.0 * (found.bounds.upper - found.bounds.lower) / times
    assert missed <= times / 10
    assert width < 3.0  # in doublings, after 600 exchanges: it says something
