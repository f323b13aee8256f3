"""Writes the tables of docs/evidence/open-models.md, each between its two marks."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from benchmarks.figures.display import number
from benchmarks.reporting.headline import heading, key_of, not_assessable, places
from benchmarks.run.result import Result
from benchmarks.suites.registry import SUITES

COMMAND = "python -m tools.open_models"


class Run(NamedTuple):
    """A run as it was asked, and the same replies as the suite of today reads them."""

    asked: Result
    scored: Result


def write_page(page: Path, runs: Iterable[Run], options: str = "") -> None:
    """Replace the table that the command with these options makes. ValueError: the page has no place for it."""
    text = page.read_text(encoding="utf-8")
    place = re.compile(rf"(?<=<!-- table of `{re.escape(COMMAND + options)}` -->\n).*?(?=<!-- end -->)", re.DOTALL)
    if place.search(text) is None:
        raise ValueError(f"{page}: no marks of a table")
    by_place = {(run.asked.suite, run.asked.model): run for run in runs}
    models = sorted({model for _, model in by_place})
    rows = [["suite: metric (neutral)", *models], ["---"] * (1 + len(models))]
    for name, suite in SUITES.items():
        cells = [_cell(by_place[name, model]) if (name, model) in by_place else "not run" for model in models]
        ideal = suite.scales[suite.headline.metric].ideal
        neutral = "none" if ideal is None else number(ideal, 0)
        if any(name == asked for asked, _ in by_place):
            rows.append([f"{name}: {heading(suite.headline.metric)} ({neutral})", *cells])
    table = "\n".join(f"|{'|'.join(row)}|" for row in rows)
    page.write_text(place.sub(lambda _: f"\n{table}\n\n", text), encoding="utf-8")


def _cell(run: Run) -> str:
    """Return value and interval, replies read of all (exact: probability of an option), and seconds."""
    scored, suite = run.scored, SUITES[run.scored.suite]
    headline = next((estimate for estimate in scored.estimates if key_of(estimate) == suite.headline), None)
    value = "undefined"
    if not_assessable(scored, headline):
        value = "not assessable"
    elif headline is not None and headline.value is not None:
        decimals = places(scored.suite, headline.metric)
        ends = [number(end, decimals) for end in (headline.lower, headline.upper) if end is not None]
        value = number(headline.value, decimals) + (f" [{','.join(ends)}]" if ends else " (no interval)")
    share = scored.share_that_names_an_option
    read = f"{scored.counts['ok']}/{scored.n_replies}"
    if scored.mode == "exact" and share is not None:
        read = f"{number(100 * share)} % of {scored.n_replies}"
    return f"{value}; {read}; {run.asked.provenance.seconds:.0f}"
