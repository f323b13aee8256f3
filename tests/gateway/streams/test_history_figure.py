"""The control chart of a live stream: where everything lies, what is left out, and what hostile input does to it."""

import math
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from benchmarks.figures.svg import NARROW, WIDE
from gateway.store.served import ModelChange
from gateway.streams import history_figure
from gateway.streams.detectors import Bounds
from gateway.streams.history import Bucket, History
from tests.support.benchmarks.drawn import HOSTILE, assert_inert, of_class

SVG = ET.Element
START = 1_767_225_600.0
"""2026-01-01 00:00 UTC."""
TOP, BOTTOM = history_figure.MARKS, history_figure.BOTTOM
LEFT, RIGHT = history_figure.LEFT, WIDE - history_figure.RIGHT
ABSENT = ("axis", "group", "window", "bucket_seconds", "reason", "reference", "limits", "since", "alarm_since")


def bucket(place: int, value: float | None = 0.5, **given: Any) -> Bucket:
    """Ten minutes; four make the chart of `chart`."""
    fields = {"start": START + 600 * place, "end": START + 600 * (place + 1), "n": 0 if value is None else 100}
    blank: dict[str, Any] = {"lower": None, "upper": None, "n_missing": 0, "excluded": {}}
    return Bucket(**blank | fields | {"value": value} | given)


def chart(*buckets: Bucket, **given: Any) -> History:
    fields: dict[str, Any] = dict.fromkeys((*ABSENT, "acknowledged_at", "log_evidence"))
    fields |= dict.fromkeys(("stream", "auditor", "instrument"), "s") | {"metric": "favoritism", "model": "m"}
    fields |= dict.fromkeys(("n", "n_missing", "n_measurements", "updated_at"), 0) | {"is_cut": False}
    fields |= {"range": (0.0, 1.0), "state": "watching", "log_threshold": 10.0, "model_changes": []}
    return History(buckets=list(buckets), **fields | given)


def drawn(shown: History, width: float = WIDE) -> SVG:
    return ET.fromstring(history_figure.draw(shown, width))


def number(element: SVG, name: str) -> float:
    return float(element.attrib[name])


def test_means_lie_where_they_belong() -> None:
    """On the limits' scale with a quarter of room: 0.3 to 0.7 are 0.2 to 0.8; across in the middle of their period."""
    shown = drawn(chart(bucket(0, 0.3), bucket(1, 0.5), bucket(3, 0.7), limits=Bounds(0.3, 0.7)))
    marks = [one for group in of_class(shown, "bucket") for one in group if "mark" in one.get("class", "")]
    step = (RIGHT - LEFT) / 4

    assert [number(one, "cx") for one in marks] == pytest.approx([LEFT + step * x for x in (0.5, 1.5, 3.5)], abs=0.01)
    expected = [BOTTOM - (BOTTOM - TOP) * share for share in (1 / 6, 0.5, 5 / 6)]
    assert [number(one, "cy") for one in marks] == pytest.approx(expected, abs=0.01)
    assert "mean favoritism" in shown.itertext()


def test_no_line_goes_over_a_period_without_a_mean() -> None:
    """Neither over one that is absent nor over one whose values are all missing; neither is a zero."""
    shown = drawn(chart(bucket(0), bucket(1), bucket(3), bucket(4, None, n_missing=7), bucket(5)))

    assert len(of_class(shown, "line", "polyline")) == 1
    assert len(of_class(shown, "bucket")) == 4
    [missing] = of_class(shown, "missing")
    assert number(missing, "height") == history_figure.MISSING_HEIGHT
    assert "no value, n = 0, 7 missing" in "".join(missing.itertext())


def test_marks_lie_at_their_moments() -> None:
    """Change, alarm and new model; what is not in the picture is said in a note and not drawn."""
    change = ModelChange(START + 1200, "up", "a", "b")
    shown = chart(bucket(0), bucket(1), bucket(3), since=START + 600, alarm_since=START + 1800, model_changes=[change])
    picture = drawn(shown)
    step = (RIGHT - LEFT) / 4

    for kind, place in (("since", 1), ("change", 2), ("alarm", 3)):
        [line] = of_class(picture, kind, "line")
        assert number(line, "x1") == number(line, "x2") == pytest.approx(LEFT + place * step, abs=0.01)
    early = chart(bucket(0), since=START - 5, alarm_since=START + 1)
    assert of_class(drawn(early), "since", "line") == []
    assert history_figure.figure_of(early).notes == (
        "The vertical scale is of what is seen; the metric goes from 0 to 1.",
        "The change began at 31 Dec 2025 23:59:55 UTC, which is not in the picture.",
    )


