"""The drift detector: latching, limits, JSON, run lengths and detection by seeded simulation."""

import itertools
import math
import random
from collections.abc import Iterator
from functools import partial

import numpy as np
import pytest
from numpy.typing import NDArray

from auditors.metrics.intervals import Interval
from auditors.streams import drift
from auditors.streams.drift import Detector, DriftSettings, Others
from tests.support.presence import present
from tools.simulations import drift as simulation

SETTINGS = DriftSettings(average_run_length=1000, tolerance=0.02)


def run_length(detector: Detector, scores: Iterator[tuple[float, float]], at_most: int) -> int:
    """Audits until the alarm, or at_most."""
    for n, (y, weight) in enumerate(scores, start=1):
        detector = drift.step(detector, y, weight, SETTINGS)
        if detector.alarm or n >= at_most:
            return n
    raise AssertionError("the scores ran out")


def bernoulli(rng: random.Random, mean: float) -> Iterator[tuple[float, float]]:
    while True:
        yield float(rng.random() < mean), 1.0


def test_limits_at_the_ends_of_the_scale() -> None:
    """A reference that covers the scale can never be left, and raises nothing."""
    detector = drift.start(Interval(0.0, 1.0), SETTINGS)

    assert (detector.lower_limit, detector.upper_limit) == (0.0, 1.0)
    assert run_length(detector, bernoulli(random.Random(1), 0.5), 500) == 500


@pytest.mark.parametrize("mean", [0.9, 0.02])
def test_a_change_to_either_side_raises_the_alarm(mean: float) -> None:
    """A mean far above or below the reference alarms soon."""
    detector = drift.start(Interval(0.45, 0.55), SETTINGS)

    assert run_length(detector, bernoulli(random.Random(2), mean), 200) < 60


def test_the_alarm_is_latched_until_acknowledged() -> None:
    """Ordinary scores after an alarm do not lower it; acknowledging does, and clears the evidence."""
    detector = drift.start(Interval(0.1, 0.2), SETTINGS)
    for y in [1.0] * 30 + [0.1] * 300:
        detector = drift.step(detector, y, 1.0, SETTINGS)

    assert detector.alarm
    lowered = drift.acknowledge(detector)
    assert not lowered.alarm
    assert (lowered.log_evidence, lowered.n_seen) == (-math.inf, 0)
    assert lowered.upper_limit == detector.upper_limit


def alarm_after(scores: list[float], settings: DriftSettings, others: Others) -> int | None:
    """Number of audits until the alarm, one side's reference being .1 to .2."""
    detector = drift.start(Interval(0.1, 0.2), settings)
    for n, y in enumerate(scores, start=1):
        detector = drift.step(detector, y, 1.0, settings, others=others)
        if detector.alarm:
            return n
    return None


def test_all_streams_together_decide() -> None:
    """A stream alarms at A once all evidence reaches K A: by its own, the later the more there are, or by others'."""
    alone = alarm_after([1.0] * 50, SETTINGS, Others())
    among_few = present(alarm_after([1.0] * 50, SETTINGS, Others(count=9)))
    among_many = present(alarm_after([1.0] * 50, SETTINGS, Others(count=199)))
    helped = alarm_after([1.0] * 50, SETTINGS, Others(count=9, log_evidence=math.log(9_900)))
    others_alone = alarm_after([1.0] * 50, SETTINGS, Others(count=9, log_evidence=math.log(1e9)))

    assert present(alone) < among_few < among_many
    assert others_alone == alone == helped
    assert SETTINGS.log_threshold(200) == pytest.approx(math.log(200_000))


def test_an_alarm_names_the_exchanges_behind_it() -> None:
    """The audits that spoke most for the change, none from before it began, none after the alarm."""
    detector = drift.start(Interval(0.0, 0.2), SETTINGS)
    audits = [("early", 1.0), *[(f"calm-{n}", 0.0) for n in range(100)], *[(f"some-{n}", 0.6) for n in range(8)]]
    for exchange_id, y in [*audits, *[(f"much-{n}", 1.0) for n in range(40)]]:
        detector = drift.step(detector, y, 1.0, SETTINGS, exchange_id=exchange_id)
    behind = detector.behind

    assert (detector.alarm, detector.direction) == (True, "rising")
    assert behind[0] == "much-0"
    assert set(behind) <= {f"some-{n}" for n in range(8)} | {f"much-{n}" for n in range(10)}
    assert 5 <= len(behind) <= drift.KEPT_CONTRIBUTIONS
    assert drift.acknowledge(detector).behind == []


