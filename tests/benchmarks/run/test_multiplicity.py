"""Adjusted p values: who is compared with whom, and how often a family of nothing but chance has a find."""

import math

import msgspec
import numpy as np
import pytest
from scipy.stats import binom

from auditors.types import Estimate
from benchmarks.run.multiplicity import with_adjusted_p_values
from benchmarks.suites.common.estimation import Cell, estimate
from benchmarks.suites.protocol import Scale
from tests.support.long import repeated

SCALES = {
    "gap": Scale(low=-1, high=1, ideal=0, reading="0 = none"),
    "spread": Scale(low=0, high=1, ideal=0, reading="0 = none"),
    "share": Scale(low=0, high=1, reading="no neutral value"),
}


def number(
    metric: str, value: float | None, *, axis: str | None = None, group: str | None = None, subset: str | None = None
) -> Estimate:
    extra = {"standard_error": 0.1, "n_clusters": 50}
    found = Estimate(metric=metric, axis=axis, group=group, subset=subset, value=value, n=50, extra=extra)
    return msgspec.structs.replace(found, lower=-1.0, upper=1.0, method="cluster-bootstrap")


def adjusted(estimates: list[Estimate]) -> list[float | None]:
    return [one.extra.get("adjusted_p_value") for one in with_adjusted_p_values(estimates, SCALES)]


def test_numbers_seen_together_are_one_family() -> None:
    """Groups within an axis, parts within an axis, axes; the total stands alone."""
    groups = [number("gap", 0.3, axis="race", group=name) for name in ("a", "b", "c")]
    others = [number("gap", 0.3, axis="gender", group=name) for name in ("d", "e")]
    axes = [number("gap", 0.3, axis=axis) for axis in ("race", "gender")]
    parts = [number("gap", 0.3, axis="race", subset=name) for name in ("x", "y", "z", "w")]
    found = with_adjusted_p_values([number("gap", 0.3), *groups, *others, *axes, *parts], SCALES)

    assert [one.extra.get("n_comparisons") for one in found] == [None, 3, 3, 3, 2, 2, 2, 2, 4, 4, 4, 4]


def test_a_single_pair_of_groups_is_compared_over_its_parts() -> None:
    """Men against women on four emotions are four comparisons; words within an emotion are a family of their own."""
    emotions = [
        number("gap", 0.3, axis="gender", group="male", subset=name) for name in ("joy", "fear", "sad", "anger")
    ]
    words = [number("gap", 0.3, axis="gender", group="male", subset=f"joy/{name}") for name in ("glad", "happy")]
    found = with_adjusted_p_values([*emotions, *words], SCALES)

    assert [one.extra["n_comparisons"] for one in found] == [4, 4, 4, 4, 2, 2]


def test_benjamini_and_hochberg() -> None:
    """The smallest of five p values is multiplied by five, equal ones share their rank; order is kept."""
    strong = number("gap", 0.5, axis="race", group="strong")
    weak = [number("gap", 0.05, axis="race", group=f"weak {n}") for n in range(4)]
    found = with_adjusted_p_values([*weak[:2], strong, *weak[2:]], SCALES)
    p, q = found[2].extra["p_value"], found[2].extra["adjusted_p_value"]

    assert q == pytest.approx(5 * p)
    assert {one.extra["adjusted_p_value"] for one in found if one.group != "strong"} == {found[0].extra["p_value"]}


@pytest.mark.parametrize("metric", ["spread", "share", "unknown"])
def test_no_neutral_value_inside_the_scale_no_test(metric: str) -> None:
    """A spread is above 0 by chance alone, a share has no neutral value: no p value is made up."""
    assert adjusted([number(metric, 0.5, axis="race", group=name) for name in "ab"]) == [None, None]


def test_undefined_numbers_are_not_compared() -> None:
    """Neither counted nor adjusted."""
    found = with_adjusted_p_values(
        [number("gap", value, axis="race", group=str(value)) for value in (0.3, None, 0.1)], SCALES
    )

    assert [one.extra.get("n_comparisons") for one in found] == [2, None, 2]


@pytest.mark.statistical
@repeated(150, quick=40)
def test_a_family_of_chance_has_a_find_as_seldom_as_promised(times: int) -> None:
    """Twenty groups without a difference, many times: runs with a find below 0.05 are as many as 5 % make likely."""
    rng, finds = np.random.default_rng(0), 0
    clusters = tuple(map(str, range(60)))
    for seed in range(times):
        numbers = []
        for group in range(20):
            sums = np.column_stack([rng.normal(0, 1, 60), np.ones(60)])
            cell = Cell(
                metric="gap",
                axis="race",
                group=str(group),
                clusters=clusters,
                sums=sums,
                statistic=lambda s: s[..., 0] / s[..., 1],
                unit="item",
                n=60,
            )
            numbers.append(estimate(cell, seed=seed))
        finds += min(value for value in adjusted(numbers) if value is not None) < 0.05

    low, high = binom.interval(0.99, times, 0.05)
    assert low <= finds <= high


def test_p_value_is_students() -> None:
    """Three standard errors from neutral with 49 degrees of freedom: 0.0042."""
    found = with_adjusted_p_values([number("gap", 0.3, axis=axis) for axis in ("a", "b")], SCALES)

    assert math.isclose(found[0].extra["p_value"], 0.004236, rel_tol=1e-3)
