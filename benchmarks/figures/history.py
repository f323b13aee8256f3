"""Draws a control chart of a live stream: means of periods over time, its reference, its marks, and the evidence."""

from collections.abc import Sequence
from functools import partial
from itertools import pairwise

import msgspec

from benchmarks.figures import clock, svg
from benchmarks.figures.display import number
from benchmarks.figures.figure import Figure, Key, Part, Picture
from benchmarks.figures.marks import key, mark
from benchmarks.figures.panels import Measure, Panel, Scale, drop_infinite, interval_between, keep_finite, ticks
from benchmarks.figures.svg import NARROW, WIDE, Element

LEFT, RIGHT = 66.0, 10.0
MARKS, PLOT, AXIS, EVIDENCE = 32.0, 200.0, 40.0, 46.0
"""Heights of the lines of marks, the chart, the time axis and the evidence, from top to bottom."""
BOTTOM = MARKS + PLOT
HEIGHT = BOTTOM + AXIS + EVIDENCE
MISSING_HEIGHT = 14.0
"""Height of a bar at the bottom for a period in which every value is missing."""
TICK_WIDTH = 62.0
"""Width of the widest words below a tick, with the space between two."""
LEAST_SHARE = 0.05
"""Least share of the metric's range that the vertical scale holds."""
ROOM = 0.25
"""Above and below the means and limits, as a share of what they span."""


class Bucket(Measure, frozen=True, kw_only=True):
    """The mean of a period."""

    start: float
    """Unix seconds."""
    end: float
    n: int
    n_missing: int = 0


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A moment from which another model was served."""

    at: float
    words: str


class Chart(msgspec.Struct, frozen=True, kw_only=True):
    """All that is drawn. Values are in the metric's own unit, times are Unix seconds."""

    title: str
    buckets: Sequence[Bucket]
    """Periods in order of time; a period without measurements is absent."""
    low: float
    high: float
    """The metric's own range."""
    axis: str = ""
    reference: tuple[float, float] | None = None
    limits: tuple[float, float] | None = None
    """The reference with the tolerance on both sides."""
    since: float | None = None
    """Moment at which the change of a standing alarm began."""
    alarm: float | None = None
    acknowledged: float | None = None
    changes: Sequence[Change] = ()
    log_evidence: float | None = None
    log_threshold: float
    reason: str | None = None
    """The reason why `buckets` is empty."""


def figure(chart: Chart, *, notes: Sequence[str] = ()) -> Figure:
    """Return the chart with its legend, and in words what it cannot show."""
    reading = "Dots are means of periods with intervals of 95 %, each for its period alone. Times are in UTC."
    picture = Picture(
        title="Over time", reading=summary(chart) if chart.buckets else "", svg=svg.in_both_widths(partial(draw, chart))
    )
    return Figure(
        title=chart.title,
        reading=reading if chart.buckets else "",
        keys=legend(chart) if chart.buckets else (),
        parts=(Part(pictures=(picture,)),),
        notes=(*notes, *_outside(chart)),
    )


def draw(chart: Chart, width: float = WIDE) -> str:
    """The chart as SVG, `width` pixels wide; without buckets the reason in words."""
    if not chart.buckets:
        return _draw_nothing(chart, width)
    picture = svg.canvas(width, HEIGHT, chart.title, description=summary(chart), kind=svg.kind_of(width))
    across, down = _across(chart, width), _down(chart)
    _draw_bands(picture, chart, across, down)
    _draw_axes(picture, chart.axis, across, down)
    _draw_marks(picture, chart, across)
    _draw_missing(picture, chart.buckets, across)
    _draw_means(picture, chart.buckets, across, down)
    _draw_evidence(picture, chart, width)
    return svg.markup(picture)


