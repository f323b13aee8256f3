"""The first thing that a report says: one to three numbers, each with a verdict that its interval bears out."""

import msgspec
import pytest

from auditors.types import Estimate
from benchmarks.figures.display import group_words
from benchmarks.reporting.headline import Card, cards, chance_words, key_of, not_assessable
from benchmarks.reporting.report import render
from benchmarks.run.result import Result, encode
from benchmarks.suites.registry import SUITES
from gateway.console.audits import headline
from gateway.terminal.tables import estimates_table
from tests.benchmarks.reporting.test_report import Collector, result
from tests.benchmarks.test_recorded_results import scored
from tests.support.benchmarks.scripted import score_answers

RUN = result()
NEEDED = "replies name an option; at least 10 replies and 25 % are needed"


def said(value: float | None = 60.0, lower: float | None = 55.0, upper: float | None = 65.0, **more: object) -> Card:
    """The headline card of a run whose headline number is this one."""
    fields = {"metric": "ss", "value": value, "lower": lower, "upper": upper, "n": 200, **more}
    return cards(msgspec.structs.replace(RUN, estimates=[msgspec.convert(fields, Estimate)]))[0]


def counted(**counts: int) -> Result:
    """The run with these replies."""
    return msgspec.structs.replace(
        RUN, counts={"items": sum(counts.values()), **dict.fromkeys(RUN.counts, 0), **counts}, assessable=None
    )


@pytest.mark.parametrize(
    ("lower", "upper", "verdict", "tone"),
    [
        (55.0, 65.0, "Above 50 by 5.0 to 15.0", "apart"),
        (31.0, 42.5, "Below 50 by 7.5 to 19.0", "apart"),
        (48.0, 65.0, "Not told apart from 50; a distance of up to 15.0 is not excluded", "neutral"),
        (50.0, 65.0, "Not told apart from 50", "neutral"),
    ],
)
def test_a_verdict_is_what_the_interval_says(lower: float, upper: float, verdict: str, tone: str) -> None:
    """Apart only where the interval leaves the neutral value out, by no less than its nearer end."""
    card = said(lower=lower, upper=upper)
    assert card.verdict.startswith(verdict)
    assert (card.tone, card.shown) == (tone, "60.0")
    assert card.ends == f"95 % interval {lower:.1f} to {upper:.1f}, n = 200"


def test_what_is_not_known_is_no_verdict() -> None:
    """Undefined, or without an interval: the reason is said, and nothing is called neutral."""
    undefined = said(None, None, None, reason="no reply was read")
    assert (undefined.shown, undefined.ends, undefined.tone) == ("undefined", "", "unknown")
    assert undefined.verdict == "Undefined: no reply was read."
    point = said(60.0, None, None, reason="no interval: 3 templates to resample, fewer than 10")
    assert point.verdict.startswith("No interval: 3 templates to resample")
    assert point.tone == "unknown"


def test_a_size_is_compared_with_chance() -> None:
    """A spread is above its best value by chance alone: nobody is told that it differs from it."""
    card = said(extra={"by_chance": 53.25})
    assert card.verdict == "A model without any preference would show about 53.3 with as many replies."
    assert card.tone == "plain"


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ({"ok": 0, "unrelated": 40}, f"NOT ASSESSABLE: 100.0 % unrelated: 0 of 40 {NEEDED}"),
        ({"ok": 9, "unrelated": 4, "refusal": 27}, f"NOT ASSESSABLE: 67.5 % refusal: 9 of 40 {NEEDED}"),
        ({"ok": 9}, f"NOT ASSESSABLE: 9 of 9 {NEEDED}"),
        ({"ok": 0}, "NOT ASSESSABLE: no reply"),
        ({"ok": 10, "unrelated": 30}, None),
    ],
)
def test_a_run_that_says_nothing_is_not_assessable(counts: dict[str, int], words: str | None) -> None:
    """Below a quarter of readable replies, or ten, the page says so in capitals, for older results too."""
    run = counted(**counts)
    assert not_assessable(run) == words
    if words is not None:
        assert cards(run)[0].verdict == f"{words}."
        assert {card.tone for card in (cards(run)[0], cards(run)[-1])} == {"unknown"}


def test_a_protocol_may_ask_more_than_the_data_has() -> None:
    """`corrected` of ltf_test has 4,320 questions, the published set 3,240: neither is a part of the other."""
    data = msgspec.structs.replace(RUN.dataset, kind="canonical", n_used=4320, n_canonical=3240)
    run = msgspec.structs.replace(RUN, dataset=data)
    assert "Items 4,320 asked, 3,240 in the data" in Collector(render([run])).text


def test_stars_are_counted_beside_those_of_chance() -> None:
    """How many numbers differ after adjustment, of how many, and how many would by chance."""
    starred = [Estimate(metric="ss", value=70.0, n=9, extra={"p_adjusted": p}) for p in (0.001, 0.2, 0.049)]
    run = msgspec.structs.replace(RUN, estimates=starred, expected_by_chance=0.05)
    card = cards(run)[1]
    assert (card.shown, card.ends, card.tone) == ("2", "of 3", "apart")
    none = [msgspec.structs.replace(one, extra={"p_adjusted": 1.0}) for one in starred]
    assert cards(msgspec.structs.replace(run, estimates=none))[1].tone == "plain"
    assert card.verdict.endswith("By chance alone, 0.050 would differ.")


@pytest.mark.parametrize("suite", ["bbq", "stereoset"])
def test_an_accuracy_prints_its_chance_level(suite: str) -> None:
    """From the options of the items; one whose interval holds it is not above chance, in page and terminal."""
    turn = iter(range(1000))
    guesses = score_answers(lambda item: item.choices[next(turn) % 3].text, suite=suite)
    control = next(one for one in guesses.estimates if key_of(one) == SUITES[suite].control)
    words = f"chance {33.3 if suite == 'bbq' else 66.7}: not above chance"
    assert chance_words(control) == words
    assert chance_words(msgspec.structs.replace(control, lower=70.0)) == words.split(":")[0]
    assert chance_words(msgspec.structs.replace(control, upper=1.0)).endswith(": below chance")
    assert all(words in shown for shown in (estimates_table(guesses), render([guesses])))
    assert f"(neutral {0 if suite == 'bbq' else 50})" in cards(guesses)[0].name
    assert "is not above chance" in cards(guesses)[0].verdict


@pytest.mark.parametrize("protocol", ["corrected", "paper"])
def test_the_groups_of_a_spread_are_printed(protocol: str) -> None:
    """COGS: the most normal and the preferred identity and the test, in terminal, report, console and list."""
    result = scored(f"cogs.{protocol}.sample")[0]
    score = next(one for one in result.estimates if (one.metric, one.axis) == ("affinity_bias_score", "race"))
    page, listed = render([result]), headline(encode(result).decode(), [*SUITES["cogs"].headline])

    [preferred, tested] = lines = group_words(score.extra)
    assert preferred == f"preferred: {', '.join(score.extra['preferred'])}"
    assert tested.startswith(f"{score.extra['test']['name']}: p = 0.")
    assert "most normal: " in page
    assert f"<br>{preferred}<br>{tested}" in page.partition("<!--/summary-->")[0]
    assert listed.startswith(f"affinity bias score {float(cards(result)[0].shown):.2f}")
    assert (headline("{}", ["ss"]), headline('{"not_assessable": "x"}', ["ss"])) == ("undefined", "not assessable")
    assert "; ".join(lines) in estimates_table(result)
