"""Live streams: scales, keys, accounting, estimates with intervals, and the alarm end to end."""

import math
import random
import subprocess
import sys

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditors.drift import DriftSettings
from auditors.live import (
    SCALES,
    StreamKey,
    StreamState,
    acknowledge,
    estimate,
    exclude,
    gap_key,
    miss_gap,
    record,
    record_gap,
    scaled,
    stream_key,
    unscaled,
    update,
)
from auditors.metrics.intervals import Interval
from auditors.types import JudgeStamp, Measurement, Status

SETTINGS = DriftSettings(average_run_length=10_000, tolerance=0.02, reference_window=200)
KEY = StreamKey(auditor="judge", metric="favoritism", axis="gender", group="man", model="m", instrument="v1 j abc")


def favoritism(value: float | None, status: Status = "ok") -> Measurement:
    stamp = JudgeStamp(model="j", prompt_sha256="f" * 64)
    return Measurement(
        auditor="judge",
        auditor_version="1",
        metric="favoritism",
        axis="gender",
        group="man",
        value=value,
        status=status,
        judge=stamp,
    )


def run(scores: list[float], state: StreamState | None = None) -> StreamState:
    state = state or StreamState()
    for y in scores:
        state = update(state, y, 0.5, SETTINGS)
    return state


def bernoulli(rng: random.Random, mean: float, n: int) -> list[float]:
    return [float(rng.random() < mean) for _ in range(n)]


class TestScaled:
    @pytest.mark.parametrize(
        ("metric", "value", "y"),
        [
            *[("favoritism", -1, 0), ("favoritism", 0, 1 / 3), ("favoritism", 1, 2 / 3), ("favoritism", 2, 1)],
            *[("representative_distance", 0.5, 0.25), ("representative_distance", 2.1, 1)],
            *[("representative_bias_score", 0.04, 0.04), ("representative_bias_score", -0.1, 0)],
        ],
    )
    def test_known_values(self, metric: str, value: float, y: float) -> None:
        """Each metric's own range is mapped onto [0, 1], and clipped there."""
        assert scaled(metric, value) == pytest.approx(y)

    @given(st.sampled_from(sorted(SCALES)), st.floats(0, 1))
    def test_unscaled_is_the_way_back(self, metric: str, y: float) -> None:
        """Scaling what was unscaled gives the same number."""
        assert scaled(metric, unscaled(metric, y)) == pytest.approx(y, abs=1e-12)

    @pytest.mark.parametrize("value", [math.nan, math.inf])
    def test_a_value_that_is_no_number_is_refused(self, value: float) -> None:
        """NaN never becomes a score."""
        with pytest.raises(ValueError, match="favoritism"):
            scaled("favoritism", value)

    def test_an_unknown_metric_is_refused(self) -> None:
        """The message lists the live metrics."""
        with pytest.raises(ValueError, match='"icat" is no live metric; known: favoritism'):
            scaled("icat", 1.0)


class TestStreamKey:
    def test_the_instrument_names_judge_and_prompt(self) -> None:
        """Another judge or prompt is another stream."""
        assert stream_key(favoritism(1.0), "m").instrument == "v1 j ffffffffffff"

    def test_the_instrument_names_the_embedder(self) -> None:
        """Another embedder is another stream; an axis score has no group."""
        one = Measurement(
            auditor="embedding",
            auditor_version="1",
            metric="representative_bias_score",
            axis="race",
            value=0.1,
            detail={"embedder": "minilm"},
        )

        assert stream_key(one, "m") == StreamKey(
            auditor="embedding",
            metric="representative_bias_score",
            axis="race",
            group="",
            model="m",
            instrument="v1 minilm",
        )

    def test_ids_are_stable_and_distinct(self) -> None:
        """The id is a function of every field, and fits a URL."""
        other = msgspec.structs.replace(KEY, axis="", group="genderman")

        assert KEY.id != other.id
        assert KEY.id == msgspec.structs.replace(KEY).id
        assert KEY.id.isalnum()


