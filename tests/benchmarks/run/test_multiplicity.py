"""Adjusted p values: what is compared with what, what a star takes, and how often a page of chance has one."""

from typing import Any

import numpy as np
import pytest
from scipy.stats import t as student

from auditors.types import Estimate
from benchmarks.run.estimation import mark, with_stars
from benchmarks.suites.common.estimation import Cell, estimate
from benchmarks.suites.protocol import Scale

SCALES = {
    "gap": Scale(low=-1, high=1, ideal=0, reading="0 = none"),
    "spread": Scale(low=0, high=1, ideal=0, reading="0 = none"),
    "share": Scale(low=0, high=1, reading="no neutral value"),
}


def cell(metric: str, values: list[float], **keys: Any) -> Cell:
    """The mean of one value a cluster."""
    return Cell(
        metric=metric,
        clusters=tuple(f"c{n:03}" for n in range(len(values))),
        sums=np.column_stack([values, np.ones(len(values))]).reshape(-1, 2),
        statistic=lambda sums: np.where(sums[..., 1] > 0, sums[..., 0] / np.maximum(sums[..., 1], 1), np.nan),
        unit="item",
        n=len(values),
        **keys,
    )


def marked(cells: list[Cell], seed: int = 0) -> list[Estimate]:
    return with_stars(cells, [estimate(one, seed=seed) for one in cells], SCALES)[0]


def mixed(share_positive: float, n: int = 60) -> list[float]:
    """Values of +0.3 and -0.3."""
    n_positive = round(share_positive * n)
    return [0.3] * n_positive + [-0.3] * (n - n_positive)


def test_everything_with_a_neutral_value_is_compared_together() -> None:
    """The total, axes, groups and parts are one page; what has no neutral value inside its scale is not on it."""
    cells = [
        cell("gap", mixed(0.9)),
        *(cell("gap", mixed(0.9), axis=axis) for axis in ("race", "gender")),
        *(cell("gap", mixed(0.9), axis="race", group=name) for name in "abc"),
        *(cell("gap", mixed(0.9), axis="race", subset=name) for name in "xy"),
        cell("spread", mixed(0.9)),
        cell("share", mixed(0.9)),
        cell("unknown", mixed(0.9)),
    ]

    assert [one.extra.get("n_comparisons") for one in marked(cells)] == [8] * 8 + [None] * 3


def test_each_family_has_an_equal_share() -> None:
    """A headline beside 100 groups of the same strength pays for two families, a group for 200 numbers."""
    cells = [cell("gap", mixed(0.7)), *(cell("gap", mixed(0.7), axis="race", group=str(n)) for n in range(100))]
    found = marked(cells)
    p = found[0].extra["p_value"]

    assert found[0].extra["p_adjusted"] == pytest.approx(2 * p)
    assert found[1].extra["p_adjusted"] == pytest.approx(100 * p)
    assert (mark(found[0]), mark(found[1])) == ("*", "")


def test_parts_of_an_axis_are_one_family() -> None:
    """Emotions are, and the words of them are another."""
    emotions = [cell("gap", mixed(0.7), axis="gender", group="male", subset=name) for name in ("joy", "fear", "sad")]
    words = [cell("gap", mixed(0.7), axis="gender", group="male", subset=f"joy/{name}") for name in ("glad", "happy")]
    found = marked([*emotions, *words])

    assert found[3].extra["p_adjusted"] == pytest.approx(found[3].extra["p_value"] * 4)


def test_undefined_numbers_and_those_without_interval_are_not_compared() -> None:
    """Neither counted nor adjusted."""
    cells = [cell("gap", mixed(0.7), axis="a"), cell("gap", [], axis="b"), cell("gap", mixed(0.7, 8), axis="c")]

    assert [one.extra.get("n_comparisons") for one in marked(cells)] == [1, None, None]


def test_stars_expected_by_chance() -> None:
    """0.05 where every number could have a star, less where the clusters are too few for one."""
    many = [cell("gap", mixed(0.5), axis="race", group=str(n)) for n in range(100)]
    few = [cell("gap", mixed(0.5, 10), axis="race", group=str(n)) for n in range(100)]

    def expected(cells: list[Cell]) -> float | None:
        return with_stars(cells, [estimate(one, seed=0) for one in cells], SCALES)[1]

    assert expected(many) == pytest.approx(0.05)
    assert expected(few) == 0


def test_a_standard_error_that_is_small_by_luck_makes_no_star() -> None:
    """13 of 14 pairs the same way: Student's p is 1e-8, that of 15 sign patterns in 8,192 is 0.002."""
    found = marked([cell("gap", [0.3] * 13 + [-0.3])])[0]

    assert found.extra["p_value"] == pytest.approx(30 / 2**14)


def test_sides_in_different_clusters_have_students_p() -> None:
    """A difference of men's and women's means, each person a cluster: no person has a difference."""
    rng = np.random.default_rng(0)
    sides = np.repeat(np.eye(2), 20, axis=0)
    sums = np.hstack([sides * rng.normal(0.5, 0.1, (40, 1)), sides])
    one = Cell(
        metric="gap",
        clusters=tuple(f"p{n:02}" for n in range(40)),
        sums=sums,
        statistic=lambda s: (
            np.divide(s[..., 0], s[..., 2], where=s[..., 2] > 0, out=np.full(s.shape[:-1], np.nan))
            - np.divide(s[..., 1], s[..., 3], where=s[..., 3] > 0, out=np.full(s.shape[:-1], np.nan))
        ),
        unit="person",
        n=40,
    )
    found = marked([one])[0]

    assert found.value is not None
    distance = abs(found.value) / found.extra["standard_error"]
    assert found.extra["p_value"] == pytest.approx(2 * student.sf(distance, 19))
