"""Draws a leaderboard at a glance: the headline number of each suite, models under one another."""

from collections.abc import Mapping, Sequence

from benchmarks.figures.figure import Figure, Part, Picture, drawn_as, format_estimate
from benchmarks.figures.rows import Chart, Dot, draw
from benchmarks.figures.svg import NARROW
from benchmarks.reporting.headline import heading, key_of, not_assessable, part, places
from benchmarks.run.result import Result
from benchmarks.suites.protocol import Suite
from benchmarks.suites.registry import SUITES

HALF = 540.0
"""Pixels: two pictures stand side by side on a desk's screen."""
READING = (
    "The headline number of each suite with its 95 % interval. Dashed: a model without the measured preference or "
    "fault. Each interval is of one model alone: whether two models differ is for the ranks below, which may rest on "
    "another number of the suite, or for biasgate audit compare."
)


def figure(by_suite: Mapping[str, Mapping[str, Result]], order: Sequence[str]) -> Figure | None:
    """A picture for each suite that several models were asked, None without any. `order`: from top to bottom."""
    pictures = [
        _picture(SUITES[name], runs, order) for name, runs in by_suite.items() if name in SUITES and len(runs) > 1
    ]
    if not pictures:
        return None
    return Figure(title="At a glance", reading=READING, parts=(Part(pictures=tuple(pictures)),))


def _picture(suite: Suite, runs: Mapping[str, Result], order: Sequence[str]) -> Picture:
    metric, *about = suite.headline
    models = sorted(runs, key=lambda model: order.index(model) if model in order else len(order))
    scale = suite.scales[metric]
    chart = Chart(
        title=f"{suite.title}: {heading(metric)}, {part(*about)}",
        dots=[_dot(model, runs[model], suite) for model in models],
        low=scale.low,
        high=scale.high,
        neutral=scale.ideal,
        places=places(suite.name, metric),
    )
    return Picture(
        title=f"{suite.title} · {heading(metric)} · {part(*about)}",
        reading=scale.reading,
        svg=draw(chart, HALF) + draw(chart, NARROW),
    )


def _dot(model: str, result: Result, suite: Suite) -> Dot:
    headline = next((estimate for estimate in result.estimates if key_of(estimate) == suite.headline), None)
    if (gone := not_assessable(result, headline)) is not None:
        return Dot(name=model, value=None, words=gone.lower())
    words = format_estimate(headline, places(suite.name, suite.headline.metric))
    return drawn_as(Dot, headline, name=model, words=words)