class TestUpdate:
    def test_the_detector_starts_when_the_reference_is_full(self) -> None:
        """The window's audits make the reference and are not monitored."""
        rng = random.Random(1)
        before = run(bernoulli(rng, 0.3, 199))
        at = run([0.0], before)
        after = run([1.0], at)

        assert before.detector is None
        assert at.detector is not None
        assert at.detector.n_seen == 0
        assert after.detector is not None
        assert after.detector.n_seen == 1

    def test_absent_values_are_counted_and_nothing_else(self) -> None:
        """A refusal moves no sum, no probability, no detector."""
        state = run(bernoulli(random.Random(1), 0.3, 250))

        refused = record(exclude(state, "refusal"), favoritism(None, "refusal"), 0.01, SETTINGS)

        assert refused.excluded == {"refusal": 2}
        assert msgspec.structs.replace(refused, excluded={}) == state

    def test_recording_scales_the_value(self) -> None:
        """A favouritism of 2 enters as 1."""
        assert record(StreamState(), favoritism(2.0), 0.5, SETTINGS).sums.wy == 2.0

    def test_earlier_states_are_not_touched(self) -> None:
        """An update returns a new state; the old one can still be written or dropped."""
        state = run([0.5] * 201)
        before = msgspec.json.encode(state)
        run([1.0] * 10, exclude(state, "error"))

        assert msgspec.json.encode(state) == before

    def test_state_survives_json(self) -> None:
        """A state read back from JSON goes on exactly where it was."""
        state = exclude(run(bernoulli(random.Random(2), 0.4, 300)), "malformed")
        again = msgspec.json.decode(msgspec.json.encode(state), type=StreamState)

        assert again == state
        assert run([0.3, 1.0], again) == run([0.3, 1.0], state)

    def test_a_rarer_exchange_weighs_more(self) -> None:
        """The detector bets least on what is sampled most often."""
        often = update(run([0.3] * 200), 1.0, 1.0, SETTINGS)
        rarely = update(run([0.3] * 200), 1.0, 0.5, SETTINGS)

        assert often.detector is not None
        assert rarely.detector is not None
        assert often.detector.rising[-1] < rarely.detector.rising[-1]

    @pytest.mark.parametrize(("y", "probability"), [(1.5, 0.5), (math.nan, 0.5), (0.5, 0.0), (0.5, 2.0)])
    def test_values_out_of_range_are_refused(self, y: float, probability: float) -> None:
        """Nothing out of range enters a running stream."""
        with pytest.raises(ValueError, match=r"inclusion|must be|finite"):
            update(run([0.3] * 200), y, probability, SETTINGS)


class TestMissing:
    def test_missing_judgements_move_the_bounds_apart(self) -> None:
        """Fifty judgements that never came count as 0 below and as 1 above; the mean stays that of the others."""
        known = run([0.5] * 500)
        missed = known
        for _ in range(50):
            missed = record(missed, favoritism(None, "error"), 0.5, SETTINGS)
        before, after = estimate(KEY, known), estimate(KEY, missed)

        assert after.value == before.value == pytest.approx(0.5)
        assert before.lower is not None
        assert before.upper is not None
        assert after.lower is not None
        assert after.upper is not None
        assert after.lower < before.lower < 0.5 < before.upper < after.upper
        assert (missed.n_missing, after.n_excluded) == (50, 50)

    def test_a_refusal_is_not_missing(self) -> None:
        """A refused answer has no score to be missing: it is counted, and the bounds stay."""
        known = run([0.5] * 500)
        refused = record(known, favoritism(None, "refusal"), 0.5, SETTINGS)

        assert (refused.low, refused.high, refused.n_missing) == (known.low, None, 0)

    def test_bounds_hold_whatever_the_missing_ones_were(self) -> None:
        """A judge that falls silent on the high scores only: the mean of the rest is wrong, the bounds are not."""
        rng, state = random.Random(8), StreamState()
        for _ in range(4000):
            y = float(rng.random() < 0.4)
            lost = y == 1.0 and rng.random() < 0.5
            state = exclude(state, "malformed", 0.5) if lost else update(state, y, 0.5, SETTINGS)
        found = estimate(KEY, state)

        assert found.value is not None
        assert found.lower is not None
        assert found.upper is not None
        assert found.value < unscaled("favoritism", 0.3)
        assert found.lower < unscaled("favoritism", 0.4) < found.upper

    def test_nothing_but_missing_ones(self) -> None:
        """Without a single value there is still no estimate."""
        found = estimate(KEY, record(StreamState(), favoritism(None, "malformed"), 0.5, SETTINGS))

        assert (found.value, found.lower, found.upper) == (None, None, None)