@pytest.mark.parametrize(
    ("evidence", "share", "words"),
    [
        (5.0, 0.5, "Log evidence 5.0; alarms at 10.0"),
        (10.0, 1.0, "Log evidence 10.0; alarmed at 10.0"),
        (20.0, 1.0, "Log evidence 20.0; alarmed at 10.0"),
        (-3.0, None, "Log evidence −3.0; alarms at 10.0"),
        (None, None, "No evidence yet: it still learns"),
    ],
)
def test_evidence_beside_its_threshold(evidence: float | None, share: float | None, words: str) -> None:
    """A bar as long as its share of the longer of both, four fifths of the room; in words below it, none as none."""
    shown = drawn(chart(bucket(0), log_evidence=evidence))
    [group], [threshold] = of_class(shown, "evidence"), of_class(shown, "threshold")
    bars = [one for one in group.iter("rect") if one.get("class") != "rest"]
    room = 0.8 * (RIGHT - LEFT)

    assert words in [one.text for one in shown.iter("text")]
    assert [number(one, "width") for one in bars] == ([] if share is None else [pytest.approx(share * room, abs=0.01)])
    at = 0.5 if evidence == 20.0 else 1.0
    assert number(threshold, "x1") == pytest.approx(LEFT + at * room, abs=0.01)


@pytest.mark.parametrize("value", [None, math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_not_drawn(value: float | None) -> None:
    """Neither a dot nor a coordinate that is none; the axis is then the metric's own range."""
    picture = history_figure.draw(chart(bucket(0, value), bucket(1, value), range=(-1.0, 2.0)))
    found = ET.fromstring(picture)

    assert of_class(found, "bucket") == []
    assert "nan" not in picture
    assert "inf" not in picture
    assert [one.text for one in found.iter("text") if one.get("text-anchor") == "end"] == ["−1", "0", "1", "2"]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_text(name: str) -> None:
    """Well-formed markup that can be encoded, without a script, a style or an attribute that runs."""
    change = ModelChange(START + 1, name, name, name)
    shown = chart(bucket(0), model=name, axis=name, group=name, model_changes=[change], reason=name)
    assert_inert(history_figure.figure_of(shown).parts[0].pictures[0].svg)


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_many_buckets_and_changes_stay_within(width: float) -> None:
    """Every coordinate within the picture, however many there are."""
    changes = [ModelChange(START + 500 * place, "x", "a", "b") for place in range(200)]
    shown = chart(*(bucket(place, place / 200, n_missing=3) for place in range(200)), model_changes=changes)
    picture = drawn(shown, width)

    for one in picture.iter():
        for name in ("x", "x1", "x2", "cx"):
            assert -0.01 <= float(one.get(name, 0.0)) <= width + 0.01
    assert len(of_class(picture, "bucket")) == 200


def test_the_summary_says_what_is_seen() -> None:
    """For whoever cannot see it: counts, times, means, reference, alarm and evidence."""
    shown = chart(
        bucket(0, 0.25),
        bucket(1, 0.5, n_missing=4),
        reference=Bounds(0.2, 0.3),
        alarm_since=START + 900,
        log_evidence=12.0,
    )

    assert history_figure.summary(shown) == (
        "200 values in 2 periods from 1 Jan 2026 00:00:00 UTC to 1 Jan 2026 00:20:00 UTC, 4 missing. "
        "Means from 0.25 to 0.50, the last 0.50. Reference 0.20 to 0.30. Alarm at 1 Jan 2026 00:15:00 UTC. "
        "Log evidence 12.0; alarmed at 10.0."
    )
    assert history_figure.summary(shown) == drawn(shown).findtext("desc")
