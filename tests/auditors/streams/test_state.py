"""Live streams: keys, accounting, references, and the alarm end to end."""

import math
import random

import msgspec
import pytest

from auditors.metrics.intervals import Interval
from auditors.metrics.weighting import kish_effective_n
from auditors.streams.drift import DriftSettings
from auditors.streams.state import StreamKey, StreamState, exclude, record, stream_key, update
from auditors.types import Measurement
from tests.support.auditors.live_streams import KEY, SETTINGS, bernoulli, favoritism, run
from tests.support.presence import present


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
        assert present(at.detector).n_seen == 0
        assert present(after.detector).n_seen == 1

    def test_absent_values_are_counted_and_nothing_else(self) -> None:
        """A refusal moves no sum, no probability, no detector."""
        state = run(bernoulli(random.Random(1), 0.3, 250))

        refused = record(exclude(state, "refusal"), favoritism(None, "refusal"), 0.01, SETTINGS)

        assert refused.excluded == {"refusal": 2}
        assert msgspec.structs.replace(refused, excluded={}) == state

    @pytest.mark.parametrize(("y", "probability"), [(1.5, 0.5), (math.nan, 0.5), (0.5, 0.0), (0.5, 2.0)])
    def test_values_out_of_range_are_refused(self, y: float, probability: float) -> None:
        """Nothing out of range enters a running stream."""
        with pytest.raises(ValueError, match=r"inclusion|must be|finite"):
            update(run([0.3] * 200), y, probability, SETTINGS)


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


class TestTimesOfLowRates:
    def test_they_cost_later_values_nothing(self) -> None:
        """A few values at a millionth of the rates move bounds and detector as values at full rates do."""
        rng = random.Random(4)
        values = [float(rng.random() < 0.3) for _ in range(600)]
        steady, troubled = StreamState(), StreamState()
        for number, y in enumerate(values):
            factor = 1e-6 if 250 <= number < 253 else 1.0
            steady = update(steady, y, 0.05, SETTINGS)
            troubled = update(troubled, y, 0.05 * factor, SETTINGS, rate_factor=factor)

        assert troubled.low.n == steady.low.n
        assert troubled.low.w == pytest.approx(steady.low.w)
        assert troubled.low.aa == pytest.approx(steady.low.aa)
        assert present(troubled.detector).rising == pytest.approx(present(steady.detector).rising, abs=0.05)
        assert kish_effective_n(troubled.sums) > 0.7 * kish_effective_n(steady.sums)

    def test_a_mean_is_exact_down_to_an_eighth(self) -> None:
        """At an eighth of the rates a value weighs eight times as much, at less of them no more than that."""
        at_full = update(StreamState(), 1.0, 0.4, SETTINGS)
        at_an_eighth = update(at_full, 0.0, 0.05, SETTINGS, rate_factor=1 / 8)
        below = update(at_full, 0.0, 0.4 / 1000, SETTINGS, rate_factor=1 / 1000)

        assert at_an_eighth.sums.w == pytest.approx(2.5 + 20)
        assert below.sums.w == pytest.approx(2.5 + 20)

    def test_within_a_moment_values_weigh_by_their_probabilities(self) -> None:
        """While one key is lowered to a tenth, others' values weigh a tenth of that key's."""
        state = update(StreamState(), 0.5, 0.05, SETTINGS)
        lowered = update(state, 0.5, 0.005, SETTINGS, rate_factor=0.1)
        other = update(lowered, 0.5, 0.05, SETTINGS, rate_factor=0.1)

        assert lowered.low.w - state.low.w == pytest.approx(1.0)
        assert other.low.w - lowered.low.w == pytest.approx(0.1)

    def test_a_state_from_before_goes_on(self) -> None:
        """Stored sums of earlier versions load; the tiny probability that had ruined them is forgotten."""
        state = run([0.3] * 50)
        stored = msgspec.json.decode(msgspec.json.encode(state))
        del stored["least_own"]
        loaded = msgspec.json.decode(msgspec.json.encode(stored | {"min_probability": 1e-9}), type=StreamState)
        after = update(update(loaded, 0.3, 0.5, SETTINGS), 0.3, 0.5, SETTINGS)

        assert after.low.n == 52
        assert after.low.w - state.low.w == pytest.approx(2.0)
