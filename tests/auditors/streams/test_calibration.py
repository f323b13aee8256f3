"""Corrections by people's labels: hand-worked cases, and that they find the truth through a biased judge."""

import msgspec
import numpy as np
import pytest

from auditors.metrics.intervals import Interval
from auditors.metrics.weighting import WeightedSums, add_weighted, hajek_mean
from auditors.streams import calibration
from auditors.streams.calibration import Pair
from tests.support.presence import present


def sums_of(values: list[float]) -> WeightedSums:
    sums = WeightedSums()
    for value in values:
        sums = add_weighted(sums, value, 1.0)
    return sums


def corrected(scores: list[float], pairs: list[Pair]) -> calibration.Corrected:
    """The correction where the judge's mean is known, so that the labels alone decide."""
    sums = sums_of(scores)
    return calibration.prediction_powered(sums, Interval(hajek_mean(sums), hajek_mean(sums)), pairs)


class TestPredictionPowered:
    def test_a_perfect_judge_is_taken_at_its_word(self) -> None:
        """Labels equal to the scores: nothing to correct, and the interval is far narrower than without the judge."""
        scores = [0.0, 1.0] * 500
        alone = corrected([0.5] * 1000, [Pair(judge=0.5, person=y) for y in scores[:100]])
        found = corrected(scores, [Pair(judge=y, person=y) for y in scores[:100]])

        assert found.value == pytest.approx(0.5)
        assert found.trust == pytest.approx(1.0)
        assert width_of(found) < 0.5 * width_of(alone)

    def test_a_constant_error_is_taken_out(self) -> None:
        """A judge that always says .2 too much."""
        scores = [0.3, 0.7] * 300

        assert corrected(scores, [Pair(judge=y, person=y - 0.2) for y in scores[:60]]).value == pytest.approx(0.3)

    def test_a_judge_that_knows_nothing_is_hardly_used(self) -> None:
        """Scores without relation to the labels: the trust falls, and the interval holds the labels' mean alone."""
        people = [0.0, 0.0, 1.0, 1.0] * 20
        pairs = [Pair(judge=judge, person=person) for judge, person in zip([0.0, 1.0] * 40, people, strict=True)]
        found = corrected([1.0] * 900 + [0.0] * 100, pairs)

        assert present(found.trust) < 0.05
        assert present(found.lower) < 0.5 < present(found.upper) < 0.7

    def test_weights_count(self) -> None:
        """Labels on exchanges that stand for more weigh more."""
        pairs = [Pair(judge=0.5, person=1.0, weight=1.5), Pair(judge=0.5, person=0.0, weight=0.5)] * 20

        assert corrected([0.5] * 99, pairs).value == pytest.approx(0.75)

    def test_exchanges_are_what_is_counted(self) -> None:
        """Four copies of each pair in one exchange say no more than one does."""
        random = np.random.default_rng(1)
        pairs = [
            Pair(judge=float(judge), person=float(person), cluster=str(n))
            for n, (judge, person) in enumerate(random.random((60, 2)).round(1))
        ]
        few, many = corrected([0.5] * 99, pairs), [*pairs, *pairs, *pairs, *pairs]
        found = corrected([0.5] * 99, many)

        assert (found.lower, found.upper) == pytest.approx((few.lower, few.upper))
        assert width_of(corrected([0.5] * 99, [msgspec.structs.replace(one, cluster=None) for one in many])) < width_of(
            found
        )


def width_of(found: calibration.Corrected) -> float:
    return present(found.upper) - present(found.lower)


class TestErrorRates:
    PAIRS = (
        *[Pair(judge=1.0, person=1.0, group="man")] * 8,
        *[Pair(judge=0.0, person=1.0, group="man")] * 2,
        *[Pair(judge=0.0, person=0.0, group="man")] * 9,
        *[Pair(judge=1.0, person=0.0, group="man")] * 1,
        *[Pair(judge=0.0, person=1.0, group="woman")] * 5,
    )

    def test_over_all(self) -> None:
        """Eight of fifteen, and nine of ten; without a negative label there is no specificity."""
        whole, one = calibration.error_rates(self.PAIRS, 0.5), calibration.error_rates(self.PAIRS[-5:], 0.5)

        assert (whole.n_positive, whole.n_negative, whole.specificity) == (15, 10, 0.9)
        assert whole.sensitivity == pytest.approx(8 / 15)
        assert (one.sensitivity, one.specificity, one.specificity_interval) == (0.0, None, None)
        assert present(whole.sensitivity_interval).lower == pytest.approx(0.301, abs=1e-3)
