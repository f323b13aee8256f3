"""Corrections by people's labels: hand-worked cases, and that they find the truth through a biased judge."""

import msgspec
import numpy as np
import pytest

from auditors.metrics.weighting import WeightedSums, add_weighted
from auditors.streams import calibration
from auditors.streams.calibration import Pair
from tests.support.long import least_covered, repeated
from tests.support.presence import present


def sums_of(values: list[float]) -> WeightedSums:
    sums = WeightedSums()
    for value in values:
        sums = add_weighted(sums, value, 1.0)
    return sums


class TestPredictionPowered:
    def test_a_perfect_judge_is_taken_at_its_word(self) -> None:
        """Labels equal to the scores: nothing to correct, and the interval is about that of all judged ones."""
        scores = [0.0, 1.0] * 500
        pairs = [Pair(judge=y, person=y) for y in scores[:100]]

        found = calibration.prediction_powered(sums_of(scores), pairs)

        assert found.value == pytest.approx(0.5)
        assert found.trust == pytest.approx(1 / 1.1, abs=0.02)

    def test_a_constant_error_is_taken_out(self) -> None:
        """A judge that always says .2 too much."""
        scores = [0.3, 0.7] * 300
        pairs = [Pair(judge=y, person=y - 0.2) for y in scores[:60]]

        found = calibration.prediction_powered(sums_of(scores), pairs)

        assert found.value == pytest.approx(0.3)

    def test_a_judge_that_knows_nothing_is_not_used(self) -> None:
        """Scores without relation to the labels: the estimate is that of the labels."""
        people = [0.0, 0.0, 1.0, 1.0] * 20
        pairs = [Pair(judge=judge, person=person) for judge, person in zip([0.0, 1.0] * 40, people, strict=True)]

        found = calibration.prediction_powered(sums_of([1.0] * 900 + [0.0] * 100), pairs)

        assert found.trust == pytest.approx(0.0)
        assert found.value == pytest.approx(0.5)

    def test_weights_count(self) -> None:
        """Labels on exchanges that stand for more weigh more."""
        pairs = [Pair(judge=0.5, person=1.0, weight=3.0), Pair(judge=0.5, person=0.0, weight=1.0)] * 20

        assert calibration.prediction_powered(sums_of([0.5] * 99), pairs).value == pytest.approx(0.75)

    def test_exchanges_are_what_is_counted(self) -> None:
        """Four copies of each pair in one exchange say no more than one; nine exchanges correct nothing."""
        random = np.random.default_rng(1)
        pairs = [
            Pair(judge=float(judge), person=float(person), cluster=str(n))
            for n, (judge, person) in enumerate(random.random((60, 2)).round(1))
        ]
        few, many = calibration.prediction_powered(sums_of([0.5] * 99), pairs), [*pairs, *pairs, *pairs, *pairs]
        found = calibration.prediction_powered(sums_of([0.5] * 99), many)
        apart = [msgspec.structs.replace(one, cluster=None) for one in many]

        assert (found.lower, found.upper) == pytest.approx((few.lower, few.upper))
        assert (calibration.prediction_powered(sums_of([0.5] * 99), apart).upper or 1.0) < (found.upper or 0.0)
        none = calibration.prediction_powered(sums_of([0.5] * 99), [Pair(judge=0.5, person=0.5, cluster="a")] * 40)
        assert (none.value, none.reason) == (None, "40 labels, of 9 exchanges at most: 10 or more are needed")

    @pytest.mark.statistical
    @repeated(1000, quick=60)
    def test_its_interval_holds_the_mean_of_people(self, times: int) -> None:
        """A one-sided judge gives 1,000 intervals of half the width, of which at least 92 % hold people's mean."""
        rng = np.random.default_rng(43)
        held, widths = 0, []
        for _ in range(times):
            person = rng.random(2000) < 0.3
            judge = np.clip(person * 0.7 + 0.2 + rng.normal(0, 0.1, 2000), 0, 1)
            pairs = [Pair(judge=float(judge[i]), person=float(person[i])) for i in range(100)]
            found = calibration.prediction_powered(
                WeightedSums(n=2000, w=2000, ww=2000, wy=float(judge.sum()), wyy=float((judge * judge).sum())), pairs
            )
            assert found.lower is not None
            assert found.upper is not None
            held += found.lower <= 0.3 <= found.upper
            widths.append(found.upper - found.lower)

        assert held >= min(least_covered(times), 0.92 * times)
        assert np.mean(widths) < 0.6 * 2 * 1.96 * np.sqrt(0.21 / 100)


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
