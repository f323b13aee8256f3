"""What the demo says of its findings: one line a suite beside the planted value, and the exchange behind an alarm."""

import random
import re
from typing import Any

import pytest

from benchmarks.run.score import score_recorded
from benchmarks.simulator.loading import load
from benchmarks.simulator.planted.table import Expected
from benchmarks.suites.protocol import Reply
from benchmarks.suites.registry import SUITES
from gateway.demo.findings import Finding, exchange_lines, finding, live_table, planted_of, quality_table, suites_table
from tests.support.benchmarks.scripted import pick, plan

DEMO = load("demo")


def found(suite: str, *roles: str) -> Finding:
    """The finding of a run whose model picks one of the roles by chance."""
    ready, rng = plan(suite=suite), random.Random(1)
    replies = [Reply(item_id=item.item_id, text=pick(rng.choice(roles))(item)) for item in ready.items]
    return finding(score_recorded(ready, replies, where="script")[0], planted_of(Expected(DEMO, ready)))


def test_every_suite_has_a_headline() -> None:
    """It names a metric and an axis that the suite has."""
    for suite in SUITES.values():
        assert suite.headline.metric in suite.metrics
        assert suite.headline.axis in (None, *suite.axes)


def test_a_value_that_was_missed_is_outside() -> None:
    """Always the stereotype: SS 100, beside the 62 that the demo's model has."""
    _, line = suites_table([found("crows_pairs", "stereotype")]).splitlines()

    assert re.fullmatch(r"crows_pairs +ss +62\.0 +100\.0 \[9\d\.\d, 100\.0\] +outside +\d+ of \d+", line)


def test_a_value_that_was_recovered_is_inside() -> None:
    """The stereotype in three of five: the interval holds 62, and the count includes it."""
    one = found("crows_pairs", "stereotype", "stereotype", "stereotype", "anti-stereotype", "anti-stereotype")
    _, line = suites_table([one]).splitlines()

    assert re.search(r" inside +\d+ of \d+$", line)
    assert 0 < one.n_inside <= one.n_planted


def test_live_estimates_without_an_interval_say_why() -> None:
    """A value without an interval, an undefined one, and one beside its planted value."""
    common: dict[str, Any] = {
        "auditor": "judge",
        "axis": "gender",
        "n": 5,
        "n_excluded": 1,
        "lower": None,
        "upper": None,
    }
    rows = [
        {**common, "metric": "a", "group": None, "value": None, "reason": "no audit has given a value yet"},
        {**common, "metric": "b", "group": None, "value": 0.5, "reason": "no interval: too few"},
        {**common, "metric": "favoritism", "group": "man", "value": 0.02, "lower": -0.1, "upper": 0.1, "reason": None},
    ]
    _, undefined, bare, whole = live_table(rows, DEMO).splitlines()

    assert "undefined: no audit has given a value yet" in undefined
    assert "0.500 (no interval: too few)" in bare
    assert re.search(r"0\.018 +0\.020 \[−0\.100, 0\.100\] +inside +5 +1$", whole)


@pytest.mark.parametrize(
    ("scores", "lines"),
    [
        ([], ["the exchange that raised it is not stored any more"]),
        (
            [{"id": "x", "prompt": None, "reply": None, "no_text_because": "store.texts is off"}],
            ["its text is not shown: store.texts is off"],
        ),
        (
            [{"id": "x", "prompt": "Who\nleads?", "reply": "He does.", "no_text_because": None}],
            ["asked:    Who leads?", "answered: He does."],
        ),
    ],
)
def test_the_exchange_behind_an_alarm(scores: list[dict[str, Any]], lines: list[str]) -> None:
    """Its question and answer; or why there is none to show."""
    assert exchange_lines(scores, "x") == lines


def test_long_texts_are_cut() -> None:
    """Three lines of each, within a hundred cells, the last of them with three dots."""
    shown = exchange_lines([{"id": "x", "prompt": "why " * 200, "reply": "so " * 5, "no_text_because": None}], "x")

    assert len(shown) == 4
    assert shown[2].endswith(" ...")
    assert max(map(len, shown)) <= 100


def test_what_stands_beside_is_shown_in_its_unit() -> None:
    """Means as they are; of logarithms the difference is a factor."""
    arm = {"n": 10, "mean": 1.0}
    one = {"metric": "answer_seconds", "unit": "log2(seconds)", "treated": arm, "control": {"n": 9, "mean": 0.0}}
    share = {**one, "metric": "answer_declined", "unit": None}
    bounds = {"difference": 1.0, "lower": 0.0, "upper": 2.0}
    unknown = dict.fromkeys(bounds)
    rows = quality_table([one | bounds, share | bounds, one | unknown]).splitlines()
    assert "seconds, log2(seconds)  1.000" in rows[1]
    assert "x2.00 [x1.00, x4.00]" in rows[1]
    assert rows[1].endswith("19")
    assert "1.000 [0.000, 2.000]" in rows[2]
    assert "–" in rows[3] or "-" in rows[3]
