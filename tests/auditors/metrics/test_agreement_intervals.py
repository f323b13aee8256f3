"""Intervals of agreement: by clusters, at full agreement, and reasons where there is none."""

import math

import numpy as np
import pytest

from auditors.metrics.intervals import Agreement, wilson_interval
from benchmarks.lab.metrics.agreement import (
    NO_ITEMS,
    ONE_VALUE,
    Ratings,
    agreeing_pairs,
    chance_corrected,
    cohen_kappa,
    exact_agreement,
    krippendorff_alpha,
)
from tests.support.presence import present


def width(found: Agreement) -> float:
    assert found.interval is not None
    return found.interval.upper - found.interval.lower


def kappa_of(first: list[int], second: list[int], clusters: list[int] | None = None) -> Agreement:
    return chance_corrected(cohen_kappa(first, second), clusters, rng=np.random.default_rng(0))


def test_items_that_stand_alone_have_wilsons_interval() -> None:
    """Sixty items of two raters, 45 alike: the share is binomial."""
    found = exact_agreement(agreeing_pairs(Ratings.of_table([[1, 1]] * 45 + [[1, 0]] * 15)))

    assert found.value == 0.75
    expected = present(wilson_interval(45, 60))
    assert found.interval is not None
    assert (found.interval.lower, found.interval.upper) == pytest.approx((expected.lower, expected.upper))


def test_what_hangs_together_says_less() -> None:
    """Each item four times over in a cluster: the interval is that of the clusters, about twice as wide as of all."""
    first = [n % 2 for n in range(60)]
    second = [value if n % 4 else 1 - value for n, value in enumerate(first)]
    clusters = [n for n in range(60) for _ in range(4)]
    many = [[one for one in side for _ in range(4)] for side in (first, second)]
    apart, together = kappa_of(many[0], many[1]), kappa_of(many[0], many[1], clusters)
    alone = kappa_of(first, second)

    assert apart.value == together.value == alone.value
    assert (together.n_items, together.n_clusters) == (240, 60)
    assert width(together) == pytest.approx(width(alone), rel=0.1)
    assert width(together) == pytest.approx(2 * width(apart), rel=0.15)


def test_full_agreement_keeps_a_width() -> None:
    """Of 100 items none disagrees; up to 3.7 % might (Wilson), of 50 % by chance: kappa is 0.926 or more."""
    found = kappa_of([0, 1] * 50, [0, 1] * 50)
    least = present(wilson_interval(100, 100))

    assert found.interval is not None
    assert (found.value, found.interval.upper) == (1.0, 1.0)
    assert found.interval.lower == pytest.approx(1 - (1 - least.lower) / 0.5)


def test_few_disagreements_have_the_width_of_exact_agreement() -> None:
    """Two of 100 items disagree: resampling alone would leave them out in one of seven, so Wilson's ends are taken."""
    first = [0, 1] * 50
    found, expected = kappa_of(first, [1, 0, *first[2:]]), wilson_interval(98, 100)

    assert expected is not None
    assert found.interval is not None
    assert found.value == pytest.approx(0.96)
    assert found.interval.lower == pytest.approx(1 - 0.04 / 0.02 * (1 - expected.lower))
    assert found.interval.upper == pytest.approx(1 - 0.04 / 0.02 * (1 - expected.upper))


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        ([], [], NO_ITEMS),
        ([0] * 20, [0] * 20, ONE_VALUE),
        ([0, 1] * 4, [0, 1] * 4, "8 clusters, fewer than 10"),
        ([0] * 30, [1] + [0] * 29, "undefined in"),
    ],
)
def test_without_an_interval_there_is_a_reason(first: list[int], second: list[int], reason: str) -> None:
    """No items, one value, few clusters, or a coefficient that a third of the resamples does not define."""
    found = kappa_of(first, second)

    assert found.interval is None
    assert (found.reason or "").startswith(reason)
    assert (found.value is None) == (reason in (NO_ITEMS, ONE_VALUE))


def test_clusters_are_looked_up_by_the_items_number() -> None:
    """An item without a second rating is left out; the others keep the cluster of their own number."""
    table = [[0, 0] if n % 3 else [0, math.nan] for n in range(60)]
    table[1] = [1, 1]
    found = chance_corrected(
        krippendorff_alpha(Ratings.of_table(table), "nominal"), np.arange(60) // 2, rng=np.random.default_rng(0)
    )

    assert (found.n_items, found.n_clusters) == (40, 30)
