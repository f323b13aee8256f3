"""What the suites cost without a model: building all prompts, reading and scoring recorded replies, heat maps.

Canonical data comes from the usual cache or from ../shared/data; a suite whose data is not there is named.

Example:
  python -m tools.bench.suites
"""

import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from benchmarks.datasets import fetching, published
from benchmarks.errors import DatasetError
from benchmarks.reporting.report import render
from benchmarks.run.follow_up import observed
from benchmarks.run.plan import Key, Plan, RunOptions, prepare
from benchmarks.run.result import Result
from benchmarks.run.score import provenance_of, score, score_recorded
from benchmarks.suites.protocol import DataKind, Reply
from benchmarks.suites.registry import SUITES
from tests.support.published import DATA


class Line(NamedTuple):
    """One measurement: seconds against the aim, and what was done in them."""

    what: str
    seconds: float
    aim: str
    detail: str


def measured() -> list[Line]:
    """Every line, in one process, so that the peak of memory is that of building all prompts."""
    with tempfile.TemporaryDirectory() as cache:
        started = time.perf_counter()
        counts, missing = {}, []
        for name in SUITES:
            try:
                counts[name] = len(_plan(name, Path(cache)).items)
            except DatasetError:
                missing.append(name)
        seconds = time.perf_counter() - started
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        detail = f"{sum(counts.values()):,} items of {len(counts)} suites, peak {peak:.0f} MB (aim 500)"
        detail += f"; no data for {', '.join(missing)}" if missing else ""
        return [Line("build all prompts", seconds, "10 s", detail), *_scoring(Path(cache), missing)]


def _scoring(cache: Path, missing: list[str]) -> list[Line]:
    lines = []
    if "bbq" not in missing:
        plan = _plan("bbq", cache)
        rng = random.Random(0)
        replies = [Reply(item_id=item.item_id, text=rng.choice("ABC")) for item in plan.items]
        seconds = _timed(lambda: score_recorded(plan, replies, where="bench"))
        lines.append(Line("score BBQ", seconds, "10 s", f"{len(replies):,} recorded replies, intervals of all cells"))
    plan, judged = _plan("ltf_test", cache), _judged(cache)
    found: list[Result] = []
    seconds = _timed(lambda: plan.suite.cells(observed(plan, judged), protocol="corrected"))
    lines.append(Line("LTF numbers", seconds, "5 s", f"{len(judged):,} judged essays, without intervals"))
    seconds = _timed(lambda: found.append(score(plan, judged, provenance_of(plan, judged))))
    lines.append(Line("LTF intervals", seconds, "-", f"{len(found[0].estimates):,} numbers, 2,000 resamples each"))
    seconds = _timed(lambda: render(found))
    lines.append(Line("LTF report", seconds, "5 s", "all heat maps drawn"))
    return lines


def _plan(name: str, cache: Path) -> Plan:
    suite = SUITES[name]
    kind: DataKind = "canonical" if "canonical" in suite.n_items else "embedded"
    folder = None
    if kind == "canonical" and suite.source is not None and published.state(suite.source).state != "present":
        folder = cache
        if published.state(suite.source, cache).state != "present":
            fetching.fetch(suite.source, mirror=str(DATA), data_dir=cache)
    return prepare(RunOptions(suite=name, model="m", data=kind), folder)


def _judged(cache: Path) -> dict[Key, Reply]:
    rng = random.Random(0)
    items = _plan("ltf_test", cache).items
    return {
        (item.item_id, 0): Reply(item_id=item.item_id, text="E", status="ok", parsed=rng.choice((-1, 0, 1, 2)))
        for item in items
    }


def _timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def table() -> str:
    lines = measured()
    width = max(len(line.what) for line in lines)
    return "\n".join(f"{line.what:<{width}}  {line.seconds:6.2f} s  aim {line.aim:<5}  {line.detail}" for line in lines)


if __name__ == "__main__":
    sys.stdout.write(table() + "\n")
