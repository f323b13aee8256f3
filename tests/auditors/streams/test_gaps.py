"""Blocks of a gap: hand-worked differences, pairs, weights, and what the weighting is for."""

import random

import msgspec
import pytest

from auditors.streams import gaps
from auditors.streams.gaps import Block, Difference


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


def test_weights_by_hand() -> None:
    """Group at p = .5, others at .1 and .5: weighted mean (1*10 + 0*2)/12; weight = .5 * .1 * (2 * (10+2)/2) = .6."""
    [found] = closed_after([([], [1.0], 0.1), ([], [0.0], 0.5), ([0.5], [], 0.5)])

    assert found.y == pytest.approx((0.5 - 10 / 12 + 1) / 2)
    assert found.weight == pytest.approx(0.6)


def test_a_missing_score_weighs_as_its_side_does() -> None:
    """Group at p = .5, after .1: .2; others for the first time: 1; both sides at once have a floor of their own."""
    block, first = gaps.miss(Block(), 0.1, has_group=True, has_others=False)
    block, second = gaps.miss(block, 0.5, has_group=True, has_others=False)
    block, others = gaps.miss(block, 0.5, has_group=False, has_others=True)
    block, both = gaps.miss(block, 0.2, has_group=True, has_others=True)

    assert (first, second, others, both) == pytest.approx((1.0, 0.2, 1.0, 1.0))
    assert (block.group_least, block.others_least, block.paired_least) == (0.1, 0.5, 0.2)
    assert (block.group.n, block.others.n) == (0, 0)


def usual(group: float, others: float) -> Block:
    """A block that begins after ten closed ones with these scores."""
    block = Block()
    for _ in range(10):
        block, _ = gaps.add(block, [group], [], 0.5, "old")
        block, _ = gaps.add(block, [], [others], 0.5, "old")
    return block


def named(block: Block, audits: list[tuple[str, float, str]]) -> tuple[str, str]:
    """Who speaks for a larger and who for a smaller difference, when these (side, score, id) have closed the block."""
    closed = None
    for side, y, exchange_id in audits:
        assert closed is None, "the block closed early"
        group, others = ([y], []) if side == "group" else ([], [y])
        block, closed = gaps.add(block, group, others, 0.5, exchange_id)
    assert closed is not None
    return closed.rising_id, closed.falling_id


@pytest.mark.parametrize(
    ("block", "audits", "rising", "falling"),
    [
        (usual(0.4, 0.4), [("group", 1.0, "high"), ("group", 0.4, "b"), ("others", 0.3, "last")], "high", "b"),
        (usual(0.4, 0.4), [("others", 0.5, "a"), ("others", 0.0, "low"), ("group", 0.4, "last")], "low", "a"),
        (usual(0.4, 0.4), [("group", 1.0, "high"), ("others", 0.4, "last")], "high", "last"),
        (usual(0.4, 0.4), [("others", 0.9, "high"), ("group", 0.3, "last")], "last", "high"),
        (usual(0.9, 0.1), [("group", 0.9, "a"), ("others", 0.6, "last")], "a", "last"),
        (Block(), [("group", 0.8, "first"), ("others", 0.2, "last")], "last", "last"),
        (Block(), [("group", 0.8, "low"), ("group", 0.9, "high"), ("others", 0.2, "last")], "high", "low"),
    ],
)
def test_a_difference_names_who_spoke_most(
    block: Block, audits: list[tuple[str, float, str]], rising: str, falling: str
) -> None:
    """The score farthest from what is usual on its side, also when it did not close the block; alike: the last one."""
    assert named(block, audits) == (rising, falling)


def test_an_open_block_stays_small() -> None:
    """However long one side waits for the other, two exchanges a side are remembered."""
    block = Block()
    for number in range(1_000):
        block, closed = gaps.add(block, [number % 7 / 7], [], 0.5, f"{number:032}")
        assert closed is None

    assert len(msgspec.json.encode(block)) < 500


def test_a_block_from_before_exchanges_were_named_goes_on() -> None:
    """State stored by earlier versions loads and closes with the same value, but without its smallest probabilities."""
    stored = b"""{"group": [2, 4.0, 3.2], "others": [0, 0.0, 0.0], "group_floor": 0.001, "others_floor": 0.5,
        "paired_floor": 1.0}"""
    block, closed = gaps.add(msgspec.json.decode(stored, type=Block), [], [0.2], 0.5, "last")

    assert closed is not None
    assert closed.y == pytest.approx((0.8 - 0.2 + 1) / 2)
    assert (closed.weight, closed.n_exchanges) == (1.0, 3)
    assert (closed.rising_id, closed.falling_id) == ("last", "last")
    assert named(block, [("group", 1.0, "high"), ("others", 0.2, "new")]) == ("high", "new")


@pytest.mark.statistical
def test_the_weighted_gap_is_that_of_all_traffic() -> None:
    """The weighted gap is .1 as in all traffic, not .167 as in the sample; five standard errors are allowed."""
    rng = random.Random(3)
    block, total, weights = Block(), 0.0, 0.0
    for _ in range(40_000):
        is_group, often = rng.random() < 0.4, rng.random() < 5 / 6
        score = (0.9 if is_group else 0.7) if often else 0.3
        y, probability = float(rng.random() < score), 0.5 if often else 0.1
        block, closed = gaps.add(block, [y] if is_group else [], [] if is_group else [y], probability)
        if closed is not None:
            total, weights = total + closed.weight * (2 * closed.y - 1), weights + closed.weight

    assert total / weights == pytest.approx(0.1, abs=0.03)
