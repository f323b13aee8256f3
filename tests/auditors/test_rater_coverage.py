"""Intervals of agreement, error rates and corrected means hold the truth where exchanges have several judgements."""

from collections.abc import Callable, Iterator, Sequence
from functools import cache

import numpy as np
import pytest

from auditors.metrics.intervals import Interval
from auditors.metrics.weighting import WeightedSums
from auditors.streams.calibration import Pair, prediction_powered
from benchmarks.lab.metrics.agreement import (
    Level,
    Ratings,
    agreeing_pairs,
    chance_corrected,
    cohen_kappa,
    counts_of,
    exact_agreement,
    fleiss_kappa,
    judge_agreement,
    krippendorff_alpha,
)
from benchmarks.lab.metrics.error_rates import error_rates, rogan_gladen
from tests.support.long import least_covered, repeated
from tests.support.presence import present
from tools.simulations.coverage import Coverage, Record
from tools.simulations.raters import GROUPS, Drawn, Floats, Setting, draw

SETTINGS = (
    Setting("judgements of an exchange hang together", lean=1.0, hardness=2.0),
    Setting("hang together, 40 exchanges", lean=1.0, hardness=2.0, n_exchanges=40),
    Setting("hang together, nearly all agree", lean=1.0, hardness=1.0, skill=2.5),
    Setting("one judgement an exchange", lean=1.0, hardness=2.0, n_exchanges=300, most=1),
)
LEVELS: tuple[Level, ...] = ("nominal", "ordinal", "interval")
ELSEWHERE = 0.15
"""Share of judgements above 0 in the traffic whose share is corrected."""
UNLABELLED = 2_000
N_TRUTH = 150_000

Found = Iterator[tuple[str, Interval | None, float]]


def people_of(drawn: Drawn) -> Ratings:
    return Ratings.of_table(drawn.people)


def complete(drawn: Drawn) -> Drawn:
    """The judgements that all three people have rated."""
    kept = ~np.isnan(drawn.people).any(axis=1)
    return Drawn(drawn.exchange[kept], drawn.group[kept], drawn.truth[kept], drawn.people[kept], drawn.judge[kept])


class Truth:
    """Every number at its limit, from very many exchanges."""

    def __init__(self, setting: Setting) -> None:
        many = draw(setting, N_TRUTH, np.random.default_rng(5))
        ratings = people_of(many)
        self.exact = agreeing_pairs(ratings).share
        self.alpha = {level: krippendorff_alpha(ratings, level).value for level in LEVELS}
        counts, _ = counts_of(people_of(complete(many)))
        self.fleiss = fleiss_kappa(counts).value
        self.judge_exact = float(np.mean(many.judge == many.truth))
        self.kappa = cohen_kappa(many.truth, many.judge).value
        above, said = many.truth > 0, many.judge > 0
        self.rates = {"": (said[above].mean(), (~said[~above]).mean())}
        for number, group in enumerate(GROUPS):
            of = many.group == number
            self.rates[group] = said[above & of].mean(), (~said[~above & of]).mean()
        self.mean = float(scaled(many.truth).mean())


truth_of = cache(Truth)


def scaled(scores: Floats) -> Floats:
    return (scores + 1) / 3


def people_numbers(_setting: Setting, drawn: Drawn, truth: Truth, random: np.random.Generator) -> Found:
    ratings = people_of(drawn)
    yield "exact agreement", exact_agreement(agreeing_pairs(ratings), drawn.exchange).interval, truth.exact
    for level in LEVELS:
        found = krippendorff_alpha(ratings, level)
        yield f"alpha, {level}", chance_corrected(found, drawn.exchange, rng=random).interval, truth.alpha[level]
    whole = complete(drawn)
    counts, _ = counts_of(people_of(whole))
    kappa = chance_corrected(fleiss_kappa(counts), whole.exchange, rng=random)
    yield "Fleiss' kappa", kappa.interval, truth.fleiss


