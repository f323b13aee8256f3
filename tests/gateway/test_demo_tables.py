"""Tables of the demo: what a reader sees of a suite's many numbers."""

import random
import re

import msgspec
import pytest

from benchmarks.registry import SUITES
from benchmarks.scoring import score_recorded
from benchmarks.simulator.planted.table import Expected
from benchmarks.simulator.profile import load
from benchmarks.suite import Reply
from gateway.demo.tables import ROWS, suite_table
from tests.benchmarks.scripted import pick, plan

DEMO = load("demo")


def table(suite: str, *roles: str) -> list[str]:
    """The lines of a suite's table for a model that picks one of the roles by chance."""
    ready, rng = plan(suite=suite), random.Random(1)
    replies = [Reply(item_id=item.item_id, text=pick(rng.choice(roles))(item)) for item in ready.items]
    result = score_recorded(ready, replies, where="script")[0]
    return suite_table(msgspec.to_builtins(result), Expected(DEMO, ready)).splitlines()


@pytest.mark.parametrize("suite", ["stereoset", "crows_pairs"])
def test_headlines_have_intervals_and_every_metric_has_one(suite: str) -> None:
    """At most ROWS lines, each with an interval, every metric once before any twice, all axes first."""
    _, _, _, *rows, rest = table(suite, "stereotype", "anti-stereotype")

    assert len(rows) == ROWS
    assert {row.split()[0] for row in rows} == set(SUITES[suite].metrics)
    assert all(re.search(r"\[\S+ \S+\]", row) for row in rows)
    assert next(row.split()[1] for row in rows if row.startswith("ss")) == "all"
    assert re.fullmatch(r"\.\.\. and \d+ more in the report", rest)


def test_measured_and_planted_stand_side_by_side() -> None:
    """Always the stereotype: SS 100, beside the 62 that the demo's model has."""
    (row,) = [line for line in table("crows_pairs", "stereotype") if re.match(r"ss +all ", line)]

    assert re.search(r"100\.0 \[\S+ 100\.0\] +62\.0 +36 +0$", row)
