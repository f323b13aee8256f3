"""Intervals of shares by cluster: known special cases, mirror images, ends, and how they differ from a naive one."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from auditors.metrics.clustered import FEWEST_TELLING, cluster_difference, cluster_wilson, peaked_interval, stratified_t
from auditors.metrics.intervals import Interval, wilson_interval
from tests.support.presence import present

Floats = NDArray[np.float64]


def ends(interval: Interval | None) -> tuple[float, float]:
    assert interval is not None
    return interval.lower, interval.upper


def replies(*counts: float, size: float = 4.0) -> tuple[Floats, Floats]:
    """Successes of each cluster, each with as many trials."""
    return np.array(counts, dtype=np.float64), np.full(len(counts), size)


@pytest.mark.parametrize("size", [1.0, 8.0])
def test_clusters_of_one_mind_are_trials(size: float) -> None:
    """7 of 20 clusters that agree within themselves are Wilson's 7 of 20, whatever their size."""
    parts, wholes = replies(*[size] * 7, *[0.0] * 13, size=size)

    assert ends(cluster_wilson(parts, wholes)) == pytest.approx(ends(wilson_interval(7, 20)))


def test_at_the_ends_the_number_of_clusters_counts() -> None:
    """0 of 20 clusters of 8 replies: Wilson's 0 of 20, not 0 of 160."""
    assert ends(cluster_wilson(*replies(*[0] * 20, size=8))) == pytest.approx(ends(wilson_interval(0, 20)))


def test_the_opposite_share_has_the_mirrored_interval() -> None:
    """What is not counted is counted in the opposite share."""
    parts, wholes = replies(0, 1, 1, 0, 4, 0, 2, 0, 0, 1, 3)

    lower, upper = ends(cluster_wilson(parts, wholes))
    assert ends(cluster_wilson(wholes - parts, wholes)) == pytest.approx((1 - upper, 1 - lower))


def test_known_probabilities_that_agree_leave_no_width() -> None:
    """24 items known to 1e-14: as replies Wilson's 24 trials, as probabilities a point."""
    near_one = np.full(24, 1 - 1e-14)

    lower, upper = ends(cluster_wilson(near_one, np.ones(24), is_exact=True))
    assert upper - lower < 1e-12
    assert ends(cluster_wilson(np.zeros(24), np.ones(24), is_exact=True)) == (0.0, 0.0)
    assert ends(cluster_wilson(np.zeros(24), np.ones(24)))[1] > 0.13


def test_clusters_without_trials_say_nothing() -> None:
    """They change no number; a single cluster that has some gives no interval."""
    parts, wholes = replies(1, 0, 3, 2)
    padded = (np.append(parts, 0.0), np.append(wholes, 0.0))

    assert ends(cluster_wilson(*padded)) == pytest.approx(ends(cluster_wilson(parts, wholes)))
    assert cluster_wilson(np.array([1.0, 0.0]), np.array([2.0, 0.0])) is None
    assert cluster_difference(padded, (np.zeros(5), np.array([1.0, 0, 0, 0, 0]))) is None


def test_a_difference_of_few_telling_clusters_does_not_end_at_zero() -> None:
    """Three namings in one kind of question, none in the other: 0 stays inside, and both ends have room."""
    found = present(cluster_difference(replies(1, 1, 1, *[0] * 37), replies(*[0] * 40)))

    assert found.method == "cluster-newcombe"
    assert found.interval.lower < -0.05 < 0.05 < found.interval.upper


def test_a_difference_of_many_clusters_is_students() -> None:
    """Paired clusters: the mean of their own differences, with Student's quantile."""
    rng = np.random.default_rng(1)
    first, second = rng.binomial(4, 0.5, 60) / 1.0, rng.binomial(4, 0.3, 60) / 1.0
    found = present(cluster_difference((first, np.full(60, 4.0)), (second, np.full(60, 4.0))))
    own = (first - second) / 4

    assert int((own != 0).sum()) >= FEWEST_TELLING
    assert found.method == "cluster-t"
    assert found.standard_error == pytest.approx(own.std(ddof=1) / math.sqrt(60))
    lower, upper = ends(found.interval)
    assert (lower + upper) / 2 == pytest.approx(own.mean())
    assert 1.9 < (upper - lower) / 2 / found.standard_error < 2.1


def test_the_peak_reaches_the_outer_share() -> None:
    """SS = 52 of 100 with an interval that holds 50: ICAT's upper end is LMS's; at 90 it lies far below."""
    outer = replies(*[4] * 20, *[3] * 5)
    near, far = replies(*[2] * 23, 3, 3), replies(*[4] * 15, *[3] * 10)
    upper_of_outer = ends(cluster_wilson(*outer))[1]

    assert ends(peaked_interval(outer, near))[1] == pytest.approx(upper_of_outer)
    lower, upper = ends(peaked_interval(outer, far))
    value = outer[0].sum() / 100 * 2 * (1 - far[0].sum() / 100)
    assert lower < value < upper < 0.5


def test_strata_need_two_that_differ() -> None:
    """Of three strata with two clusters each: one that differs inside tells nothing, two give an interval."""
    sums = np.array([[1.0, 1.0], [0.0, 1.0], [1.0, 1.0], [1.0, 1.0], [0.0, 1.0], [0.0, 1.0]])
    strata = np.array([0, 0, 1, 1, 2, 2])

    def share(rows: Floats) -> Floats:
        return np.asarray(rows[..., 0] / rows[..., 1])

    assert stratified_t(sums, strata, share) is None
    sums[2, 0] = 0.0
    found = present(stratified_t(sums, strata, share))
    assert found.interval.lower < 1 / 3 < found.interval.upper
