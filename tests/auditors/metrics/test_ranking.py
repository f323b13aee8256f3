"""Ranks with ties and models that cannot be assessed, ranges of ranks, and normalised rank scores."""

import math
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from auditors.metrics.ranking import Ties, normalised_rank_scores, population_sd_of_shares, rank_ranges, ranks, spearman


def places(
    values: list[float], *, best: Literal["lowest", "highest"] = "lowest", ties: Ties = "lower"
) -> list[float | None]:
    return ranks(values, best=best, ties=ties)


class TestRanks:
    """One row."""

    def test_either_end_may_be_best(self) -> None:
        """ICAT is best high, a gap is best low."""
        assert places([51.77, 88.33, 60.0], best="highest") == [3, 1, 2]
        assert places([0.4, 0.1, 0.2]) == [3, 1, 2]

    def test_ties_share_the_better_place(self) -> None:
        """1, 1, 3 by default, 1.5, 1.5, 3 on request; 0.1 + 0.2 ties with 0.3. NaN has no place and moves no other."""
        assert places([0.3, 0.1 + 0.2, 0.5]) == [1, 1, 3]
        assert places([0.3, 0.1 + 0.2, 0.5], ties="average") == [1.5, 1.5, 3]
        assert places([math.nan, 0.5, 0.2]) == [None, 2, 1]

    @given(st.lists(st.floats(-100, 100), min_size=1, max_size=8))
    def test_average_places_always_sum_the_same(self, values: list[float]) -> None:
        """Average ranks sum to n (n + 1) / 2 whatever the ties; the shared better place is never above them."""
        average, lower = places(values, ties="average"), places(values)

        assert sum(value or 0 for value in average) == pytest.approx(len(values) * (len(values) + 1) / 2)
        assert all((low or 0) <= (mean or 0) for low, mean in zip(lower, average, strict=True))
        assert 1 in lower


class TestRankRanges:
    """Places with tied groups, and the interval of a rank."""

    @staticmethod
    def drawn(values: list[float], error: float, *, shared: float = 0.0, seed: int = 0) -> NDArray[np.float64]:
        """Resamples around values, with noise of each model's own and noise that all share."""
        rng = np.random.default_rng(seed)
        own = rng.normal(0, error, (len(values), 200))
        return np.array(values)[:, None] + own + rng.normal(0, shared, 200)

    def test_models_that_chance_could_swap_share_a_place(self) -> None:
        """Two far ahead of two, no difference within the pairs: 1, 1, 3, 3, each between both of its pair."""
        values = [0.10, 0.11, 0.50, 0.51]
        found = rank_ranges(values, self.drawn(values, 0.03), best="lowest")

        assert [one.place for one in found] == [1, 1, 3, 3]
        assert [(one.lower, one.upper) for one in found] == [(1, 2), (1, 2), (3, 4), (3, 4)]

    def test_noise_that_all_share_cancels(self) -> None:
        """Hard questions are hard for everybody: a small difference on the same questions is seen."""
        values = [0.10, 0.14]

        assert [o.place for o in rank_ranges(values, self.drawn(values, 0.005, shared=0.2), best="lowest")] == [1, 2]
        assert [o.place for o in rank_ranges(values, self.drawn(values, 0.2), best="lowest")] == [1, 1]

    def test_an_undefined_resample_puts_nobody_first(self) -> None:
        """A model far behind is not said to be perhaps the best because a resample left it without a number."""
        values = [0.1, 0.9]
        drawn = self.drawn(values, 0.01)
        drawn[1, :10] = np.nan

        assert [(one.lower, one.upper) for one in rank_ranges(values, drawn, best="lowest")] == [(1, 1), (2, 2)]

    def test_nothing_is_known_of_ranks_without_a_whole_column(self) -> None:
        """Of three models of which one is undefined in each resample, each may have any place."""
        values = [0.1, 0.5, 0.9]
        drawn = self.drawn(values, 0.01)
        for model in range(3):
            drawn[model, model::3] = np.nan

        assert [(one.lower, one.upper) for one in rank_ranges(values, drawn, best="lowest")] == [(1, 3)] * 3


class TestScores:
    """Sums of ranks over aspects."""

    def test_all_sums_equal(self) -> None:
        """Without any difference there is no scale: None, not 0."""
        assert normalised_rank_scores({("age", "a"): 2, ("age", "b"): 2}) == {("age", "a"): None, ("age", "b"): None}
        assert normalised_rank_scores({}) == {}

    def test_extremes_are_over_all_aspects(self) -> None:
        """An aspect with one row cannot reach 1 when another has two."""
        sums = {("age", "a"): 1.0, ("age", "b"): 2.0, ("race", "a"): 4.0, ("race", "b"): 2.0}

        assert normalised_rank_scores(sums) == pytest.approx(
            {("age", "a"): 0, ("age", "b"): 1 / 3, ("race", "a"): 1, ("race", "b"): 1 / 3}
        )

    def test_spread_of_labels(self) -> None:
        """Even labels have none, one label of two has 0.5; scale plays no part; no related reply is undefined."""
        assert population_sd_of_shares([20, 20, 20]) == 0
        assert population_sd_of_shares([30, 0]) == 0.5
        assert population_sd_of_shares([0.3, 0.1]) == pytest.approx(population_sd_of_shares([60, 20]))
        assert math.isnan(population_sd_of_shares([0, 0]))


def test_spearman_is_that_of_mean_ranks() -> None:
    """By hand: 1 - 6 * 4 / (5 * 24); ties share the mean of their ranks; a constant has none; the interval holds it."""
    rng = np.random.default_rng(0)
    value, interval = spearman([1, 2, 3, 4, 5], [20, 10, 40, 30, 50], rng=rng)
    assert value == pytest.approx(0.8)
    assert interval is not None
    assert interval.lower <= value <= interval.upper <= 1.0
    assert spearman([1, 2, 2, 3], [1, 2, 3, 4], rng=rng)[0] == pytest.approx(3 / math.sqrt(10))
    assert math.isnan(spearman([1, 1], [1, 2], rng=rng)[0])
