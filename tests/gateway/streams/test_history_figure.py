"""The figure of a live stream's history, from its store's form: nothing is lost or made up on the way."""

from gateway.store.served import ModelChange
from gateway.streams.detectors import Bounds
from gateway.streams.history import Bucket, History
from gateway.streams.history_figure import chart_of, figure_of


def history(*buckets: Bucket, **given: object) -> History:
    fields: dict[str, object] = {
        "stream": "s",
        "auditor": "judge",
        "metric": "favoritism",
        "axis": "gender",
        "group": "women",
        "model": "qwen",
        "instrument": "v1",
        "range": (-1.0, 2.0),
        "window": None,
        "bucket_seconds": 60,
        "n": 3,
        "n_missing": 1,
        "n_measurements": 4,
        "is_cut": True,
        "reason": None,
        "state": "alarm",
        "reference": Bounds(0.0, 0.1),
        "limits": Bounds(-0.1, 0.2),
        "since": 60.0,
        "alarm_since": 90.0,
        "acknowledged_at": None,
        "log_evidence": 15.0,
        "log_threshold": 14.0,
        "model_changes": [ModelChange(70.0, "up", "a" * 64, "b" * 64)],
        "updated_at": 100.0,
    }
    return History(buckets=list(buckets), **fields | given)  # type: ignore[arg-type]


def test_all_that_a_history_has_is_drawn() -> None:
    """Buckets, reference and limits, the moments, and both fingerprints of a change."""
    one = Bucket(start=60.0, end=120.0, value=0.4, lower=0.1, upper=0.7, n=3, n_missing=1, excluded={"error": 1})
    drawn = chart_of(history(one))

    assert (drawn.title, drawn.low, drawn.high) == ("favoritism (gender, women) of qwen", -1.0, 2.0)
    assert [(b.start, b.end, b.value, b.lower, b.upper, b.n, b.n_missing) for b in drawn.buckets] == [
        (60.0, 120.0, 0.4, 0.1, 0.7, 3, 1)
    ]
    assert (drawn.reference, drawn.limits) == ((0.0, 0.1), (-0.1, 0.2))
    assert (drawn.since, drawn.alarm, drawn.log_evidence, drawn.log_threshold) == (60.0, 90.0, 15.0, 14.0)
    assert drawn.changes[0].words == "up serves bbbbbbbbbbbb after aaaaaaaaaaaa"


def test_what_is_left_out_is_said_on_the_figure() -> None:
    """That only the newest are read, of which window, and the range that the scale is not of."""
    one = Bucket(start=60.0, end=120.0, value=0.4, lower=0.1, upper=0.7, n=3, n_missing=1, excluded={"error": 1})
    assert figure_of(history(one, window="24h")).notes == (
        "The vertical scale is of what is seen; the metric goes from −1 to 2.",
        "Older measurements are left out: the newest 20,000 are read.",
        "Of the window 24h.",
    )


def test_a_stream_without_a_history_says_why() -> None:
    """In the picture's place, with no notes about a scale that there is none of."""
    shown = figure_of(history(reason="no history: a gap is made of blocks of audits"))

    assert "no history: a gap is made of blocks" in shown.parts[0].pictures[0].svg
    assert (shown.notes, shown.keys) == ((), ())


def test_a_ratio_is_scaled_as_ratios_usually_are() -> None:
    """Not by the largest that could be shown, on which a fifth more would be a line's width."""
    drawn = chart_of(history(metric="decision_impact_ratio", range=(0.0, 100.0)))
    assert (drawn.low, drawn.high) == (0.0, 4.0)
