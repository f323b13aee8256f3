"""Draws a dashboard from a Prometheus, without Grafana: what its panels would show, for looking at.

    python tools/grafana_preview.py live_bias http://127.0.0.1:9090 --minutes 15 > live_bias.html

Every series of every expression is asked for with everything chosen in the drop-downs. Lines, numbers, states and
tables come out plainly; colours, units and legends are not Grafana's.
"""

import argparse
import html
import json
import math
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import httpx

HERE = Path(__file__).parents[1] / "grafana"
POINTS = 240
"""Steps of a range query."""
MIN_STEP_SECONDS = 1.0
COLOURS = ("#3274d9", "#e0803a", "#37872d", "#c4162a", "#8f3bb8", "#0a9ea4", "#b58900", "#6b6f76")
BOUNDS = ("lower ", "upper ")
LEGEND_SERIES, TABLE_ROWS = 12, 12
WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 600.0, 190.0, 56.0, 9.0, 18.0
"""Of the drawing of a history, in its own units, and its margins for numbers."""
STYLE = """
body { font: 13px system-ui, sans-serif; margin: 16px; background: #f4f5f7; color: #1f2328 }
main { display: grid; grid-template-columns: repeat(24, 1fr); grid-auto-rows: 38px; gap: 8px }
section { background: #fff; border: 1px solid #d8dbe0; border-radius: 4px; padding: 6px 10px; overflow: hidden }
section.row { background: none; border: none; padding: 8px 0 0; font-weight: 600; font-size: 15px }
h2 { font-size: 13px; margin: 0 0 4px } .number { font-size: 34px; font-weight: 600 } .none { color: #c4162a }
svg { width: 100%; display: block } table { border-collapse: collapse; font-size: 11px; width: 100% }
td, th { text-align: left; padding: 1px 6px; border-bottom: 1px solid #eceef1; white-space: nowrap }
.legend { font-size: 10.5px; line-height: 1.25 } .legend span { margin-right: 10px } text { font-size: 10px }
"""


class Series(NamedTuple):
    """One line of a panel."""

    name: str
    points: list[tuple[float, float]]
    """(Unix seconds, value)."""


class Source:
    """A Prometheus, asked about the last so many seconds."""

    def __init__(self, url: str, seconds: float) -> None:
        self._url = url.rstrip("/")
        self.end = time.time()
        self.start = self.end - seconds

    def now(self, expression: str) -> list[tuple[Mapping[str, str], float]]:
        """Labels and present value of each series."""
        found = self._ask("query", query=expression, time=self.end)
        return [(one["metric"], float(one["value"][1])) for one in found]

    def history(self, expression: str) -> list[tuple[Mapping[str, str], list[tuple[float, float]]]]:
        """Labels and finite points of each series."""
        step = max((self.end - self.start) / POINTS, MIN_STEP_SECONDS)
        found = self._ask("query_range", query=expression, start=self.start, end=self.end, step=step)
        return [(one["metric"], [(t, y) for t, v in one["values"] if math.isfinite(y := float(v))]) for one in found]

    def _ask(self, what: str, **parameters: Any) -> list[dict[str, Any]]:
        answer = httpx.get(f"{self._url}/api/v1/{what}", params=parameters, timeout=30).raise_for_status()
        result: list[dict[str, Any]] = answer.json()["data"]["result"]
        return result


def page(dashboard: Mapping[str, Any], source: Source) -> str:
    """The dashboard as one page of HTML that needs nothing from elsewhere."""
    marks = [
        (one["name"], one["iconColor"], [t for _, points in source.history(chosen(one["expr"])) for t, _ in points[:1]])
        for one in dashboard["annotations"]["list"]
    ]
    boxes = "".join(section(panel, source, marks) for panel in dashboard["panels"])
    title = html.escape(dashboard["title"])
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f"<style>{STYLE}</style></head><body><h1>{title}</h1><p>{html.escape(dashboard['description'])}</p><main>{boxes}</main></body></html>"
    )


def section(panel: Mapping[str, Any], source: Source, marks: Sequence[tuple[str, str, list[float]]]) -> str:
    """One panel at its place in the grid."""
    at, title = panel["gridPos"], html.escape(panel["title"])
    place = f"grid-column: {at['x'] + 1} / span {at['w']}; grid-row: {at['y'] + 1} / span {at['h']}"
    if panel["type"] == "row":
        return f'<section class="row" style="{place}">{title}</section>'
    body = "".join(drawn(panel, source, marks)) or '<p class="none">no data</p>'
    tip = html.escape(panel["description"], quote=True)
    return f'<section style="{place}" title="{tip}"><h2>{title}</h2>{body}</section>'


def drawn(panel: Mapping[str, Any], source: Source, marks: Sequence[tuple[str, str, list[float]]]) -> Iterator[str]:
    """The inside of a panel; nothing when no expression has a series."""
    if panel["type"] in ("stat", "bargauge", "table"):
        found = [(query["legendFormat"], source.now(chosen(query["expr"]))) for query in panel["targets"]]
        if panel["type"] == "stat":
            yield from (f'<div class="number">{number(value)}</div>' for _, values in found for _, value in values[:1])
        elif panel["type"] == "bargauge":
            yield from gauges([(named(legend, labels), value) for legend, values in found for labels, value in values])
        else:
            yield from table(found, panel["transformations"][-1]["options"]["excludeByName"])
        return
    series = [
        Series(named(query["legendFormat"], labels), points)
        for query in panel["targets"]
        for labels, points in source.history(chosen(query["expr"]))
        if points
    ]
    if series and panel["type"] == "state-timeline":
        yield states(series)
    elif series:
        yield lines(series, source, marks)


