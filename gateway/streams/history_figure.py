"""The control chart of a stream: means over time, the reference, what happened when, and the evidence. It imports the
benchmarks' drawing, so it is imported when asked for.
"""

from collections.abc import Iterator
from functools import partial
from itertools import pairwise

import msgspec

from auditors.streams.scales import scale_of
from auditors.structs import combine
from benchmarks.figures import clock, svg
from benchmarks.figures.display import between, number, with_ends
from benchmarks.figures.figure import Figure, Key, alone
from benchmarks.figures.marks import box_key, dot, key, mark, rule_key
from benchmarks.figures.panels import Panel, Point, Scale, keep_finite, spanning
from benchmarks.figures.svg import NARROW, WIDE, add, hint, text
from gateway.streams.history import Bucket, History

LEFT, RIGHT = 66.0, 10.0
MARKS, PLOT, AXIS, EVIDENCE = 32.0, 200.0, 40.0, 46.0
"""Heights of the lines of marks, the chart, the time axis and the evidence, from top to bottom."""
BOTTOM = MARKS + PLOT
MISSING_HEIGHT = 14.0
"""Height of a bar at the bottom for a period in which every value is missing."""
TICK_WIDTH = 62.0
"""Width of the widest words below a tick, with the space between two."""
LEAST_SHARE = 0.05
"""Least share of the metric's range that the vertical scale holds."""
ROOM = 0.25
"""Above and below the means and limits, as a share of what they span."""
USUAL_RATIO = 4.0
"""A ratio has no end of its own; its chart is scaled as if this were it, and holds what is above all the same."""
BANDS = {
    "tolerance": ("limits", "with its tolerance: no drift up to here"),
    "reference": ("reference", "reference: where the mean was learned to lie"),
}
"""Field of the history and words of the legend, by the class of a band."""
MOMENTS = {
    "since": ("since", "change", "the change began, estimated", 10.0),
    "alarm": ("alarm_since", "alarm", "alarm", 22.0),
    "acknowledged": ("acknowledged_at", "acknowledged", "an alarm was acknowledged", 22.0),
}
"""Field of the history, words at the top and in the legend, and pixels of the former, by the class of a line."""


def figure_of(history: History) -> Figure:
    """Return the chart with its legend and notes, as pages, reports and prints show it."""
    has_means = bool(history.buckets)
    reading = "Dots are means of periods with intervals of 95 %, each for its period alone. Times are in UTC."
    drawn = svg.in_both_widths(partial(draw, history))
    return Figure(
        title=_title(history),
        reading=reading if has_means else "",
        keys=tuple(_legend(history)) if has_means else (),
        parts=alone(drawn, "Over time", summary(history) if has_means else ""),
        notes=tuple(_notes(history)) if has_means else (),
    )


def _title(history: History) -> str:
    about = ", ".join(name for name in (history.axis, history.group) if name)
    return f"{history.metric.replace('_', ' ')}{f' ({about})' if about else ''} of {history.model}"


def _notes(history: History) -> Iterator[str]:
    ends = " to ".join(f"{end:g}".replace("-", "−") for end in history.range)
    yield f"The vertical scale is of what is seen; the metric goes from {ends}."
    if history.is_cut:
        yield f"Older measurements are left out: the newest {history.most_measurements:,} are read."
    if history.window is not None:
        yield f"Of the window {history.window}."
    for words, at in (("The change began", history.since), ("The alarm was raised", history.alarm_since)):
        if at is not None and not _across(history).holds(at):
            yield f"{words} at {clock.format_time(at)}, which is not in the picture."


def draw(history: History, width: float = WIDE) -> str:
    """The chart as SVG, `width` pixels wide; without buckets the reason in words."""
    if not history.buckets:
        return svg.nothing(width, _title(history), summary(history))
    size, kind = (width, BOTTOM + AXIS + EVIDENCE), svg.kind_of(width)
    picture = svg.canvas(*size, _title(history), description=summary(history), kind=kind)
    panel = Panel(group=picture, x=_across(history, width), y=_down(history))
    _draw_bands(panel, history)
    _draw_axes(panel, f"mean {history.metric.replace('_', ' ')}")
    _draw_moments(panel, history)
    _draw_means(panel, history.buckets)
    _draw_evidence(panel, history, 0.0 if width <= NARROW else LEFT)
    return svg.markup(picture)