def legend(chart: Chart) -> tuple[Key, ...]:
    """Return the legend of the marks drawn in this chart."""
    keys = [_mean_key()]
    if chart.reference is not None:
        keys.append(_box_key("reference", 0.0, "reference: where the mean was learned to lie"))
    if chart.limits is not None:
        keys.append(_box_key("tolerance", 0.0, "with its tolerance: no drift up to here"))
    if any(bucket.n_missing for bucket in chart.buckets):
        keys.append(_box_key("missing", 8.0, "share of values that are missing: in no mean"))
    moments = (("since", chart.since, "the change began, estimated"), ("alarm", chart.alarm, "alarm"))
    across = _across(chart, WIDE)
    keys += [_line_key(kind, words) for kind, at, words in moments if at is not None and across.holds(at)]
    if chart.acknowledged is not None and across.holds(chart.acknowledged):
        keys.append(_line_key("acknowledged", "an alarm was acknowledged"))
    if any(across.holds(change.at) for change in chart.changes):
        keys.append(_line_key("change", "another model was served"))
    return tuple(keys)


def summary(chart: Chart) -> str:
    if not chart.buckets:
        return chart.reason or "no history: nothing was measured"
    n, missing = sum(bucket.n for bucket in chart.buckets), sum(bucket.n_missing for bucket in chart.buckets)
    values = keep_finite(bucket.value for bucket in chart.buckets)
    parts = [
        f"{n:,} values in {len(chart.buckets)} period{'' if len(chart.buckets) == 1 else 's'}"
        f" from {clock.format_time(chart.buckets[0].start)} to {clock.format_time(chart.buckets[-1].end)}"
    ]
    if missing:
        parts[0] += f", {missing:,} missing"
    places = _places(chart)
    if values:
        last = number(values[-1], places)
        parts.append(f"Means from {number(min(values), places)} to {number(max(values), places)}, the last {last}")
    if chart.reference is not None:
        parts.append(f"Reference {number(chart.reference[0], places)} to {number(chart.reference[1], places)}")
    if chart.alarm is not None:
        parts.append(f"Alarm at {clock.format_time(chart.alarm)}")
    return ". ".join([*parts, evidence_words(chart)]) + "."


def evidence_words(chart: Chart) -> str:
    """Return the evidence with its threshold, in words."""
    evidence = drop_infinite(chart.log_evidence)
    if evidence is None:
        return f"No evidence yet: {'it still learns' if chart.reference is None else 'nothing was seen since'}"
    verb = "alarmed" if evidence >= chart.log_threshold or chart.alarm is not None else "alarms"
    return f"Log evidence {number(evidence, 1)}; {verb} at {number(chart.log_threshold, 1)}"


def _across(chart: Chart, width: float) -> Scale:
    first, last = chart.buckets[0].start, chart.buckets[-1].end
    return Scale(low=first, high=max(last, first + 1.0), start=LEFT, end=width - RIGHT)


def _down(chart: Chart) -> Scale:
    """Return the vertical scale: means and limits with some space, or the metric's own range without any."""
    seen = keep_finite([bucket.value for bucket in chart.buckets] + [*(chart.reference or ()), *(chart.limits or ())])
    low, high = (min(seen), max(seen)) if seen else (chart.low, chart.high)
    least = LEAST_SHARE * (chart.high - chart.low) or 1.0
    room = max(ROOM * (high - low), (least - (high - low)) / 2)
    below, above = min(low, max(chart.low, low - room)), max(high, min(chart.high, high + room))
    above = max(above, min(chart.high, below + least))
    below = min(below, max(chart.low, above - least))
    if above <= below:
        below, above = below - 1.0, above + 1.0
    return Scale(low=below, high=above, start=BOTTOM, end=MARKS)


def _places(chart: Chart) -> int:
    scale = _down(chart)
    return ticks(scale.low, scale.high)[1] + 1


def _draw_nothing(chart: Chart, width: float) -> str:
    lines = svg.wrapped(summary(chart), width - 2, 13)
    picture = svg.canvas(width, 18.0 * len(lines) + 6, chart.title, description=summary(chart), kind=svg.kind_of(width))
    for place, line in enumerate(lines):
        svg.text(picture, 0, 18.0 * place + 14, line, size=13, class_="soft")
    return svg.markup(picture)


