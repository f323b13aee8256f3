"""The control chart of a live stream: means over time, the reference, what happened when, and the evidence."""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise

import msgspec

from benchmarks.figures import clock, svg
from benchmarks.figures.display import number
from benchmarks.figures.figure import Figure, Key, alone
from benchmarks.figures.marks import box_key, dot, key, mark, rule_key
from benchmarks.figures.panels import (
    Measure,
    Panel,
    Scale,
    drop_infinite,
    interval_between,
    keep_finite,
    spanning,
    ticks,
)
from benchmarks.figures.svg import NARROW, WIDE, Element, add, hint, text

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
BANDS = (
    ("tolerance", "limits", "with its tolerance: no drift up to here"),
    ("reference", "reference", "reference: where the mean was learned to lie"),
)
"""Class of a band, field of the chart and words of the legend."""
MOMENTS = (
    ("since", "change", "the change began, estimated", 10.0),
    ("alarm", "alarm", "alarm", 22.0),
    ("acknowledged", "acknowledged", "an alarm was acknowledged", 22.0),
)
"""Field of the chart and class of an upright line, words at its top, words of the legend, pixels of its words."""


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

    @property
    def across(self) -> Scale:
        """The time from the first to the last period; its pixels are those of a wide picture."""
        first, last = self.buckets[0].start, self.buckets[-1].end
        return Scale(low=first, high=max(last, first + 1.0), start=LEFT, end=WIDE - RIGHT)

    @property
    def down(self) -> Scale:
        """The vertical scale: means and limits with some space, or the metric's own range without any."""
        seen = [*(bucket.value for bucket in self.buckets), *(self.reference or ()), *(self.limits or ())]
        least = LEAST_SHARE * (self.high - self.low) or 1.0
        return spanning(seen, BOTTOM, MARKS, room=ROOM, low=self.low, high=self.high, least=least)

    @property
    def places(self) -> int:
        """Decimals of a mean."""
        return ticks(self.down.low, self.down.high)[1] + 1


def figure(chart: Chart, *, notes: Sequence[str] = ()) -> Figure:
    """Return the chart with its legend, and in words what it cannot show."""
    drawn = svg.in_both_widths(partial(draw, chart))
    if not chart.buckets:
        return Figure(title=chart.title, parts=alone(drawn, "Over time"), notes=tuple(notes))
    moments = (("The change began", chart.since), ("The alarm was raised", chart.alarm))
    outside = [
        f"{words} at {clock.format_time(at)}, which is not in the picture."
        for words, at in moments
        if at is not None and not chart.across.holds(at)
    ]
    return Figure(
        title=chart.title,
        reading="Dots are means of periods with intervals of 95 %, each for its period alone. Times are in UTC.",
        keys=tuple(_legend(chart)),
        parts=alone(drawn, "Over time", summary(chart)),
        notes=(*notes, *outside),
    )


def draw(chart: Chart, width: float = WIDE) -> str:
    """The chart as SVG, `width` pixels wide; without buckets the reason in words."""
    if not chart.buckets:
        return svg.nothing(width, chart.title, summary(chart))
    picture = svg.canvas(width, HEIGHT, chart.title, description=summary(chart), kind=svg.kind_of(width))
    across = msgspec.structs.replace(chart.across, end=width - RIGHT)
    panel = Panel(group=picture, x=across, y=chart.down)
    _draw_bands(panel, chart)
    _draw_axes(panel, chart.axis)
    _draw_moments(panel, chart)
    _draw_means(panel, chart.buckets)
    _draw_evidence(picture, chart, width)
    return svg.markup(picture)


def _legend(chart: Chart) -> Iterator[Key]:
    """Yield the entries of the marks drawn in this chart."""
    line = add(None, "line", class_="outline series-0", x1=1, x2=35, y1=8, y2=8)
    whisker = add(None, "path", class_="whisker thin", d="M18 1V15")
    yield key("mean of a period, with its interval", line, whisker, mark(None, 0, 18, 8))
    yield from (box_key(kind, words) for kind, field, words in reversed(BANDS) if getattr(chart, field) is not None)
    if any(bucket.n_missing for bucket in chart.buckets):
        yield box_key("missing", "share of values that are missing: in no mean", height=6.0)
    yield from (rule_key(kind, meaning) for _, (kind, _, meaning, _) in _moments(chart))
    if any(chart.across.holds(change.at) for change in chart.changes):
        yield rule_key("change", "another model was served")


def _moments(chart: Chart) -> Iterator[tuple[float, tuple[str, str, str, float]]]:
    """Yield what is in the picture; an acknowledgement is of an alarm that is over."""
    for entry in MOMENTS:
        at = getattr(chart, entry[0])
        if at is not None and chart.across.holds(at) and (entry[0] != "acknowledged" or chart.alarm is None):
            yield at, entry


