"""Coefficients of agreement: cases worked by hand, published tables, ends, and what must not matter."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.lab.metrics.agreement import (
    MOST_VALUES,
    Level,
    Ratings,
    agreeing_pairs,
    cohen_kappa,
    counts_of,
    fleiss_kappa,
    krippendorff_alpha,
    stratified,
)

LEVELS: tuple[Level, ...] = ("nominal", "ordinal", "interval")
NONE = math.nan

FOUR_OBSERVERS = np.array(
    [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, NONE, NONE, NONE],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, NONE, 3],
        [NONE, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, NONE],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, NONE],
    ]
).T
"""Twelve units, four observers, missing ratings: Krippendorff 2011, section C."""

tables = st.lists(
    st.lists(st.sampled_from([-1.0, 0.0, 1.0, 2.0, NONE]), min_size=3, max_size=3), min_size=2, max_size=12
).map(np.array)


def alpha(table: object, level: Level) -> float:
    return krippendorff_alpha(Ratings.of_table(np.asarray(table, dtype=np.float64)), level).value


def same(one: float, other: float) -> bool:
    return (math.isnan(one) and math.isnan(other)) or one == pytest.approx(other, abs=1e-9)


class TestExactAgreement:
    def test_pairs_within_items(self) -> None:
        """Three raters (0, 0, 1): one pair of three; two (2, 2): one of one; a single rating has none: 2 of 4."""
        found = agreeing_pairs(Ratings.of_table([[0.0, 0.0, 1.0], [2.0, 2.0, NONE], [1.0, NONE, NONE]]))

        assert (found.agreeing.tolist(), found.pairs.tolist(), found.items.tolist()) == ([1, 1], [3, 1], [0, 1])
        assert found.share == 0.5


class TestStratified:
    @pytest.mark.parametrize("n_raters", [2, 3])
    def test_raters_at_random_within_their_options_have_no_agreement(self, n_raters: int) -> None:
        """Raters who choose among 2, 3 and 4 other names at random have kappa and alpha near 0; pooled blindly, 0.2."""
        rng = np.random.default_rng(1)
        strata = np.repeat(["gender", "religion", "race"], 600)
        low, n_options = np.repeat([0, 2, 5], 600), np.repeat([2, 3, 4], 600)
        table = low[:, None] + rng.integers(0, n_options[:, None], (1_800, n_raters)).astype(np.float64)
        ratings = Ratings.of_table(table)

        fleiss = stratified(strata.tolist(), lambda mask: fleiss_kappa(*counts_of(ratings.of_items(mask))))
        nominal = stratified(strata.tolist(), lambda mask: krippendorff_alpha(ratings.of_items(mask), "nominal"))

        assert abs(fleiss.value) < 0.05
        assert abs(nominal.value) < 0.05
        assert fleiss_kappa(*counts_of(ratings)).value > 0.2

    def test_worked_example(self) -> None:
        """Disagreement 0.5 of chance 0.5 in one stratum, 0 of 0.5 in another as large: 1 - 0.5 / 1 = 0.5."""
        first, second = np.array([0.0, 0.0, 1.0, 1.0, 2.0, 2.0, 3.0, 3.0]), np.array([0.0, 1.0, 0.0, 1.0, 2, 2, 3, 3])

        pooled = stratified(
            ["a"] * 4 + ["b"] * 4, lambda mask: cohen_kappa(np.where(mask, first, NONE), np.where(mask, second, NONE))
        )

        assert pooled.value == pytest.approx(0.5)
        assert pooled.pairs.items.tolist() == list(range(8))
        assert float(pooled.of(pooled.sums[:4].sum(axis=0))) == pytest.approx(0.0)

    def test_one_stratum_is_the_coefficient_itself(self) -> None:
        """A single stratum changes nothing, and no items are undefined."""
        ratings = Ratings.of_table(FOUR_OBSERVERS)

        assert stratified(["x"] * 12, lambda mask: krippendorff_alpha(ratings.of_items(mask), "nominal")).value == (
            krippendorff_alpha(ratings, "nominal").value
        )
        assert math.isnan(stratified([], lambda mask: cohen_kappa([], [])).value)


class TestCohenKappa:
    def test_worked_example(self) -> None:
        """20 + 15 of 50 agree, so p_o = 0.7; p_e = (25*30 + 25*20) / 2500 = 0.5; kappa = 0.2 / 0.5 = 0.4."""
        found = cohen_kappa([1] * 25 + [0] * 25, [1] * 20 + [0] * 5 + [1] * 10 + [0] * 15)

        assert found.value == pytest.approx(0.4)
        assert found.differing == pytest.approx(1 - 0.55**2 - 0.45**2)

    def test_ends(self) -> None:
        """Perfect agreement is 1, a rater with one answer for all is 0, the opposite of two halves is -1."""
        assert cohen_kappa([-1, 0, 1, 2], [-1, 0, 1, 2]).value == 1.0
        assert cohen_kappa([0, 2, 0, 2], [0, 0, 0, 0]).value == 0.0
        assert cohen_kappa([0, 2], [2, 0]).value == -1.0

    def test_an_item_that_one_has_not_rated_is_left_out(self) -> None:
        """The first and third are compared; they agree."""
        found = cohen_kappa([0, 1, 2], [0, NONE, 2])

        assert (found.value, found.pairs.items.tolist()) == (1.0, [0, 2])

    def test_undefined_and_refused(self) -> None:
        """Nothing rated, or one label throughout, has no kappa; unequal lengths raise."""
        assert math.isnan(cohen_kappa([], []).value)
        assert math.isnan(cohen_kappa([0, 0], [0, 0]).value)
        with pytest.raises(ValueError, match="1 and 2 ratings"):
            cohen_kappa([0], [0, 1])


class TestFleissKappa:
    def test_published_example(self) -> None:
        """Fleiss' table in the form most often reprinted: ten items, fourteen raters, kappa 0.210."""
        table = [
            [0, 0, 0, 0, 14],
            [0, 2, 6, 4, 2],
            [0, 0, 3, 5, 6],
            [0, 3, 9, 2, 0],
            [2, 2, 8, 1, 1],
            [7, 7, 0, 0, 0],
            [3, 2, 6, 3, 0],
            [2, 5, 3, 2, 2],
            [6, 5, 2, 1, 0],
            [0, 2, 2, 3, 7],
        ]

        assert fleiss_kappa(table).value == pytest.approx(0.210, abs=0.0005)

    @pytest.mark.parametrize("table", [[[3, 0], [3, 0]], [[1, 0], [0, 1]], np.empty((0, 2))])
    def test_undefined(self, table: list[list[int]]) -> None:
        """One category only, one rater, or no items have no kappa."""
        assert math.isnan(fleiss_kappa(table).value)


