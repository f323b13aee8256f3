"""A reference that goes on learning: when it is looked at, what it closes in to, and what the promise is worth then."""

import itertools
import math
import random

import msgspec
import numpy as np
import pytest

from auditors.metrics.intervals import Interval
from auditors.metrics.weighting import WeightedSums, add
from auditors.streams import reference as learning
from auditors.streams.drift import DriftSettings
from auditors.streams.state import StreamState, acknowledge, update
from tests.support.auditors.live_streams import bernoulli
from tests.support.presence import present
from tools.simulations import drift as simulation

WIDE = DriftSettings(average_run_length=1000, tolerance=0.0, reference_window=50, smallest_change=0.05)
"""Fifty zeros and ones cannot tell a change of .05."""


def sums_of(scores: list[float]) -> WeightedSums:
    sums = WeightedSums()
    for y in scores:
        sums = add(sums, y, 1.0)
    return sums


def after(scores: list[float], settings: DriftSettings = WIDE, state: StreamState | None = None) -> StreamState:
    state = state or StreamState()
    for n, y in enumerate(scores):
        state = update(state, y, 0.5, settings, exchange_id=str(n), at=1000.0 + n)
    return state


def test_looks_are_at_fixed_numbers_of_audits() -> None:
    """The window, twice and four times as many and so on, and then no more: the shares of confidence add up to 5 %."""
    looks = list(itertools.takewhile(bool, (learning.next_look(50 * 2**k - 1, 50) for k in range(9))))

    assert looks == [50, 100, 200, 400, 800]
    assert len(looks) == learning.LOOKS
    missed = (1 - learning.FIRST_LEVEL) + (learning.LOOKS - 1) * (1 - learning.LATER_LEVEL)
    assert missed == pytest.approx(0.05)


def test_limits_only_close_in() -> None:
    """While the reference learns, the detector watches; each look makes both limits closer or leaves them."""
    rng, state, seen = random.Random(5), StreamState(), []
    for n, y in enumerate(bernoulli(rng, 0.5, 900)):
        state = update(state, y, 0.5, WIDE, at=float(n))
        if state.detector is not None:
            seen.append((state.detector.lower_limit, state.detector.upper_limit, state.detector.next_look))

    assert [look for look, _ in itertools.groupby(look for *_, look in seen)] == [100, 200, 400, 800, 0]
    lower, upper = [one[0] for one in seen], [one[1] for one in seen]
    assert lower == sorted(lower)
    assert upper == sorted(upper, reverse=True)
    assert upper[-1] - lower[-1] < 0.5 * (upper[0] - lower[0])
    assert present(state.detector).n_seen == 850


def test_a_drift_while_it_learns_is_not_absorbed() -> None:
    """From .2 to .8 after the first look: the upper limit stays where it was, and the alarm comes; learning ends."""
    rng = random.Random(7)
    calm = after(bernoulli(rng, 0.2, 60))
    drifted = after(bernoulli(rng, 0.8, 150), state=calm)

    assert drifted.detector is not None
    assert drifted.alarm
    assert drifted.detector.upper_limit <= present(calm.detector).upper_limit
    assert drifted.detector.next_look == 0


def test_a_mean_that_moved_within_the_window_is_told() -> None:
    """A change that the window absorbs is no secret: the halves of the window do not overlap."""
    settings = DriftSettings(reference_window=400)
    rng = random.Random(9)
    moved = present(after(bernoulli(rng, 0.1, 200) + bernoulli(rng, 0.6, 200), settings).detector)
    stayed = present(after(bernoulli(rng, 0.1, 400), settings).detector)

    assert (moved.moved_while_learning, stayed.moved_while_learning) == (True, False)


def test_looks_that_contradict_each_other_end_the_learning() -> None:
    """No interval lies in both: the mean moved, and the first reference stays."""
    window = sums_of([0.1] * 100)

    assert learning.narrowed(learning.first(window), window, sums_of([0.1] * 100 + [0.9] * 100)) is None
    assert learning.narrowed(learning.first(window), window, sums_of([0.1] * 200)) is not None


@pytest.mark.parametrize(
    ("limits", "mean", "variance", "expected"),
    [
        (Interval(0.08, 0.12), 0.1, 0.09, pytest.approx(0.063, abs=0.01)),
        (Interval(0.08, 0.12), 0.1, 0.0, pytest.approx(0.0215, abs=0.005)),
        (Interval(0.0, 0.99), 0.5, 0.25, None),
    ],
)
def test_the_smallest_change(limits: Interval, mean: float, variance: float, expected: object) -> None:
    """Zeros and ones need more than scores without spread; limits as wide as the scale find nothing."""
    found = learning.smallest_change(limits, mean, variance, log_threshold=math.log(1e5), wanted=0.1)

    assert found == expected


@pytest.mark.simulation
@pytest.mark.parametrize("mean", [0.1, 0.2])
def test_the_smallest_change_is_found_in_time(mean: float) -> None:
    """A change of that size takes at most WITHIN audits on average, and more than half of it, so the estimate helps."""
    limits, log_threshold = Interval(mean - 0.03, mean + 0.03), math.log(1e5)
    change = present(
        learning.smallest_change(limits, mean, mean * (1 - mean), log_threshold=log_threshold, wanted=0.05)
    )
    rng = np.random.default_rng(61)
    scores = simulation.bernoulli(rng, 200, mean + change)

    lengths = simulation.run_lengths(scores, 200, limits.lower, limits.upper, 1e5, 20_000)

    assert learning.WITHIN / 2 < lengths.mean() < learning.WITHIN


STREAMS = {
    "independent": lambda rng, n: simulation.bernoulli(rng, n, 0.3),
    "clustered": lambda rng, n: simulation.clustered(rng, n, 0.3),
}