def summary(chart: Chart) -> str:
    if not chart.buckets:
        return chart.reason or "no history: nothing was measured"
    n, missing = sum(bucket.n for bucket in chart.buckets), sum(bucket.n_missing for bucket in chart.buckets)
    values = keep_finite(bucket.value for bucket in chart.buckets)
    parts = [
        f"{n:,} values in {len(chart.buckets)} period{'' if len(chart.buckets) == 1 else 's'}"
        f" from {clock.format_time(chart.buckets[0].start)} to {clock.format_time(chart.buckets[-1].end)}"
        + (f", {missing:,} missing" if missing else "")
    ]
    if values:
        low, high, last = (number(value, chart.places) for value in (min(values), max(values), values[-1]))
        parts.append(f"Means from {low} to {high}, the last {last}")
    if chart.reference is not None:
        parts.append("Reference " + " to ".join(number(end, chart.places) for end in chart.reference))
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


def _draw_bands(panel: Panel, chart: Chart) -> None:
    for kind, field, _ in BANDS:
        band = getattr(chart, field)
        if band is not None and (ends := interval_between(*band)) is not None:
            bottom, top = map(panel.y.at, ends)
            height = max(2.0, bottom - top)
            box = {"x": panel.x.start, "y": (top + bottom - height) / 2, "width": panel.x.end - panel.x.start}
            words = " to ".join(number(end, chart.places) for end in ends)
            hint(add(panel.group, "rect", class_=kind, height=height, **box), f"{kind}: {words}")


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


def _draw_moments(panel: Panel, chart: Chart) -> None:
    for change in chart.changes:
        if panel.x.holds(change.at):
            drawn = add(panel.group, "g", class_="change-mark")
            hint(drawn, f"{change.words}, {clock.format_time(change.at)}")
            msgspec.structs.replace(panel, group=drawn).upright("change", change.at)
            add(drawn, "path", class_="change", d=f"M{panel.x.at(change.at):.2f} {MARKS - 6:.2f}l4 6h-8z")
    for at, (kind, words, _, y) in _moments(chart):
        x = panel.x.at(at)
        drawn = add(panel.group, "g", class_=f"{kind}-mark")
        hint(drawn, f"{words}: {clock.format_time(at)}")
        add(drawn, "line", class_=kind, x1=x, x2=x, y1=y - 8, y2=BOTTOM)
        is_near_end = x + 4 + svg.width_of(words, 10) > panel.x.end + RIGHT
        shift, anchor = (-4, "end") if is_near_end else (4, "start")
        text(drawn, x + shift, y, words, size=10, class_=f"{kind}-words halo", text_anchor=anchor)


def _draw_means(panel: Panel, buckets: Sequence[Bucket]) -> None:
    """Draw means with intervals, joined where no period is between them, and the share of what is missing below."""
    for bucket in buckets:
        if bucket.n_missing:
            left, right = panel.x.at(bucket.start), panel.x.at(bucket.end)
            height = max(1.5, MISSING_HEIGHT * bucket.n_missing / (bucket.n + bucket.n_missing))
            box = {"x": left, "y": BOTTOM - height, "width": max(1.0, right - left - 0.5), "height": height}
            hint(add(panel.group, "rect", class_="missing", **box), _words_of(bucket))
    defined = [bucket for bucket in buckets if bucket.drawable is not None]
    places = [(panel.x.at((bucket.start + bucket.end) / 2), panel.y.at(bucket.value or 0.0)) for bucket in defined]
    for (bucket, here), (following, there) in pairwise(zip(defined, places, strict=True)):
        if bucket.end == following.start:
            add(panel.group, "polyline", class_="outline line series-0", points=svg.points([here, there]))
    for bucket, (x, _) in zip(defined, places, strict=True):
        group = add(panel.group, "g", class_="bucket", data_start=f"{bucket.start:.0f}")
        radius = 3 if len(places) > 30 else 4
        dot(group, 0, x, bucket, panel.y, _words_of(bucket), kind="thin", radius=radius)


def _words_of(bucket: Bucket) -> str:
    value = bucket.drawable
    words = "no value" if value is None else number(value, 3)
    if value is not None and bucket.interval is not None:
        words += f" ({' to '.join(number(end, 3) for end in bucket.interval)})"
    missing = f", {bucket.n_missing:,} missing" if bucket.n_missing else ""
    return f"{clock.format_time(bucket.start)} to {clock.format_time(bucket.end)}: {words}, n = {bucket.n:,}{missing}"


def _draw_evidence(picture: Element, chart: Chart, width: float) -> None:
    top, start = BOTTOM + AXIS, 0.0 if width <= NARROW else LEFT
    text(picture, start, top + 12, evidence_words(chart), size=11, room=width - start, class_="strong")
    evidence, threshold = drop_infinite(chart.log_evidence) or 0.0, max(chart.log_threshold, 1e-9)
    bar = Scale(low=0.0, high=1.25 * max(evidence, threshold), start=LEFT, end=width - RIGHT)
    group = add(picture, "g", class_="evidence")
    hint(group, evidence_words(chart))
    kind = "alarm-fill" if evidence >= threshold else "bar-fill series-0"
    for fill, value in (("rest", bar.high), (kind, evidence)):
        if value > 0:
            add(group, "rect", class_=fill, x=bar.start, y=top + 22, width=bar.at(value) - bar.start, height=10)
    x = bar.at(threshold)
    add(group, "line", class_="threshold", x1=x, x2=x, y1=top + 18, y2=top + 36)