def _legend(history: History) -> Iterator[Key]:
    """Yield the entries of the marks that are drawn."""
    line = add(None, "line", class_="outline series-0", x1=1, x2=35, y1=8, y2=8)
    whisker = add(None, "path", class_="whisker thin", d="M18 1V15")
    yield key("mean of a period, with its interval", line, whisker, mark(None, 0, 18, 8))
    bands = [box_key(kind, words) for kind, (field, words) in BANDS.items() if getattr(history, field) is not None]
    yield from reversed(bands)
    if any(bucket.n_missing for bucket in history.buckets):
        yield box_key("missing", "share of values that are missing: in no mean", height=6.0)
    yield from (rule_key(kind, MOMENTS[kind][2]) for kind, _ in _moments(history))
    if any(_across(history).holds(change.at) for change in history.model_changes):
        yield rule_key("change", "another model was served")


def _moments(history: History) -> Iterator[tuple[str, float]]:
    """Yield class and time of the lines in the picture; an acknowledgement is of an alarm that is over."""
    for kind, (field, *_) in MOMENTS.items():
        at = getattr(history, field)
        if at is not None and _across(history).holds(at) and (kind != "acknowledged" or history.alarm_since is None):
            yield kind, at


def summary(history: History) -> str:
    if not history.buckets:
        return history.reason or "no history: nothing was measured"
    n, missing = sum(bucket.n for bucket in history.buckets), sum(bucket.n_missing for bucket in history.buckets)
    values, places = keep_finite(bucket.value for bucket in history.buckets), _places(history)
    parts = [
        f"{n:,} values in {len(history.buckets)} period{'' if len(history.buckets) == 1 else 's'}"
        f" from {clock.format_time(history.buckets[0].start)} to {clock.format_time(history.buckets[-1].end)}"
        + (f", {missing:,} missing" if missing else "")
    ]
    if values:
        low, high, last = (number(value, places) for value in (min(values), max(values), values[-1]))
        parts.append(f"Means from {low} to {high}, the last {last}")
    if (known := history.reference) is not None:
        parts.append(f"Reference {between(known.lower, known.upper, places)}")
    if history.alarm_since is not None:
        parts.append(f"Alarm at {clock.format_time(history.alarm_since)}")
    return ". ".join([*parts, evidence_words(history)]) + "."


def evidence_words(history: History) -> str:
    """Return the evidence with its threshold, in words."""
    evidence = history.log_evidence
    if evidence is None:
        return f"No evidence yet: {'it still learns' if history.reference is None else 'nothing was seen since'}"
    verb = "alarmed" if evidence >= history.log_threshold or history.alarm_since is not None else "alarms"
    return f"Log evidence {number(evidence, 1)}; {verb} at {number(history.log_threshold, 1)}"


def _across(history: History, width: float = WIDE) -> Scale:
    first, last = history.buckets[0].start, history.buckets[-1].end
    return Scale(low=first, high=max(last, first + 1.0), start=LEFT, end=width - RIGHT)


def _down(history: History) -> Scale:
    """Return the vertical scale: means and limits with some space, or the metric's own range without any."""
    bands = [end for band in (history.reference, history.limits) if band for end in (band.lower, band.upper)]
    low, high = history.range
    if scale_of(history.metric).is_ratio:
        high = min(high, USUAL_RATIO)
    seen = [*(bucket.value for bucket in history.buckets), *bands]
    least = LEAST_SHARE * (high - low) or 1.0
    return spanning(seen, BOTTOM, MARKS, room=ROOM, low=low, high=high, least=least)


def _places(history: History) -> int:
    return _down(history).places + 1


def _draw_bands(panel: Panel, history: History) -> None:
    for kind, (field, _) in BANDS.items():
        if (band := getattr(history, field)) is not None:
            bottom, top = panel.y.at(band.lower), panel.y.at(band.upper)
            height = max(2.0, bottom - top)
            box = {"x": panel.x.start, "y": (top + bottom - height) / 2, "width": panel.x.end - panel.x.start}
            words = f"{kind}: {between(band.lower, band.upper, _places(history))}"
            hint(add(panel.group, "rect", class_=kind, height=height, **box), words)


def _draw_axes(panel: Panel, name: str) -> None:
    panel.axis_left(panel.y.ticks(), room=LEFT - 22)
    panel.level("axis", panel.y.low)
    upright = f"translate(11 {(MARKS + BOTTOM) / 2:g}) rotate(-90)"
    text(panel.group, 0, 0, name, size=10, room=PLOT, text_anchor="middle", transform=upright)
    across = panel.x
    for tick in clock.ticks(across.low, across.high, max(2, int((across.end - across.start) / TICK_WIDTH))):
        x = across.at(tick.at)
        add(panel.group, "line", class_="axis", x1=x, x2=x, y1=BOTTOM, y2=BOTTOM + 4)
        for words, y in ((tick.words, BOTTOM + 16), (tick.day, BOTTOM + 29)):
            half = svg.width_of(words, 10) / 2
            inside = max(min(x, across.end + RIGHT - half), half)
            text(panel.group, inside, y, words, size=10, class_="soft", text_anchor="middle")