def judge_numbers(_setting: Setting, drawn: Drawn, truth: Truth, random: np.random.Generator) -> Found:
    scores = drawn.truth.astype(int).tolist(), drawn.judge.astype(int).tolist()
    found = judge_agreement(*scores, drawn.exchange, rng=random)
    yield "same score", found.exact.interval, truth.judge_exact
    yield "Cohen's kappa", found.kappa.interval, truth.kappa
    above, said = drawn.truth > 0, drawn.judge > 0
    whole = error_rates(above, said, drawn.exchange)
    yield "sensitivity", whole.sensitivity.interval, truth.rates[""][0]
    yield "specificity", whole.specificity.interval, truth.rates[""][1]
    for number, group in enumerate(GROUPS):
        of = drawn.group == number
        rates = error_rates(above[of], said[of], drawn.exchange[of])
        yield "sensitivity, by group", rates.sensitivity.interval, truth.rates[group][0]
        yield "specificity, by group", rates.specificity.interval, truth.rates[group][1]
    se, sp = truth.rates[""]
    positive = random.binomial(UNLABELLED, ELSEWHERE * se + (1 - ELSEWHERE) * (1 - sp))
    yield "Rogan-Gladen", rogan_gladen(int(positive), UNLABELLED, whole).interval, ELSEWHERE


def mean_numbers(setting: Setting, drawn: Drawn, truth: Truth, random: np.random.Generator) -> Found:
    """The labelled exchanges are among ten times as many that the judge alone has scored."""
    others = draw(setting, 9 * setting.n_exchanges, random)
    judged = np.concatenate([scaled(drawn.judge), scaled(others.judge)])
    n = len(judged)
    sums = WeightedSums(n=n, w=n, ww=n, wy=float(judged.sum()), wyy=float((judged**2).sum()))
    scores = zip(scaled(drawn.judge).tolist(), scaled(drawn.truth).tolist(), drawn.exchange, strict=True)
    pairs = [Pair(judge=judge, person=person, cluster=str(exchange)) for judge, person, exchange in scores]
    exchange = np.concatenate([drawn.exchange, others.exchange + setting.n_exchanges])
    totals, sizes = np.bincount(exchange, weights=judged - judged.mean()), len(np.unique(exchange))
    half = 1.96 * float(np.sqrt((totals**2).sum() * sizes / (sizes - 1))) / n
    yield "judge's mean, uncorrected", Interval(judged.mean() - half, judged.mean() + half), truth.mean
    wide = 2.576 / 1.96 * half
    found = prediction_powered(sums, Interval(judged.mean() - wide, judged.mean() + wide), pairs)
    yield "prediction-powered", Interval(present(found.lower), present(found.upper)), truth.mean


Numbers = Callable[[Setting, Drawn, Truth, np.random.Generator], Found]


def simulate(numbers: Numbers, times: int) -> Coverage:
    """Draws with too few clusters of a kind have a reason in place of an interval and do not count."""
    coverage = Coverage()
    for setting in SETTINGS:
        truth = truth_of(setting)
        for seed in range(times):
            random = np.random.default_rng(seed)
            drawn = draw(setting, setting.n_exchanges, random)
            for name, interval, limit in numbers(setting, drawn, truth, random):
                if interval is not None:
                    coverage.add(setting.name, name, (interval.lower, interval.upper), limit)
    return coverage


def covers(numbers: Numbers, title: str, names: Sequence[str], times: int, record: Record) -> Coverage:
    """Each of the named numbers is formed in nearly every draw, and held in 93 to 97 %."""
    found = simulate(numbers, times)
    for name in names:
        assert found.share(name)[1] >= 0.9 * times * len(SETTINGS)
    if times >= 100:
        found.show(title, record)
        for name in names:
            found.demand_nominal(name)
    return found


@pytest.mark.statistical
@repeated(300)
def test_agreement_of_people_covers(times: int, record_property: Record) -> None:
    """Exact agreement, Fleiss' kappa and alpha of three people who have not rated everything."""
    names = ["exact agreement", "Fleiss' kappa", *(f"alpha, {level}" for level in LEVELS)]
    covers(people_numbers, "people", names, times, record_property)


@pytest.mark.statistical
@repeated(300)
def test_a_judge_against_people_covers(times: int, record_property: Record) -> None:
    """Agreement, error rates by group and in all, and a share corrected for them."""
    names = ["same score", "Cohen's kappa", "sensitivity", "specificity", "Rogan-Gladen"]
    names += ["sensitivity, by group", "specificity, by group"]
    covers(judge_numbers, "judge", names, times, record_property)


@pytest.mark.statistical
@repeated(300)
def test_a_mean_corrected_by_people_covers(times: int, record_property: Record) -> None:
    """The prediction-powered bounds, which hold at all times, hold the mean of people; the judge's own do not."""
    found = covers(mean_numbers, "mean", [], times, record_property)
    held, drawn = found.share("prediction-powered")
    assert held >= least_covered(drawn)
    assert drawn >= 0.9 * times * len(SETTINGS)
    held, drawn = found.share("judge's mean, uncorrected")
    assert held < 0.5 * drawn
