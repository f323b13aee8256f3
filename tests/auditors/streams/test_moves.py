"""Which streams moved, the mean since a change, and a change shown to be small: promises, by seeded simulation."""

import math

import msgspec
import pytest

from auditors.metrics.intervals import Interval
from auditors.streams import drift, moves
from auditors.streams.drift import Detector, DriftSettings
from auditors.streams.state import StreamState
from tools.bench import moves as simulation

SETTINGS = DriftSettings(average_run_length=1000, equivalence_margin=0.1)


def seen(scores: list[float], settings: DriftSettings = SETTINGS) -> Detector:
    detector = drift.start(Interval(0.38, 0.42), settings)
    for n, y in enumerate(scores):
        detector = drift.step(detector, y, 1.0, settings, at=float(n))
    return detector


def test_the_list_holds_the_streams_up_to_the_last_that_reaches_its_share() -> None:
    """e-BH of ten streams at 10 %: the k largest e-values need 100 / k each; a later success takes earlier ones in."""
    log_e_values = {"a": math.log(60), "b": math.log(50), "c": math.log(34), "d": math.log(24)}

    assert moves.moved(log_e_values, 10, 0.1) == ["a", "b", "c"]
    assert moves.moved(log_e_values, 40, 0.1) == []
    with pytest.raises(ValueError, match="false discovery rate 1"):
        moves.moved(log_e_values, 10, 1.0)


@pytest.mark.statistical
def test_planted_streams_are_listed_and_hardly_any_other() -> None:
    """5 of 20 streams move: 5 % of the list at most is false; e-values mean at most 1 where a rule stops for a 2."""
    false_share, power = simulation.false_discoveries(40, 0.05)

    assert false_share <= 0.05
    assert power > 0.9
    assert simulation.largest_mean_e_value(1000) <= 1.0


@pytest.mark.statistical
def test_the_interval_since_a_change_holds_wherever_it_began() -> None:
    """At any look from the alarm on, the new mean lies within it in 95 % of the runs or more."""
    missed, width, without = simulation.since_change_missed(20, 100)

    assert missed <= 0.05
    assert width < 0.8
    assert without < 0.05


@pytest.mark.statistical
def test_a_change_as_large_as_the_margin_is_hardly_ever_called_smaller() -> None:
    """None at all is shown to be smaller in most runs; at the margin the claim is false in 5 % of the runs at most."""
    assert simulation.claimed_smaller(5, 0.0, 3000)[0] >= 0.6
    assert simulation.claimed_smaller(20, 0.1, 1000)[0] <= 0.05


@pytest.mark.statistical
def test_all_evidence_together_alarms_no_later_than_each_stream_alone() -> None:
    """Of 24 streams, 4 of which move: not later than at 24 A each, at the same seed."""
    each, together = simulation.families(10, 4)

    assert together <= each


def test_smaller_since_is_the_first_audit_of_a_claim_that_stands() -> None:
    """It stays while the claim holds, ends with an alarm, and begins again where the margin is another."""
    calm = seen([0.4] * 400)
    later = seen([0.4] * 500)
    other = msgspec.structs.replace(SETTINGS, equivalence_margin=0.2)
    changed = drift.step(later, 0.4, 1.0, other, at=501.0)
    alarmed = seen([0.4] * 400 + [1.0] * 60)

    assert calm.smaller is not None
    assert calm.smaller == later.smaller
    assert 0.0 < (calm.smaller.since or 0.0) < 400.0
    assert changed.smaller == drift.Smaller(0.2, 501.0)
    assert (alarmed.alarm, alarmed.smaller) == (True, None)
    assert seen([0.4] * 5).smaller is None


def test_a_detector_from_before_goes_on() -> None:
    """A state without the newer sums is read, keeps its evidence, and says of what it lacks that it is unknown."""
    alarmed = seen([0.4] * 50 + [1.0] * 60)
    older = msgspec.to_builtins(alarmed)
    for name in ("watched", "n_begun", "smaller"):
        del older[name]
    for side in ("behind_rising", "behind_falling"):
        older[side] = older[side][:4]
    read = msgspec.convert(older, Detector)
    stepped = drift.step(read, 1.0, 1.0, SETTINGS)

    assert (read.alarm, read.log_evidence) == (True, alarmed.log_evidence)
    assert moves.since_change(alarmed) is not None
    assert moves.since_change(stepped) is None
    assert stepped.watched.n == 1
    assert moves.log_e_value(StreamState(detector=stepped), is_gap=True) is None
    assert moves.log_e_value(StreamState(detector=stepped), is_gap=False) is not None