def _draw_moments(panel: Panel, history: History) -> None:
    for change in history.model_changes:
        if panel.x.holds(change.at):
            x, drawn = panel.x.at(change.at), add(panel.group, "g", class_="change-mark")
            served = f"{change.upstream} serves {change.fingerprint_after[:12]} after {change.fingerprint_before[:12]}"
            hint(drawn, f"{served}, {clock.format_time(change.at)}")
            add(drawn, "line", class_="change", x1=x, x2=x, y1=MARKS, y2=BOTTOM)
            add(drawn, "path", class_="change", d=f"M{x:.2f} {MARKS - 6:.2f}l4 6h-8z")
    for kind, at in _moments(history):
        _, words, _, y = MOMENTS[kind]
        x, drawn = panel.x.at(at), add(panel.group, "g", class_=f"{kind}-mark")
        hint(drawn, f"{words}: {clock.format_time(at)}")
        add(drawn, "line", class_=kind, x1=x, x2=x, y1=y - 8, y2=BOTTOM)
        is_near_end = x + 4 + svg.width_of(words, 10) > panel.x.end + RIGHT
        shift, anchor = (-4, "end") if is_near_end else (4, "start")
        text(drawn, x + shift, y, words, size=10, class_=f"{kind}-words halo", text_anchor=anchor)


def _draw_means(panel: Panel, buckets: list[Bucket]) -> None:
    """Draw means with intervals, joined where no period is between them, and the share of what is missing below."""
    points = [(bucket, _point(bucket)) for bucket in buckets]
    for bucket, point in points:
        if bucket.n_missing:
            left, right = panel.x.at(bucket.start), panel.x.at(bucket.end)
            height = max(1.5, MISSING_HEIGHT * bucket.n_missing / (bucket.n + bucket.n_missing))
            box = {"x": left, "y": BOTTOM - height, "width": max(1.0, right - left - 0.5), "height": height}
            hint(add(panel.group, "rect", class_="missing", **box), point.words)
    defined = [
        (bucket, point, panel.x.at((bucket.start + bucket.end) / 2))
        for bucket, point in points
        if point.drawable is not None
    ]
    for (bucket, here, x1), (following, there, x2) in pairwise(defined):
        if bucket.end == following.start:
            ends = [(x, panel.y.at(point.value or 0.0)) for x, point in ((x1, here), (x2, there))]
            add(panel.group, "polyline", class_="outline line series-0", points=svg.points(ends))
    radius = 3 if len(defined) > 30 else 4
    for bucket, point, x in defined:
        group = add(panel.group, "g", class_="bucket", data_start=f"{bucket.start:.0f}")
        dot(group, 0, x, point, panel.y, kind="thin", radius=radius)


def _point(bucket: Bucket) -> Point:
    point = combine(Point, bucket)
    lower, upper = point.interval or (None, None)
    words = "no value" if point.drawable is None else with_ends(bucket.value, lower, upper, 3)
    missing = f", {bucket.n_missing:,} missing" if bucket.n_missing else ""
    period = f"{clock.format_time(bucket.start)} to {clock.format_time(bucket.end)}"
    return msgspec.structs.replace(point, words=f"{period}: {words}, n = {bucket.n:,}{missing}")


def _draw_evidence(panel: Panel, history: History, left: float) -> None:
    top, words = BOTTOM + AXIS, evidence_words(history)
    text(panel.group, left, top + 12, words, size=11, room=panel.x.end + RIGHT - left, class_="strong")
    evidence, threshold = history.log_evidence or 0.0, max(history.log_threshold, 1e-9)
    bar = Scale(low=0.0, high=1.25 * max(evidence, threshold), start=panel.x.start, end=panel.x.end)
    group = add(panel.group, "g", class_="evidence")
    hint(group, words)
    kind = "alarm-fill" if evidence >= threshold else "bar-fill series-0"
    for fill, value in (("rest", bar.high), (kind, evidence)):
        if value > 0:
            add(group, "rect", class_=fill, x=bar.start, y=top + 22, width=bar.at(value) - bar.start, height=10)
    x = bar.at(threshold)
    add(group, "line", class_="threshold", x1=x, x2=x, y1=top + 18, y2=top + 36)