def _draw_bands(picture: Element, chart: Chart, across: Scale, down: Scale) -> None:
    for kind, band in (("tolerance", chart.limits), ("reference", chart.reference)):
        ends = None if band is None else interval_between(*band)
        if ends is None:
            continue
        bottom, top = map(down.at, ends)
        height = max(2.0, bottom - top)
        box = {"x": across.start, "y": (top + bottom - height) / 2, "width": across.end - across.start}
        low, high = (number(end, _places(chart)) for end in ends)
        svg.hint(svg.add(picture, "rect", class_=kind, height=height, **box), f"{kind}: {low} to {high}")


def _draw_axes(picture: Element, name: str, across: Scale, down: Scale) -> None:
    panel = Panel(group=picture, left=across.start, right=across.end, top=MARKS, bottom=BOTTOM)
    panel.draw_axis_left(down, *ticks(down.low, down.high), room=LEFT - 22)
    panel.draw_level("axis", BOTTOM)
    upright = f"translate(11 {(MARKS + BOTTOM) / 2:g}) rotate(-90)"
    svg.text(picture, 0, 0, svg.fitted(name, PLOT, 10), size=10, text_anchor="middle", transform=upright)
    most = max(2, int((across.end - across.start) / TICK_WIDTH))
    for tick in clock.ticks(across.low, across.high, most):
        x = across.at(tick.at)
        svg.add(picture, "line", class_="axis", x1=x, x2=x, y1=BOTTOM, y2=BOTTOM + 4)
        for words, y in ((tick.words, BOTTOM + 16), (tick.day, BOTTOM + 29)):
            if words:
                half = svg.width_of(words, 10) / 2
                inside = max(min(x, across.end + RIGHT - half), half)
                svg.text(picture, inside, y, words, size=10, class_="soft", text_anchor="middle")


def _draw_marks(picture: Element, chart: Chart, across: Scale) -> None:
    for change in chart.changes:
        if across.holds(change.at):
            x = across.at(change.at)
            drawn = svg.add(picture, "g", class_="change-mark")
            svg.hint(drawn, f"{change.words}, {clock.format_time(change.at)}")
            svg.add(drawn, "line", class_="change", x1=x, x2=x, y1=MARKS, y2=BOTTOM)
            svg.add(drawn, "path", class_="change", d=f"M{x:.2f} {MARKS - 6:.2f}l4 6h-8z")
    lines = (("since", chart.since, "change", 10.0), ("alarm", chart.alarm, "alarm", 22.0))
    for kind, at, words, y in (*lines, ("acknowledged", chart.acknowledged, "acknowledged", 22.0)):
        if at is None or not across.holds(at) or (kind == "acknowledged" and chart.alarm is not None):
            continue
        x, wide = across.at(at), svg.width_of(words, 10)
        drawn = svg.add(picture, "g", class_=f"{kind}-mark")
        svg.hint(drawn, f"{words}: {clock.format_time(at)}")
        svg.add(drawn, "line", class_=kind, x1=x, x2=x, y1=y - 8, y2=BOTTOM)
        is_near_end = x + 4 + wide > across.end + RIGHT
        side, anchor = (x - 4, "end") if is_near_end else (x + 4, "start")
        svg.text(drawn, side, y, words, size=10, class_=f"{kind}-words halo", text_anchor=anchor)


def _draw_missing(picture: Element, buckets: Sequence[Bucket], across: Scale) -> None:
    for bucket in buckets:
        if bucket.n_missing:
            left, right = across.at(bucket.start), across.at(bucket.end)
            height = max(1.5, MISSING_HEIGHT * bucket.n_missing / (bucket.n + bucket.n_missing))
            box = {"x": left, "y": BOTTOM - height, "width": max(1.0, right - left - 0.5), "height": height}
            svg.hint(svg.add(picture, "rect", class_="missing", **box), _words_of(bucket))


