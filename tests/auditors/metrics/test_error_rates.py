"""A judge's error rates by cluster, and a share corrected for them: cases worked by hand, copies, reasons."""

import re

import numpy as np
import pytest

from auditors.metrics.intervals import wilson_interval
from benchmarks.lab.metrics.error_rates import LEAST_LABELS, ErrorRates, error_rates, rogan_gladen
from tests.support.long import least_covered, repeated
from tests.support.presence import present


def rates_of(sensitivity: float, specificity: float, each: int = 100) -> ErrorRates:
    """As many positive labels as negative ones, each of an exchange of its own."""
    hits, passes = round(sensitivity * each), round(specificity * each)
    people = [True] * each + [False] * each
    judge = [True] * hits + [False] * (each - hits) + [False] * passes + [True] * (each - passes)
    return error_rates(people, judge)


class TestErrorRates:
    def test_by_hand(self) -> None:
        """80 of 100 and 90 of 100, with Wilson's intervals where each judgement stands alone."""
        found, expected = rates_of(0.8, 0.9), wilson_interval(80, 100)

        assert (found.sensitivity.value, found.sensitivity.n, found.specificity.value) == (0.8, 100, 0.9)
        assert found.sensitivity.interval is not None
        assert expected is not None
        assert found.sensitivity.interval.lower == pytest.approx(expected.lower)
        assert found.sensitivity.interval.upper == pytest.approx(expected.upper)

    def test_copies_in_a_cluster_say_nothing_new(self) -> None:
        """Each judgement three times over: the interval stays as it was."""
        people, judge = [True] * 40, [True] * 30 + [False] * 10
        once = error_rates(people, judge).sensitivity
        thrice = error_rates(people * 3, judge * 3, list(range(40)) * 3).sensitivity

        assert (thrice.n, thrice.n_clusters) == (120, 40)
        assert present(thrice.interval).lower == pytest.approx(present(once.interval).lower)

    def test_few_clusters_have_a_reason(self) -> None:
        """Twenty judgements of four exchanges have a value and no interval; no negative one has neither."""
        found = error_rates([True] * 20, [True] * 15 + [False] * 5, list("abcd") * 5)

        assert (found.sensitivity.value, found.sensitivity.interval) == (0.75, None)
        assert found.sensitivity.reason == "4 clusters, fewer than 10"
        assert (found.specificity.value, found.specificity.reason) == (None, "no label of this kind")


class TestRoganGladen:
    def test_by_hand(self) -> None:
        """q = .24, se = .8, sp = .9: (.24 - .1) / .7 = .2."""
        found = rogan_gladen(240, 1000, rates_of(0.8, 0.9))

        assert found.value == pytest.approx(0.2)
        assert found.interval is not None
        assert 0.1 < found.interval.lower < 0.2 < found.interval.upper < 0.3

    def test_the_published_formula(self) -> None:
        """Lang and Reiczigel's interval, step by step, where no cluster has two judgements."""
        z, n_all = 1.959963984540054, 1000 + 1.959963984540054**2
        se, sp, q = 81 / 102, 91 / 102, (240 + (n_all - 1000) / 2) / n_all
        share = (q + sp - 1) / (se + sp - 1)
        shift = 2 * z * z * (share * se * (1 - se) - (1 - share) * sp * (1 - sp)) / 102
        variance = q * (1 - q) / n_all + (share**2 * se * (1 - se) + (1 - share) ** 2 * sp * (1 - sp)) / 102
        half = z * variance**0.5 / (se + sp - 1)
        found = rogan_gladen(240, 1000, rates_of(0.8, 0.9))

        assert found.interval is not None
        assert (found.interval.lower, found.interval.upper) == pytest.approx(
            (share + shift - half, share + shift + half)
        )

    def test_a_judge_that_is_lenient_as_a_whole_is_less_certain(self) -> None:
        """Exchanges of which it calls all positive, or nothing, move both rates at once; the interval counts that."""
        people = [True, True, False, False] * 60
        judge = [True] * 48 + [False] * 48 + [True, True, False, False] * 36
        clusters = [n // 4 for n in range(240)]
        together = rogan_gladen(500, 1000, error_rates(people, judge, clusters))
        alone = rogan_gladen(500, 1000, error_rates(people, judge))

        assert together.value == pytest.approx(alone.value)
        assert together.interval is not None
        assert alone.interval is not None
        assert together.interval.upper - together.interval.lower > alone.interval.upper - alone.interval.lower

    @pytest.mark.parametrize(
        ("rates", "reason"),
        [
            (error_rates([True] * 40, [True] * 40), "40 labels, 40 of them positive and 0 negative"),
            (error_rates([True, False] * 5, [True, False] * 5), f"10 labels.*{LEAST_LABELS} or more"),
            (error_rates([True, False] * 50, [True] * 100), "no better than chance"),
            (error_rates([True, False] * 50, [True, False] * 50, [n // 20 for n in range(100)]), "of 5 clusters"),
        ],
    )
    def test_labels_that_cannot_correct_say_why(self, rates: ErrorRates, reason: str) -> None:
        """One kind only, too few, a judge that says the same to all, or few exchanges."""
        found = rogan_gladen(10, 100, rates)

        assert (found.value, found.interval) == (None, None)
        assert re.search(reason, found.reason or "")

    @pytest.mark.statistical
    @repeated(1000, quick=100)
    @pytest.mark.parametrize("share", [0.05, 0.4])
    def test_its_interval_holds_the_share_in_other_traffic(self, share: float, times: int) -> None:
        """Labels half positive, traffic with another share: 95 % of 1,000 intervals hold it, as far as chance lets."""
        rng = np.random.default_rng(47)
        held = 0
        for _ in range(times):
            rates = rates_of(rng.binomial(120, 0.85) / 120, rng.binomial(120, 0.9) / 120, 120)
            positive = int(rng.binomial(2000, share * 0.85 + (1 - share) * 0.1))
            found = rogan_gladen(positive, 2000, rates)
            assert found.interval is not None
            held += found.interval.lower <= share <= found.interval.upper

        assert held >= least_covered(times)