@pytest.mark.simulation
@pytest.mark.parametrize("stream", STREAMS)
def test_a_reference_that_learns_keeps_the_run_length(stream: str) -> None:
    """A learned reference keeps 200 runs at A = 500 as long as promised, with three standard errors of slack."""
    settings = DriftSettings(average_run_length=500, tolerance=0.0, reference_window=100, smallest_change=0.02)
    scores = STREAMS[stream](np.random.default_rng(67), 200)

    lengths = simulation.learned_run_lengths(scores, 200, settings, 3000)

    assert (lengths <= 500).mean() < 0.45
    assert lengths.mean() + 3 * lengths.std(ddof=1) / math.sqrt(200) >= 500


def test_the_simulation_learns_as_a_stream_does() -> None:
    """The bank and a real stream alarm at the same audit."""
    settings = DriftSettings(average_run_length=200, tolerance=0.0, reference_window=50, smallest_change=0.05)
    rng = np.random.default_rng(71)
    scores = [rng.random(8) < (0.2 if n < 150 else 0.45) for n in range(1200)]
    lengths = simulation.learned_run_lengths((one.astype(np.float64) for one in scores), 8, settings, 1150)
    expected = []
    for run in range(8):
        state, states = StreamState(), []
        for one in scores:
            state = update(state, float(one[run]), 1.0, settings)
            states.append(state.alarm)
        alarmed = states.index(True) + 1 if True in states else len(scores)
        expected.append(float(alarmed - settings.reference_window))

    assert lengths.tolist() == expected


class TestAcknowledge:
    def test_the_same_reference_stays_for_good(self) -> None:
        """Limits are what they were, evidence is nothing, learning is over: what was audited since is no reference."""
        rng = random.Random(11)
        alarmed = after(bernoulli(rng, 0.8, 150), state=after(bernoulli(rng, 0.2, 60)))
        lowered = acknowledge(alarmed)

        assert lowered.detector is not None
        assert lowered.detector.limits == present(alarmed.detector).limits
        assert (lowered.detector.log_evidence, lowered.detector.next_look) == (-math.inf, 0)

    def test_a_new_level_is_learned_from_now_on(self) -> None:
        """None of the audits before it are in the new window, and the old level then counts as a drift."""
        rng = random.Random(13)
        alarmed = after(bernoulli(rng, 0.8, 150), state=after(bernoulli(rng, 0.2, 60)))
        accepted = acknowledge(alarmed, accept_new_level=True)
        learned = after(bernoulli(rng, 0.8, 60), state=accepted)
        back = after(bernoulli(rng, 0.1, 150), state=learned)

        assert (accepted.detector, accepted.window.n) == (None, 0)
        assert learned.detector is not None
        assert learned.detector.reference.lower < 0.8 < learned.detector.reference.upper
        assert not learned.alarm
        assert (back.alarm, present(back.detector).direction) == (True, "falling")

    def test_an_accepted_level_replaces_a_run(self) -> None:
        """The run is asked no more, until the configuration names another one."""
        settings = DriftSettings(
            average_run_length=100, reference_window=50, reference_run="r", references={}, tolerance=0.0
        )
        run = Interval(0.1, 0.2)
        state = StreamState()
        for y in [1.0] * 60:
            state = update(state, y, 0.5, settings, reference=run)
        assert state.alarm
        accepted = acknowledge(state, accept_new_level=True)
        for y in [1.0] * 60:
            accepted = update(accepted, y, 0.5, settings, reference=run)
        other = update(accepted, 1.0, 0.5, DriftSettings(reference_run="s"), reference=run)

        assert accepted.detector is not None
        assert (accepted.detector.reference_run, accepted.detector.n_seen) == (None, 10)
        assert present(other.detector).reference_run == "s"


def test_before_and_since() -> None:
    """Means of the time before the change and since, how many there are, and when it began by the exchanges' times."""
    settings = DriftSettings(average_run_length=1000, reference_window=100)
    rng = random.Random(17)
    state = after([*bernoulli(rng, 0.2, 300), *[1.0] * 100], settings)

    detector = present(state.detector)
    assert (detector.alarm, detector.direction) == (True, "rising")
    before, since = detector.before, detector.change_evidence
    assert before.n + since.level.n == 400
    assert 90 <= since.level.n <= 130
    assert before.mean == pytest.approx(0.2, abs=0.06)
    assert present(since.level.mean) > 0.85
    assert 1270 <= present(since.since) <= 1300


def test_a_state_of_an_earlier_version_is_read() -> None:
    """A detector stored before references went on learning stays as it is, and its stream moves on."""
    old = (
        '{"sums":{"n":300,"w":600.0,"ww":1200.0,"wy":120.0,"wyy":120.0},"low":[300,300.0,60.0,300.0,60.0,60.0,1.0,1.0,'
        '1.0,1.0,1.0,0.5],"high":null,"excluded":{},"min_probability":0.5,"detector":{"reference":{"lower":0.1,"upper":0.3},'
        '"reference_run":null,"upper_limit":0.32,"lower_limit":0.08,"rising":[0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1],'
        '"falling":[0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1],"n_seen":100,"alarm":false,"behind_rising":[0.4,[["e",1.0]]],'
        '"behind_falling":[0.0,[]]},"block":null,"before_window":null}'
    )
    state = msgspec.json.decode(old, type=StreamState)
    moved = after([1.0] * 40, state=state)

    assert state.detector is not None
    assert moved.detector is not None
    assert (moved.detector.reference, moved.detector.next_look) == (Interval(0.1, 0.3), 0)
    assert moved.alarm
