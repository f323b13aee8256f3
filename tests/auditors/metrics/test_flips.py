"""Differences of values and fields, and their excess: worked values, and no expectation but 0 for two sides alike."""

import itertools
from statistics import fmean

import pytest

from auditors.metrics.answers import Fields, Value, excess, fields_difference, value_difference


@pytest.mark.parametrize(
    ("first", "second", "difference"),
    [
        ("a", "a", 0.0), ("a", "b", 1.0), ("5", 5, 1.0),
        (90, 100, 0.1), (100, 90.0, 0.1), (1, 1.0, 0.0), (0, 0.0, 0.0), (0, -0.0, 0.0), (0, 7, 1.0), (-1, 1, 1.0),
        (10**299, 10**299 - 1, 0.0), (1e308, -1e308, 1.0), (5e-324, 0, 1.0),
        (True, True, 0.0), (True, False, 1.0), (True, 1, 1.0), (False, 0, 1.0), (None, None, 0.0), (None, 0, 1.0),
        ((), (), 0.0), ((), frozenset(), 1.0), (frozenset(), frozenset(), 0.0), ((), None, 1.0),
    ],
)  # fmt: skip
def test_values(first: Value, second: Value, difference: float) -> None:
    """Numbers by their relative difference, everything else by being the same; either way round."""
    assert value_difference(first, second) == pytest.approx(difference)
    assert value_difference(second, first) == value_difference(first, second)


def test_fields() -> None:
    """The mean over all fields of either answer; a missing one counts as changed."""
    one: Fields = {("a",): 1, ("b", 0): "x", ("b", 1): "y", ("c",): True}
    assert fields_difference(one, one) == 0.0
    assert fields_difference(one, {}) == 1.0
    assert fields_difference({}, {}) == 0.0
    assert fields_difference(one, {("a",): 2, ("b", 0): "x", ("d",): None}) == pytest.approx((0.5 + 0 + 1 + 1 + 1) / 5)


class TestExcess:
    def test_worked_values(self) -> None:
        """Across less within; a single value may be negative."""
        assert excess([1, 1, 1, 1], [0, 0]) == 1.0
        assert excess([0.5, 0.5, 0.5, 0.5], [1, 0]) == 0.0
        assert excess([0, 1, 1, 0], [1, 1]) == -0.5

    @pytest.mark.parametrize("only_alike", [False, True])
    def test_two_sides_alike_have_none(self, only_alike: bool) -> None:
        """The mean is exactly 0 over all draws of four from one distribution, given that all four name one tool."""
        drawn: list[tuple[str, Fields]] = [
            ("a", {("x",): 1, ("y",): "p"}),
            ("a", {("x",): 2}),
            ("a", {("x",): 2, ("y",): "q", ("z",): ()}),
            ("b", {("x",): 5}),
            ("", {}),
        ]
        total = []
        for four in itertools.product(drawn, repeat=4):
            if not only_alike or len({name for name, _ in four}) == 1:
                a, b, c, d = (fields for _, fields in four)
                across = [fields_difference(one, other) for one in (a, b) for other in (c, d)]
                total.append(excess(across, [fields_difference(a, b), fields_difference(c, d)]))
        assert fmean(total) == pytest.approx(0, abs=1e-12)
