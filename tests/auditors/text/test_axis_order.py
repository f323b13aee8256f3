"""Which axis of an exchange is tried first, and which reason is told where none can be swapped."""

from collections import Counter

from auditors.text.swaps.lexicon import SLOTS, axis_order, plainest
from auditors.text.swaps.outcome import NotSwapped


def test_every_axis_is_tried_and_each_comes_first_alike() -> None:
    """Of 2,000 ids each axis has its share of first places, within five standard errors."""
    orders = [axis_order(f"exchange {number}") for number in range(2000)]
    firsts = Counter(order.axes[0] for order in orders)

    assert all(sorted(order.axes) == sorted(SLOTS) for order in orders)
    expected = len(orders) / len(SLOTS)
    assert all(abs(firsts[axis] - expected) < 5 * expected**0.5 for axis in SLOTS)


def test_an_exchange_keeps_its_order() -> None:
    """A repeated audit asks the same question; another exchange may get another one."""
    assert axis_order("a") == axis_order("a")
    assert len({axis_order(str(number)).choice for number in range(50)}) > 10


def test_the_reason_told_is_about_a_group_that_is_named() -> None:
    """What is said of an axis that nobody named says least."""
    nobody = NotSwapped(axis="age", reason="no identity term")
    unclear = NotSwapped(axis="race", reason="several groups")
    named = NotSwapped(axis="gender", reason="idiom", group="female")

    assert plainest([nobody, unclear, named]) is named
    assert plainest([nobody, unclear]) is unclear
    assert plainest([nobody]) is nobody