class TestKrippendorffAlpha:
    @pytest.mark.parametrize(("level", "published"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)])
    def test_published_example(self, level: Level, published: float) -> None:
        """Krippendorff's four observers with missing ratings, as printed to three digits."""
        assert alpha(FOUR_OBSERVERS, level) == pytest.approx(published, abs=0.0005)

    @pytest.mark.parametrize("level", LEVELS)
    def test_ends(self, level: Level) -> None:
        """Full agreement is 1; one value only, or no unit with two ratings, is undefined."""
        assert alpha([[0, 0, NONE], [2, 2, 2]], level) == 1.0
        assert math.isnan(alpha([[0.1, 0.1], [0.1, 0.1]], level))
        assert math.isnan(alpha([[0, NONE], [NONE, 1]], level))

    @pytest.mark.parametrize("level", LEVELS)
    @settings(max_examples=50)
    @given(table=tables, order=st.permutations(range(3)))
    def test_who_rated_does_not_matter(self, level: Level, table: np.ndarray, order: list[int]) -> None:
        """Raters in another order, and items too, give the same coefficient."""
        assert same(alpha(table, level), alpha(table[::-1][:, order], level))

    @settings(max_examples=50)
    @given(tables, st.floats(0.5, 10), st.floats(-5, 5))
    def test_what_the_level_ignores(self, table: np.ndarray, factor: float, shift: float) -> None:
        """Interval: another unit and origin. Ordinal: any map that keeps the order. Nominal: any renaming."""
        assert same(alpha(table, "interval"), alpha(factor * table + shift, "interval"))
        assert same(alpha(table, "ordinal"), alpha(np.exp(table), "ordinal"))
        assert same(alpha(table, "nominal"), alpha(np.where(table == 1, -7, table), "nominal"))

    def test_many_values_are_no_categories(self) -> None:
        """Thirty different numbers have a coefficient at level interval alone."""
        table = np.arange(30.0).reshape(-1, 1) + np.array([0.0, 0.5])

        assert alpha(table, "interval") > 0.9
        for level in ("nominal", "ordinal"):
            with pytest.raises(ValueError, match=f"{MOST_VALUES} at most"):
                alpha(table, level)