STREAMS = {
    "independent": partial(simulation.bernoulli, mean=0.1),
    "clustered": partial(simulation.clustered, mean=0.1),
    "wandering": partial(simulation.wandering, mean=0.1, deepest=0.04),
}
"""Null streams whose mean given the past never exceeds .1: independent, in spells, and with a slowly moving mean."""


def at_most(lengths: NDArray[np.float64]) -> float:
    """Mean run length plus three standard errors."""
    return float(lengths.mean() + 3 * lengths.std(ddof=1) / math.sqrt(len(lengths)))


@pytest.mark.statistical
@pytest.mark.parametrize("run_length", [1000, pytest.param(10_000, marks=pytest.mark.simulation)])
@pytest.mark.parametrize("stream", STREAMS)
def test_null_streams_run_at_least_as_long_as_promised(stream: str, run_length: int) -> None:
    """The mean run length at the limit is A or more, autocorrelated or not; three standard errors are allowed."""
    scores = STREAMS[stream](np.random.default_rng(7), 200)

    lengths = simulation.run_lengths(scores, 200, 0.0, 0.1, run_length, 6 * run_length)

    assert at_most(lengths) >= run_length


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("stream", "on_mean", "n_runs", "run_length"),
    [
        ("clustered", True, 40, 1000),
        *(
            pytest.param(stream, on_mean, *sizes, marks=pytest.mark.simulation)
            for stream in ("independent", "clustered")
            for on_mean, *sizes in ((False, 100, 1000), (True, 100, 1000), (False, 40, 10_000))
        ),
    ],  # not "wandering": these limits have no room below .1
)
def test_families_of_streams_run_at_least_as_long_as_promised(
    stream: str, on_mean: bool, n_runs: int, run_length: int
) -> None:
    """The first alarm of 24 streams at their limits comes after A exchanges or more, autocorrelated or not."""
    scores = STREAMS[stream](np.random.default_rng(11), 24 * n_runs)

    lengths = simulation.family_run_lengths(scores, n_runs, 24, 0.1, run_length, 6 * run_length, on_mean=on_mean)

    assert at_most(lengths) >= run_length


@pytest.mark.statistical
@pytest.mark.parametrize(
    "stream", ["clustered", *(pytest.param(one, marks=pytest.mark.simulation) for one in ("independent", "wandering"))]
)
def test_gaps_run_at_least_as_long_as_promised(stream: str) -> None:
    """A null gap between groups of 80 % and 20 % runs A = 500 requests (not blocks) or more, autocorrelated or not."""
    others, group = itertools.tee(STREAMS[stream](np.random.default_rng(43), 300))

    lengths = simulation.gap_run_lengths(np.random.default_rng(47), 300, (others, group), 0.2, 0.0, 500, 3000)

    assert at_most(lengths) >= 500


@pytest.mark.simulation
def test_delay_after_a_gap_opens() -> None:
    """A gap of .10 at A = 100,000 alarms after about 980 requests (drift_bounds.py: no detector needs under 456)."""
    rng = np.random.default_rng(53)
    streams = simulation.judged(rng, 200, 0.1), simulation.judged(rng, 200, 0.2)

    lengths = simulation.gap_run_lengths(rng, 200, streams, 0.2, 0.0, 1e5, 10_000)

    assert 870 < lengths.mean() < 1090


@pytest.mark.statistical
def test_delay_after_a_planted_change() -> None:
    """A change from .10 to .20 at A = 100,000 alarms after about 180 audits; the standard error is 4 audits."""
    rng = np.random.default_rng(3)
    before = itertools.islice(simulation.judged(rng, 300, 0.10), 300)
    lengths = simulation.run_lengths(
        itertools.chain(before, simulation.judged(rng, 300, 0.20)), 300, 0.08, 0.12, 100_000, 5000
    )

    assert 150 < lengths.mean() - 300 < 210


@pytest.mark.statistical
def test_unequal_sampling_does_not_raise_the_alarm() -> None:
    """Weights correct for sampling the high half ten times as often; without them an alarm comes in 40 audits."""
    rng = random.Random(13)

    def sampled() -> Iterator[tuple[float, float]]:
        while True:
            often = rng.random() < 10 / 11
            yield (0.9, 0.1) if often else (0.1, 1.0)

    weighted = drift.start(Interval(0.5, 0.5), SETTINGS)
    lengths = [run_length(weighted, sampled(), 2000) for _ in range(6)]
    unweighted = run_length(weighted, ((y, 1.0) for y, _ in sampled()), 3000)

    assert sum(lengths) / len(lengths) >= 1000
    assert unweighted < 40