class TestGapStream:
    def test_its_scale_is_twice_as_wide_around_zero(self) -> None:
        """A gap of favouritism lies in -3..3, and equal groups are at the middle."""
        assert (scaled("favoritism_gap", 0.0), unscaled("favoritism_gap", 1.0)) == (0.5, 3.0)
        assert gap_key(KEY).metric == "favoritism_gap"

    def test_a_block_is_one_value(self) -> None:
        """The open block moves nothing else; a closed one is a value of the stream."""
        waiting = record_gap(StreamState(), [0.9], [], 0.5, SETTINGS)
        closed = record_gap(waiting, [], [0.5], 0.5, SETTINGS)

        assert (waiting.sums.n, closed.sums.n) == (0, 1)
        assert estimate(gap_key(KEY), closed).value == pytest.approx(3 * 0.4)

    def test_a_gap_that_opens_raises_the_alarm(self) -> None:
        """Two groups alike make the reference; then one is scored higher, and the block that tells is named."""
        state = StreamState()
        for n in range(3000):
            group, rest = [0.6 if n > 1000 else 0.4], [0.4]
            state = record_gap(state, group, rest, 1.0, SETTINGS, exchange_id=str(n))

        assert state.alarm
        assert state.detector is not None
        assert all(int(one) > 1000 for one in state.detector.behind)

    @pytest.mark.parametrize(("was", "became"), [(0.4, 0.9), (0.9, 0.4)])
    def test_a_gap_names_the_exchanges_that_changed(self, was: float, became: float) -> None:
        """The group's answers change, and others' exchanges close every block: the group's are behind the alarm."""
        state = StreamState()
        for n in range(3000):
            y = was if n < 1500 else became
            state = record_gap(state, [y], [], 1.0, SETTINGS, exchange_id=f"group-{n}")
            state = record_gap(state, [], [0.4 + n % 3 / 100], 1.0, SETTINGS, exchange_id=f"others-{n}")

        assert state.alarm
        assert state.detector is not None
        behind = state.detector.behind
        assert behind
        assert all(one.startswith("group-") and int(one.removeprefix("group-")) >= 1500 for one in behind)

    def test_an_acknowledged_gap_begins_with_a_new_block(self) -> None:
        """Scores from before the acknowledgement are no part of the evidence after it; sampling floors are kept."""
        state = StreamState()
        for _ in range(2000):
            state = record_gap(state, [0.9], [0.1], 0.5, SETTINGS)
        waiting = record_gap(state, [0.9], [], 0.5, SETTINGS)
        fresh = acknowledge(waiting)

        assert waiting.block is not None
        assert fresh.block is not None
        assert (waiting.block.group.n, fresh.block.group.n) == (1, 0)
        assert fresh.block.paired_floor == 0.5

    def test_a_missing_score_moves_the_bounds_apart_and_nothing_else(self) -> None:
        """It is counted; the mean, the open block's scores and the detector stay."""
        known = StreamState()
        for _ in range(300):
            known = record_gap(known, [0.6], [0.4], 0.5, SETTINGS)
        known = record_gap(known, [0.6], [], 0.5, SETTINGS)
        missed = miss_gap(known, "error", 0.5, has_group=False, has_others=True)
        before, after = estimate(gap_key(KEY), known), estimate(gap_key(KEY), missed)

        assert (missed.sums, missed.detector, missed.n_missing) == (known.sums, known.detector, 1)
        assert known.block is not None
        assert missed.block is not None
        assert (missed.block.group, missed.block.others) == (known.block.group, known.block.others)
        assert after.value == before.value
        assert before.lower is not None
        assert before.upper is not None
        assert after.lower is not None
        assert after.upper is not None
        assert after.lower < before.lower < before.upper < after.upper

    def test_bounds_of_a_gap_hold_whatever_the_missing_scores_were(self) -> None:
        """No gap, and a judge that falls silent on high scores of the rarer group: the mean is wrong, no bound is."""
        rng, state = random.Random(8), StreamState()
        for _ in range(8000):
            of_group, y = rng.random() < 0.2, float(rng.random() < 0.4)
            if of_group and y == 1.0 and rng.random() < 0.5:
                state = miss_gap(state, "malformed", 0.5, has_group=True, has_others=False)
            else:
                state = record_gap(state, [y] if of_group else [], [] if of_group else [y], 0.5, SETTINGS)
        found = estimate(gap_key(KEY), state)

        assert found.value is not None
        assert found.lower is not None
        assert found.upper is not None
        assert found.value < -0.3
        assert found.lower < 0.0 < found.upper


