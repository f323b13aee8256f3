"""One self-contained HTML page from one or more results: no script, no font, no image from anywhere else."""

from collections import Counter
from collections.abc import Sequence
from functools import cache

import jinja2
import msgspec

from auditors.types import Estimate
from benchmarks.figures.display import number as number  # the command line prints with it too
from benchmarks.figures.figure import Figure, Run
from benchmarks.reporting.leaderboard import leaderboards, separation, settings
from benchmarks.run.multiplicity import mark
from benchmarks.run.result import Result, shown_fields
from benchmarks.suites.capabilities import WithFigures
from benchmarks.suites.common.estimation import HIGHEST, LOWEST, REFUSALS_AS
from benchmarks.suites.common.mitigation import NONE
from benchmarks.suites.protocol import (
    STATUSES,
    Scale,
)
from benchmarks.suites.registry import SUITES

BAR_WIDTH = 132
MANY = 10
"""Intervals of one metric above which a reader is warned that some miss by chance."""
_UNKNOWN_SCALE = Scale(low=0, high=1, reading="")

Key = tuple[str | None, str | None, str | None, str | None]
"""(axis, group, reference, subset)."""


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """Positions in pixels of one interval bar; None where there is nothing to draw."""

    value: float | None
    lower: float | None
    upper: float | None
    ideal: float | None


class Row(msgspec.Struct, frozen=True, kw_only=True):
    label: str
    detail: str
    is_total: bool
    n: int
    """Replies in the largest denominator of the row."""
    n_errors: int
    """Requests without a reply: in no denominator."""
    estimates: list[Estimate | None]
    """One per metric of the table."""


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """One run."""

    anchor: str
    result: Result
    title: str
    does_not_show: str
    scales: dict[str, Scale]
    metrics: list[str]
    rows: list[Row]
    statuses: list[tuple[str, int, float]]
    """(status, count, share in percent)."""
    n_intervals: int
    crowded: list[tuple[str, int]]
    """Metrics with more than MANY intervals, and how many."""
    n_compared: int
    """Numbers with an adjusted p value (see benchmarks.run.multiplicity)."""
    n_marked: int | None
    """Those that differ from the neutral value; None when none was compared."""
    sensitive: list[Estimate]
    """Numbers that refused replies bear on; those of pairs of groups are in result.json alone."""
    taken_for: list[str]
    """What such replies may be taken for, over all of these."""
    figures: list[Figure]


class Comparable(msgspec.Struct, frozen=True, kw_only=True):
    """Runs of one suite made alike, side by side; other runs never share the table."""

    title: str
    metrics: list[str]
    scales: dict[str, Scale]
    runs: list[tuple[str, Result, list[Estimate | None]]]
    """(anchor, result, totals), one total per metric."""
    figures: list[Figure]


def render(results: Sequence[Result]) -> str:
    """The page.

    Args:
        results: at least one; several runs of one kind make a table side by side.

    Raises: ValueError if there are none.
    """
    if not results:
        raise ValueError("a report needs at least one result")
    sections = [_section(f"run-{number}", result) for number, result in enumerate(results, 1)]
    page: str = _template().render(
        sections=sections,
        standings=_standings(sections),
        boards=leaderboards(results),
        separation=separation(results),
        has_embedded=any(section.result.dataset.kind == "embedded" for section in sections),
        bar_width=BAR_WIDTH,
    )
    return page


def signed(value: float | None, places: int = 1) -> str:
    """As `number`, with a plus sign, as the papers print differences; 0 has none."""
    text = number(value, places)
    return f"+{text}" if value is not None and text.strip("0.,−") and value > 0 else text


def places(suite: str, metric: str) -> int:
    """Decimals to print: one for percentages and the like, three where the whole scale is a few units long."""
    known = SUITES.get(suite)
    scale = known.scales.get(metric) if known else None
    return 3 if scale is not None and scale.high - scale.low <= 10 else 1


def heading(metric: str) -> str:
    """`unrelated_rate` as words; the papers' short names (lms, ss, icat) in capitals."""
    return metric.upper() if len(metric) <= 4 else metric.replace("_", " ")


def bar(estimate: Estimate, scale: Scale) -> Bar:
    return Bar(
        value=_position(estimate.value, scale),
        lower=_position(estimate.lower, scale),
        upper=_position(estimate.upper, scale),
        ideal=_position(scale.ideal, scale),
    )


def _position(value: float | None, scale: Scale) -> float | None:
    if value is None:
        return None
    share = (value - scale.low) / (scale.high - scale.low)
    return round(4 + min(1.0, max(0.0, share)) * (BAR_WIDTH - 8), 2)


