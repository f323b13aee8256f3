"""Blocks of a gap: hand-worked differences, pairs, weights, and what the weighting is for."""

import random

import pytest

from auditors import gaps
from auditors.gaps import Block, Difference


def closed_after(audits: list[tuple[list[float], list[float], float]]) -> list[Difference]:
    """Differences of the blocks that these audits (group, others, probability) close."""
    block, found = Block(), []
    for group, others, probability in audits:
        block, closed = gaps.add(block, group, others, probability)
        if closed is not None:
            found.append(closed)
    return found


def test_a_block_closes_when_both_sides_have_a_score() -> None:
    """Others .2 and .4, then the group .9: d = .9 - .3 = .6, on the scale .8; the next block starts empty."""
    found = closed_after([([], [0.2], 1.0), ([], [0.4], 1.0), ([0.9], [], 1.0), ([0.5], [], 1.0), ([], [0.5], 1.0)])

    assert [(one.y, one.weight) for one in found] == [pytest.approx((0.8, 1.0)), pytest.approx((0.5, 1.0))]
    assert [one.n_exchanges for one in found] == [3, 2]


def test_an_exchange_that_scores_both_is_a_block_of_its_own() -> None:
    """A pair closes at once and leaves the open block as it is."""
    block, _ = gaps.add(Block(), [], [0.2], 1.0)
    after, closed = gaps.add(block, [0.5], [0.1, 0.3], 1.0)

    assert closed is not None
    assert closed.y == pytest.approx(0.65)
    assert closed.n_exchanges == 1
    assert (after.others, after.group) == (block.others, block.group)


def test_several_scores_of_one_exchange_are_one_value() -> None:
    """Two other groups in one exchange enter as their mean: the exchange is the unit."""
    [found] = closed_after([([], [0.0, 1.0], 1.0), ([], [0.2], 1.0), ([0.35], [], 1.0)])

    assert found.y == pytest.approx(0.5)


def test_nothing_scored_changes_nothing() -> None:
    """An exchange without a score on either side leaves the block alone."""
    block, _ = gaps.add(Block(), [0.5], [], 0.5)

    assert gaps.add(block, [], [], 0.1) == (block, None)


def test_weights_by_hand() -> None:
    """Group at p = .5, others at .1 and .5: weighted mean (1*10 + 0*2)/12; weight = .5 * .1 * (2 * (10+2)/2) = .6."""
    [found] = closed_after([([], [1.0], 0.1), ([], [0.0], 0.5), ([0.5], [], 0.5)])

    assert found.y == pytest.approx((0.5 - 10 / 12 + 1) / 2)
    assert found.weight == pytest.approx(0.6)


def test_equal_probabilities_weigh_one() -> None:
    """At one sampling rate every block counts fully, paired or not."""
    found = closed_after([([0.1], [], 0.05), ([], [0.2], 0.05), ([0.1], [0.3], 0.05)])

    assert [one.weight for one in found] == pytest.approx([1.0, 1.0])


def test_a_missing_score_weighs_as_its_side_does() -> None:
    """Group at p = .5, after .1: .2; others for the first time: 1; both sides at once have a floor of their own."""
    block, first = gaps.miss(Block(), 0.1, has_group=True, has_others=False)
    block, second = gaps.miss(block, 0.5, has_group=True, has_others=False)
    block, others = gaps.miss(block, 0.5, has_group=False, has_others=True)
    block, both = gaps.miss(block, 0.2, has_group=True, has_others=True)

    assert (first, second, others, both) == pytest.approx((1.0, 0.2, 1.0, 1.0))
    assert (block.group_floor, block.others_floor, block.paired_floor) == (0.1, 0.5, 0.2)
    assert (block.group.n, block.others.n) == (0, 0)


@pytest.mark.parametrize("probability", [0.0, 1.5])
def test_an_impossible_probability_is_refused(probability: float) -> None:
    """Probabilities lie in (0, 1]."""
    with pytest.raises(ValueError, match="inclusion probability"):
        gaps.add(Block(), [0.5], [], probability)
    with pytest.raises(ValueError, match="inclusion probability"):
        gaps.miss(Block(), probability, has_group=True, has_others=False)


@pytest.mark.statistical
def test_the_weighted_gap_is_that_of_all_traffic() -> None:
    """Half of each group's traffic scores high and is sampled five times as often; the true gap is .1, not .167.

    40,000 blocks; the standard error of the mean difference is about .003, so five of them are allowed.
    """
    rng = random.Random(3)
    block, total, weights = Block(), 0.0, 0.0
    for _ in range(160_000):
        is_group, often = rng.random() < 0.4, rng.random() < 5 / 6
        score = (0.9 if is_group else 0.7) if often else 0.3
        y, probability = float(rng.random() < score), 0.5 if often else 0.1
        block, closed = gaps.add(block, [y] if is_group else [], [] if is_group else [y], probability)
        if closed is not None:
            total, weights = total + closed.weight * (2 * closed.y - 1), weights + closed.weight

    assert total / weights == pytest.approx(0.1, abs=0.015)