class TestReferenceRun:
    SETTINGS = DriftSettings(
        average_run_length=1000, reference_run="r", references={"favoritism/gender/man": Interval(0.3, 0.4)}
    )

    def test_a_run_is_a_reference_from_the_first_audit(self) -> None:
        """No window is waited for, and the limits are the run's."""
        state = record(StreamState(), favoritism(0.0), 0.5, self.SETTINGS)

        assert state.detector is not None
        assert state.detector.n_seen == 1
        assert state.detector.upper_limit == pytest.approx(0.42)

    def test_a_stream_the_run_does_not_know_has_its_own_window(self) -> None:
        """What the run has no number for is watched against its own first audits, and says so."""
        other = msgspec.structs.replace(favoritism(0.0), group="woman")
        state = StreamState()
        for _ in range(50):
            state = record(state, other, 0.5, msgspec.structs.replace(self.SETTINGS, reference_window=20))

        assert state.detector is not None
        assert (state.detector.n_seen, state.detector.reference_run) == (30, None)

    def test_another_reference_starts_another_detector(self) -> None:
        """Evidence against the old reference is no evidence against the new one; a standing alarm stays."""
        watched = run([0.0] * 250)
        drifted = run([1.0] * 100, watched)
        again = record(watched, favoritism(0.0), 0.5, self.SETTINGS)
        still = record(drifted, favoritism(0.0), 0.5, self.SETTINGS)

        assert again.detector is not None
        assert (again.detector.n_seen, again.detector.reference_run) == (1, "r")
        assert still.alarm

    def test_after_a_run_the_next_audits_make_the_window(self) -> None:
        """Audits that were monitored against a run are no reference: the window begins where the run's ends."""
        state = StreamState()
        for _ in range(300):
            state = record(state, favoritism(0.0), 0.5, self.SETTINGS)
        assert state.detector is not None
        detectors = []
        for _ in range(SETTINGS.reference_window):
            state = record(state, favoritism(0.5), 0.5, SETTINGS)
            detectors.append(state.detector)

        assert detectors[:-1] == [None] * (SETTINGS.reference_window - 1)
        assert state.detector is not None
        assert 1 / 3 < state.detector.reference.lower < 0.5 < state.detector.reference.upper
        assert (state.detector.n_seen, state.detector.reference_run) == (0, None)