def _section(anchor: str, result: Result) -> Section:
    suite = SUITES.get(result.suite)
    metrics = list(dict.fromkeys(estimate.metric for estimate in result.estimates))
    scales = dict(suite.scales) if suite else {}
    total = result.n_replies
    intervals = Counter(estimate.metric for estimate in result.estimates if estimate.lower is not None)
    compared = [one for one in result.estimates if "p_adjusted" in one.extra]
    sensitive = [one for one in result.estimates if REFUSALS_AS in one.extra and one.reference is None]
    return Section(
        anchor=anchor,
        result=result,
        title=suite.title if suite else result.suite,
        does_not_show=suite.does_not_show if suite else "",
        scales={metric: scales.get(metric, _UNKNOWN_SCALE) for metric in metrics},
        metrics=metrics,
        rows=_rows(result, metrics),
        statuses=[(s, n := result.counts.get(s, 0), 100 * n / total if total else 0.0) for s in STATUSES],
        n_intervals=intervals.total(),
        crowded=[(metric, count) for metric, count in intervals.items() if count > MANY],
        n_compared=len(compared),
        n_marked=sum(bool(mark(one)) for one in compared) if compared else None,
        sensitive=sensitive,
        taken_for=_taken_for(sensitive),
        figures=_figures([result]),
    )


def _taken_for(sensitive: Sequence[Estimate]) -> list[str]:
    """In order of appearance, the ends last."""
    names = dict.fromkeys(name for one in sensitive for name in one.extra[REFUSALS_AS])
    return sorted(names, key=lambda name: name in (LOWEST, HIGHEST))


def _figures(results: Sequence[Result]) -> list[Figure]:
    """What the suite draws of runs made alike; nothing for a suite without figures."""
    suite = SUITES.get(results[0].suite)
    if suite is None or not isinstance(suite, WithFigures):
        return []
    runs = zip(_names(results), results, strict=True)
    return suite.figures([Run(name=name, estimates=result.estimates) for name, result in runs])


def _names(results: Sequence[Result]) -> list[str]:
    """The models, numbered where two runs are of the same one."""
    models = [result.model for result in results]
    return [f"{m} (run {n})" if models.count(m) > 1 else m for n, m in enumerate(models, 1)]


def _rows(result: Result, metrics: Sequence[str]) -> list[Row]:
    by_key: dict[Key, dict[str, Estimate]] = {}
    for estimate in result.estimates:
        by_key.setdefault(_key(estimate), {})[estimate.metric] = estimate
    keys = sorted(by_key, key=lambda key: [(part is not None, part or "") for part in key])
    return [
        Row(
            label=(key[0] or "all axes").replace("_", " "),
            detail=_detail(key),
            is_total=all(part is None for part in key),
            n=max(estimate.n for estimate in by_key[key].values()),
            n_errors=max(estimate.extra.get("excluded", {}).get("error", 0) for estimate in by_key[key].values()),
            estimates=[by_key[key].get(metric) for metric in metrics],
        )
        for key in keys
    ]


def _key(estimate: Estimate) -> Key:
    return (estimate.axis, estimate.group, estimate.reference, estimate.subset)


def _detail(key: Key) -> str:
    _, group, reference, subset = key
    groups = f"{group} / {reference}" if group and reference else group
    return ", ".join(part.replace("_", " ") for part in (groups, subset) if part) or "all"


def _standings(sections: Sequence[Section]) -> list[Comparable]:
    kinds: dict[tuple[object, ...], list[Section]] = {}
    for section in sections:
        result = section.result
        kind = (*result.series.values(), result.mitigation, *settings(result).values())
        kinds.setdefault(kind, []).append(section)
    return [_standing(together) for together in kinds.values() if len(together) > 1]


def _standing(together: Sequence[Section]) -> Comparable:
    first = together[0]
    runs = []
    for section in together:
        totals = {e.metric: e for e in section.result.estimates if _key(e) == (None, None, None, None)}
        runs.append((section.anchor, section.result, [totals.get(metric) for metric in first.metrics]))
    result = first.result
    added = f" · {result.few_shot} examples" if result.few_shot else ""
    added += "" if result.mitigation == NONE else f" · mitigation {result.mitigation}"
    return Comparable(
        title=f"{first.title} · {result.protocol} protocol · {result.mode} · {result.dataset.kind} data{added}",
        metrics=first.metrics,
        scales=first.scales,
        runs=runs,
        figures=_figures([section.result for section in together]),
    )


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("benchmarks.reporting", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"number": number, "mark": mark, "bar": bar, "places": places, "shown_fields": shown_fields}
    environment.filters |= {"heading": heading, "detail": lambda one: _detail(_key(one))}
    return environment.get_template("report.html")
