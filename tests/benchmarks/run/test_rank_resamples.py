"""Resamples of the number by which models are ranked: paired between models, and rank intervals that cover."""

import numpy as np
import pytest
from msgspec.structs import replace
from scipy.stats import binom

from auditors.metrics.ranking import rank_ranges
from benchmarks.run.estimation import N_RESAMPLES, RankResamples, rank_resamples
from benchmarks.suites.common.estimation import Cell
from benchmarks.suites.common.rank_statistics import RankRule, mean_size, values_of
from tests.support.long import repeated

N_QUESTIONS, N_GROUPS = 120, 6
RULE = RankRule(
    "gap",
    lambda found: mean_size(values_of(found, "gap").values()),
    "lowest",
    "mean size",
    "unread",
    raised_by_chance="zero",
)


def cells(values: np.ndarray) -> list[Cell]:
    """A gap for each group from the values of its questions, (n_questions, n_groups)."""
    return [
        Cell(
            metric="gap",
            axis="race",
            group=str(group),
            clusters=tuple(f"q{question:03}" for question in range(len(values))),
            sums=np.column_stack([values[:, group], np.ones(len(values))]),
            statistic=lambda sums: sums[..., 0] / sums[..., 1],
            unit="question",
            n=len(values),
        )
        for group in range(values.shape[1])
    ]


def resampled(values: np.ndarray) -> RankResamples:
    (found,) = rank_resamples(RULE, cells(values))
    return found


def test_models_are_resampled_together() -> None:
    """A question weighs the same for every model: what they share cancels to the last digit kept."""
    rng = np.random.default_rng(0)
    shared = rng.normal(5, 1, (N_QUESTIONS, 1))
    one, other = resampled(shared), resampled(shared + 1.0)

    assert len(one.values) == N_RESAMPLES
    assert np.ptp(np.array(other.values, dtype=float) - np.array(one.values, dtype=float)) < 1e-5
    assert np.ptp(np.array(one.values, dtype=float)) > 0.1


def test_what_chance_alone_makes() -> None:
    """The mean over unbiased draws equals the named chance; a preference shared by all questions changes nothing."""
    rng = np.random.default_rng(4)
    floors, values = [], []
    for _ in range(40):
        drawn = rng.normal(0, 1, (N_QUESTIONS, N_GROUPS))
        floors.append(resampled(drawn).by_chance or 0.0)
        values.append(float(np.abs(drawn.mean(axis=0)).mean()))
        assert resampled(drawn + 7.0).by_chance == pytest.approx(floors[-1], abs=1e-5)

    assert np.mean(floors) == pytest.approx(np.mean(values), rel=0.08)
    assert np.mean(floors) == pytest.approx(np.sqrt(2 / np.pi / N_QUESTIONS), rel=0.05)


def test_spreads_are_centred_and_other_numbers_have_no_floor() -> None:
    """Shares that are unequal but for chance have the floor of equal ones; a number that chance does not raise none."""
    values = np.random.default_rng(1).normal(0, 1, (N_QUESTIONS, N_GROUPS)) + np.arange(N_GROUPS)
    spread = replace(
        RULE, statistic=lambda found: float(np.std(list(values_of(found, "gap").values()))), raised_by_chance="alike"
    )
    (found,) = rank_resamples(spread, cells(values))
    (without,) = rank_resamples(replace(RULE, raised_by_chance=None), cells(values))

    assert found.by_chance == pytest.approx(1 / np.sqrt(N_QUESTIONS), rel=0.4)
    assert np.mean(np.array(found.values, dtype=float)) > 1
    assert without.by_chance is None


@pytest.mark.statistical
@repeated(200)
def test_rank_intervals_cover(times: int) -> None:
    """The interval of each of five models' ranks holds the true one, and models that are alike are seldom separated."""
    rng = np.random.default_rng(0)
    gaps = np.array([0.05, 0.05, 0.15, 0.2, 0.6])
    signs = np.array([1, -1, 1, -1, 1, -1])
    covered, apart = np.zeros(5, dtype=int), 0
    for _ in range(times):
        hard = rng.normal(0, 0.5, (N_QUESTIONS, N_GROUPS))
        runs = [gap * signs + 0.3 * hard + rng.normal(0, 1, (N_QUESTIONS, N_GROUPS)) for gap in gaps]
        drawn = np.array([resampled(values).values for values in runs], dtype=float)
        observed = [float(np.abs(values.mean(axis=0)).mean()) for values in runs]
        found = rank_ranges(observed, drawn, best="lowest")
        for model, one in enumerate(found):
            lowest, highest = 1 + int(np.sum(gaps < gaps[model])), int(np.sum(gaps <= gaps[model]))
            covered[model] += one.lower <= highest and one.upper >= lowest
        apart += found[0].place != found[1].place

    assert all(count >= binom.ppf(0.001, times, 0.95) for count in covered), covered
    assert apart <= binom.ppf(0.999, times, 0.05)
