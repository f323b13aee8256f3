"""Writes the table of docs/evidence/open-models.md, between its two marks."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from benchmarks.figures.display import number
from benchmarks.reporting.headline import cards, heading, not_assessable
from benchmarks.run.result import Result
from benchmarks.suites.registry import SUITES

TABLE = re.compile(r"(?<=<!-- table of `python -m tools\.open_models` -->\n).*?(?=<!-- end -->)", re.DOTALL)
HEAD = "| suite: metric (neutral) | model | value, 95 % interval | n | replies | read | seconds |\n" + 7 * "|---" + "|"


class Run(NamedTuple):
    """A run as it was asked, and the same replies as the suite of today reads them."""

    asked: Result
    scored: Result


def write_page(page: Path, runs: Iterable[Run]) -> None:
    """Replace the table of the page. Raises ValueError where the page has no place for it."""
    text = page.read_text(encoding="utf-8")
    ordered = sorted(runs, key=lambda run: (list(SUITES).index(run.asked.suite), run.asked.model))
    rows = "\n".join([HEAD, *map(_row, ordered)])
    if TABLE.search(text) is None:
        raise ValueError(f"{page}: no marks of a table")
    page.write_text(TABLE.sub(lambda _: f"\n{rows}\n\n", text), encoding="utf-8")


def _row(run: Run) -> str:
    asked, scored = run
    suite = SUITES[scored.suite]
    scale = suite.scales[suite.headline.metric]
    neutral = "none" if scale.ideal is None else number(scale.ideal, 0)
    metric = f"{scored.suite}: {heading(suite.headline.metric)} ({neutral})"
    headline = cards(scored)[0]
    interval, _, n = headline.ends.removeprefix("95 % interval ").partition(", n = ")
    value = not_assessable(scored) or (f"{headline.shown} ({interval})" if interval else headline.shown)
    read = 100 * scored.counts["ok"] / scored.n_replies if scored.n_replies else None
    cells = [metric, asked.model, value, n or "0", str(scored.n_replies), f"{number(read, 0)} %"]
    return f"| {' | '.join([*cells, f'{asked.provenance.seconds:.0f}'])} |"
