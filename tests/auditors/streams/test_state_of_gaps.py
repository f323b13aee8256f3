"""Live streams of gaps: a block is a value, who is named behind an alarm, and scores that are missing."""

import random

import pytest

from auditors.streams.estimates import estimate
from auditors.streams.state import StreamState, acknowledge, gap_key, miss_gap, record_gap
from tests.support.auditors.live_streams import KEY, SETTINGS, interval_of
from tests.support.presence import present


@pytest.mark.parametrize(("was", "became"), [(0.4, 0.9), (0.9, 0.4)])
def test_a_gap_names_the_exchanges_that_changed(was: float, became: float) -> None:
    """The group's answers change, and others' exchanges close every block: the group's are behind the alarm."""
    state = StreamState()
    for n in range(3000):
        y = was if n < 1500 else became
        state = record_gap(state, [y], [], 1.0, SETTINGS, exchange_id=f"group-{n}")
        state = record_gap(state, [], [0.4 + n % 3 / 100], 1.0, SETTINGS, exchange_id=f"others-{n}")

    assert state.alarm
    behind = present(state.detector).behind
    assert behind
    assert all(one.startswith("group-") and int(one.removeprefix("group-")) >= 1500 for one in behind)


def test_an_acknowledged_gap_begins_with_a_new_block() -> None:
    """Scores from before the acknowledgement are no part of the evidence after it; sampling floors are kept."""
    state = StreamState()
    for _ in range(2000):
        state = record_gap(state, [0.9], [0.1], 0.5, SETTINGS)
    waiting = record_gap(state, [0.9], [], 0.5, SETTINGS)
    fresh = acknowledge(waiting)

    assert fresh.block is not None
    assert (present(waiting.block).group.n, fresh.block.group.n) == (1, 0)
    assert fresh.block.paired_least == 0.5


def test_a_missing_score_moves_the_bounds_apart_and_nothing_else() -> None:
    """It is counted; the mean, the open block's scores and the detector stay."""
    known = StreamState()
    for _ in range(300):
        known = record_gap(known, [0.6], [0.4], 0.5, SETTINGS)
    known = record_gap(known, [0.6], [], 0.5, SETTINGS)
    missed = miss_gap(known, "error", 0.5, has_group=False, has_others=True)
    before, after = estimate(gap_key(KEY), known), estimate(gap_key(KEY), missed)
    narrow, wide = interval_of(before), interval_of(after)

    assert (missed.sums, missed.detector, missed.n_missing) == (known.sums, known.detector, 1)
    assert known.block is not None
    assert missed.block is not None
    assert (missed.block.group, missed.block.others) == (known.block.group, known.block.others)
    assert after.value == before.value
    assert wide.lower < narrow.lower < narrow.upper < wide.upper


def test_bounds_of_a_gap_hold_whatever_the_missing_scores_were() -> None:
    """No gap, and a judge that falls silent on high scores of the rarer group: the mean is wrong, no bound is."""
    rng, state = random.Random(8), StreamState()
    for _ in range(8000):
        of_group, y = rng.random() < 0.2, float(rng.random() < 0.4)
        if of_group and y == 1.0 and rng.random() < 0.5:
            state = miss_gap(state, "malformed", 0.5, has_group=True, has_others=False)
        else:
            state = record_gap(state, [y] if of_group else [], [] if of_group else [y], 0.5, SETTINGS)
    found = estimate(gap_key(KEY), state)

    assert present(found.value) < -0.3
    assert interval_of(found).lower < 0.0 < interval_of(found).upper