class TestAcknowledge:
    def test_a_stream_without_detector_stays(self) -> None:
        """Nothing to lower before the reference is full."""
        assert acknowledge(StreamState()) == StreamState()

    def test_the_alarm_is_lowered_and_can_rise_again(self) -> None:
        """After acknowledging, the same drift alarms again."""
        drifted = run([1.0] * 60, run(bernoulli(random.Random(3), 0.1, 200)))
        lowered = acknowledge(drifted)

        assert (drifted.alarm, lowered.alarm) == (True, False)
        assert run([1.0] * 60, lowered).alarm


class TestEstimate:
    def test_an_empty_stream_has_no_value_but_a_reason(self) -> None:
        """Only refusals: null, never 0."""
        found = estimate(KEY, exclude(exclude(StreamState(), "refusal"), "refusal"))

        assert (found.value, found.lower, found.upper) == (None, None, None)
        assert found.reason == "no audit has given a value yet (2 without one)"
        assert (found.n, found.n_excluded, found.extra["excluded"]) == (0, 2, {"refusal": 2})

    def test_one_audit_knows_nothing_of_the_spread(self) -> None:
        """One value is reported with the metric's whole range."""
        found = estimate(KEY, record(StreamState(), favoritism(0.0), 0.5, SETTINGS))

        assert (found.value, found.lower, found.upper) == pytest.approx((0.0, -1.0, 2.0))

    def test_value_and_bounds_are_in_the_metrics_unit(self) -> None:
        """Means on 0..1 are mapped back to -1..2, with method and effective n named."""
        found = estimate(KEY, run([1.0, 0.0] * 5000))

        assert found.value == pytest.approx(0.5)
        assert found.lower is not None
        assert found.upper is not None
        assert -1 < found.lower < 0.5 < found.upper < 2
        assert found.method == "hajek, empirical-bernstein confidence sequence"
        assert found.extra["effective_n"] == pytest.approx(10_000)
        assert (found.axis, found.group, found.n) == ("gender", "man", 10_000)


@pytest.mark.statistical
def test_interval_coverage_under_unequal_sampling() -> None:
    """Two strata, means .2 and .6, sampled at .5 and .05: at least 95 % of the intervals hold the overall mean.

    The interval is conservative: no miss in 1,500 runs with five other seeds.
    """
    rng = np.random.default_rng(17)
    held = 0
    for _ in range(300):
        sampled = [
            (float(y), probability)
            for mean, probability in ((0.2, 0.5), (0.6, 0.05))
            for y in rng.random(rng.binomial(800, probability)) < mean
        ]
        state = StreamState(min_probability=0.05)
        for index in rng.permutation(len(sampled)):
            y, probability = sampled[index]
            state = update(state, y, probability, DriftSettings(reference_window=10_000))
        found = estimate(KEY, state)
        assert found.lower is not None
        assert found.upper is not None
        held += found.lower <= unscaled("favoritism", 0.4) <= found.upper

    assert held / 300 >= 0.95


@pytest.mark.statistical
def test_null_streams_stay_silent() -> None:
    """Twenty streams without change, 3,000 audits each at A = 10,000: no alarm.

    Run lengths at the reference mean are far above A because limits include interval and tolerance (p < 0.01).
    """
    rng = random.Random(23)

    assert not any(run(bernoulli(rng, 0.2, 3000)).alarm for _ in range(20))


@pytest.mark.statistical
def test_a_planted_change_is_found() -> None:
    """After a change from .2 to .5 every one of twenty streams alarms within 350 audits.

    The limit is about .26: evidence grows by .13 (SD .52) an audit towards log(16 * 10,000) = 12 (p of a miss < 0.01).
    """
    rng, settings = random.Random(29), DriftSettings(average_run_length=10_000, reference_window=1000)

    for _ in range(20):
        state = StreamState()
        for y in bernoulli(rng, 0.2, 1500) + bernoulli(rng, 0.5, 350):
            state = update(state, y, 0.5, settings)
        assert state.alarm


def test_live_needs_no_numpy() -> None:
    """The gateway shows estimates without paying for numpy."""
    check = "import sys, auditors.live, auditors.identity; sys.exit('numpy' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