def _draw_means(picture: Element, buckets: Sequence[Bucket], across: Scale, down: Scale) -> None:
    places = [
        None if (value := bucket.drawable) is None else (across.at((bucket.start + bucket.end) / 2), down.at(value))
        for bucket in buckets
    ]
    for (bucket, here), (following, there) in pairwise(zip(buckets, places, strict=True)):
        if here and there and bucket.end == following.start:
            svg.add(picture, "polyline", class_="outline line series-0", points=svg.points([here, there]))
    radius = 3 if len(places) - places.count(None) > 30 else 4
    for bucket, place in zip(buckets, places, strict=True):
        if place is None:
            continue
        x, y = place
        drawn = svg.add(picture, "g", class_="bucket", data_start=f"{bucket.start:.0f}")
        svg.hint(drawn, _words_of(bucket))
        if bucket.interval is not None:
            lower, upper = bucket.interval
            bars = "".join(f"M{x - 2:.2f} {down.at(end):.2f}h4" for end in bucket.interval if down.holds(end))
            path = f"M{x:.2f} {down.at(lower):.2f}V{down.at(upper):.2f}"
            svg.add(drawn, "path", class_="whisker thin", d=path + bars)
        mark(drawn, 0, x, y, radius=radius)


def _words_of(bucket: Bucket) -> str:
    value = bucket.drawable
    words = "no value" if value is None else number(value, 3)
    if value is not None and bucket.interval is not None:
        lower, upper = (number(end, 3) for end in bucket.interval)
        words += f" ({lower} to {upper})"
    missing = f", {bucket.n_missing:,} missing" if bucket.n_missing else ""
    return f"{clock.format_time(bucket.start)} to {clock.format_time(bucket.end)}: {words}, n = {bucket.n:,}{missing}"


def _draw_evidence(picture: Element, chart: Chart, width: float) -> None:
    top = BOTTOM + AXIS
    start = 0.0 if width <= NARROW else LEFT
    words = svg.fitted(evidence_words(chart), width - start, 11)
    svg.text(picture, start, top + 12, words, size=11, class_="strong")
    evidence, threshold = drop_infinite(chart.log_evidence) or 0.0, max(chart.log_threshold, 1e-9)
    bar = Scale(low=0.0, high=1.25 * max(evidence, threshold), start=LEFT, end=width - RIGHT)
    group = svg.add(picture, "g", class_="evidence")
    svg.hint(group, evidence_words(chart))
    svg.add(group, "rect", class_="rest", x=bar.start, y=top + 22, width=bar.end - bar.start, height=10)
    kind = "alarm-fill" if evidence >= threshold else "bar-fill series-0"
    if evidence > 0:
        svg.add(group, "rect", class_=kind, x=bar.start, y=top + 22, width=bar.at(evidence) - bar.start, height=10)
    x = bar.at(threshold)
    svg.add(group, "line", class_="threshold", x1=x, x2=x, y1=top + 18, y2=top + 36)


def _outside(chart: Chart) -> list[str]:
    if not chart.buckets:
        return []
    across = _across(chart, WIDE)
    moments = (("The change began", chart.since), ("The alarm was raised", chart.alarm))
    return [
        f"{words} at {clock.format_time(at)}, which is not in the picture."
        for words, at in moments
        if at is not None and not across.holds(at)
    ]


def _mean_key() -> Key:
    line = svg.add(None, "line", class_="outline series-0", x1=1, x2=35, y1=8, y2=8)
    whisker = svg.add(None, "path", class_="whisker thin", d="M18 1V15")
    return key("mean of a period, with its interval", line, whisker, mark(None, 0, 18, 8))


def _box_key(kind: str, inset: float, words: str) -> Key:
    return key(words, svg.add(None, "rect", class_=kind, x=1, y=1 + inset, width=34, height=14 - inset))


def _line_key(kind: str, words: str) -> Key:
    return key(words, svg.add(None, "line", class_=kind, x1=18, x2=18, y1=1, y2=15))