def chosen(expression: str) -> str:
    """The expression with everything chosen, and rates over a minute."""
    return re.sub(r"\$\w+", ".*", expression.replace("$__rate_interval", "1m"))


def named(legend: str, labels: Mapping[str, str]) -> str:
    return re.sub(r"{{\s*(\w+)\s*}}", lambda found: labels.get(found[1], ""), legend) or str(dict(labels))


def number(value: float) -> str:
    if not math.isfinite(value):
        return "no number"
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e12 else f"{value:,.4g}"


def gauges(rows: Sequence[tuple[str, float]]) -> Iterator[str]:
    """The largest first."""
    ordered = sorted(rows, key=lambda row: -row[1])
    if ordered:
        yield rows_of([[name, number(value)] for name, value in ordered])


def table(
    found: Sequence[tuple[str, Sequence[tuple[Mapping[str, str], float]]]], left_out: Mapping[str, bool]
) -> Iterator[str]:
    """A row for each set of labels, a column for each query, as the panel's transformations make them."""
    keys = sorted({key for _, values in found for labels, _ in values for key in labels} - set(left_out))
    merged: dict[tuple[str, ...], dict[str, float]] = {}
    for legend, values in found:
        for labels, value in values:
            merged.setdefault(tuple(labels.get(key, "") for key in keys), {})[legend] = value
    names = [legend for legend, _ in found]
    if merged:
        cells = [
            [*labels, *(number(one[name]) if name in one else "" for name in names)] for labels, one in merged.items()
        ]
        yield rows_of(cells, [*keys, *names])


def rows_of(cells: Sequence[Sequence[str]], head: Sequence[str] = ()) -> str:
    """The first rows, and how many more there are."""
    top = "".join(f"<th>{html.escape(one)}</th>" for one in head)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(one)}</td>" for one in row) + "</tr>" for row in cells[:TABLE_ROWS]
    )
    more = f"<p>and {len(cells) - TABLE_ROWS} more</p>" if len(cells) > TABLE_ROWS else ""
    return f"<table><tr>{top}</tr>{body}</table>{more}"


def states(series: Sequence[Series]) -> str:
    """The last state of each series, and how often it changed."""
    changes = [sum(a != b for (_, a), (_, b) in pairwise(one.points)) for one in series]
    return rows_of(
        [[one.name, number(one.points[-1][1]), f"{n} changes"] for one, n in zip(series, changes, strict=True)]
    )


def lines(series: Sequence[Series], source: Source, marks: Sequence[tuple[str, str, list[float]]]) -> str:
    """Every series as a line on one pair of axes, with the annotations as upright lines."""
    values = [y for one in series for _, y in one.points]
    low, high = min(values), max(values)
    if low == high:
        low, high = min(0.0, low), max(1.0, high)

    def x(at: float) -> float:
        return LEFT + (WIDTH - LEFT) * (at - source.start) / (source.end - source.start)

    def y(value: float) -> float:
        return (HEIGHT - BOTTOM) * (1 - (value - low) / (high - low)) + TOP

    drawing = "".join(
        f'<line x1="{LEFT}" x2="{WIDTH}" y1="{y(v):.1f}" y2="{y(v):.1f}" stroke="#e4e6ea"/>'
        f'<text x="{LEFT - 4}" y="{y(v) + 3:.1f}" text-anchor="end">{number(v)}</text>'
        for v in (low, (low + high) / 2, high)
    )
    for _, colour, times in marks:
        drawing += "".join(
            f'<line x1="{x(t):.1f}" x2="{x(t):.1f}" y1="0" y2="{HEIGHT - BOTTOM}" stroke="{colour}" '
            'stroke-dasharray="3 3"/>'
            for t in times
        )
    for index, one in enumerate(series):
        path = " ".join(f"{x(t):.1f},{y(v):.1f}" for t, v in one.points)
        colour = COLOURS[index % len(COLOURS)]
        style = 'stroke-dasharray="4 4"' if one.name.startswith(BOUNDS) else 'stroke-width="1.5"'
        drawing += f'<polyline points="{path}" fill="none" stroke="{colour}" {style}/>'
        last_t, last_v = one.points[-1]
        drawing += f'<circle cx="{x(last_t):.1f}" cy="{y(last_v):.1f}" r="2" fill="{colour}"/>'
    legend = "".join(
        f'<span><b style="color: {COLOURS[index % len(COLOURS)]}">—</b> {html.escape(one.name)}</span>'
        for index, one in enumerate(series[:LEGEND_SERIES])
    )
    if len(series) > LEGEND_SERIES:
        legend += f"<span>and {len(series) - LEGEND_SERIES} more</span>"
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}">{drawing}</svg><div class="legend">{legend}</div>'


def main() -> int:
    """Prints the page."""
    parser = argparse.ArgumentParser(description="Draws a dashboard from a Prometheus, without Grafana.")
    parser.add_argument("dashboard", choices=sorted(path.stem for path in HERE.glob("*.json")))
    parser.add_argument("prometheus", help="e.g. http://127.0.0.1:9090")
    parser.add_argument("--minutes", type=float, default=60.0, help="how far back (default 60)")
    arguments = parser.parse_args()
    dashboard = json.loads((HERE / f"{arguments.dashboard}.json").read_text(encoding="utf-8"))
    try:
        sys.stdout.write(page(dashboard, Source(arguments.prometheus, 60 * arguments.minutes)) + "\n")
    except (httpx.HTTPError, httpx.InvalidURL) as exc:
        parser.error(f"{arguments.prometheus} does not answer: {exc}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
