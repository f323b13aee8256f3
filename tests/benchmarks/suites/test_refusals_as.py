"""Refused replies: `corrected` leaves them out and says what they could change, `paper` scores them by its rule."""

import random
from collections.abc import Callable
from functools import cache
from itertools import count
from typing import Any

import pytest

from benchmarks.reporting.report import render
from benchmarks.run.plan import Plan, RunOptions, prepare
from benchmarks.suites.common.estimation import EXCLUDED, HIGHEST, LOWEST, REFUSALS_AS, Cell, CellKey, point
from benchmarks.suites.protocol import Item, Observation, ProtocolName, Reply
from tests.support.benchmarks.scripted import score_answers

Answer = Callable[[int, Item], dict[str, Any]]
"""Status and value of the reply to an item, by its place among the items."""

REFUSED: dict[str, Any] = {"status": "refusal"}
SUITES = ("ltf_test", "implicit_association", "decision", "bbq")
NEVER = {"refusal_rate", "malformed_rate", "unknown_rate"}
"""Rates of refusals, and of one answer among the answers: no score."""


def replies(plan: Plan, reply: Answer) -> list[Observation]:
    found = enumerate(plan.items)
    return [Observation(item, Reply(item_id=item.item_id, text="", **reply(n, item))) for n, item in found]


@cache
def planned(suite: str, limit: int | None = None, protocol: ProtocolName = "corrected") -> Plan:
    return prepare(RunOptions(suite=suite, model="m", data="embedded", judge_model="j", limit=limit, protocol=protocol))


def cells(plan: Plan, reply: Answer, protocol: ProtocolName = "corrected") -> dict[CellKey, Cell]:
    return {cell.key: cell for cell in plan.suite.cells(replies(plan, reply), protocol=protocol)}


def value(found: dict[CellKey, Cell], metric: str, *parts: str | None) -> float | None:
    return point(found[CellKey(metric, *parts)])


def said(cell: Cell) -> dict[str, float | None]:
    found: dict[str, float | None] = cell.extra[REFUSALS_AS]
    return found


def biased(suite: str, rng: random.Random) -> Answer:
    """Replies with a lean that hangs on the item, all answered."""

    def answer(n: int, item: Item) -> dict[str, Any]:
        lean = rng.random() < 0.3 + 0.4 * (len(item.groups[0]) % 2)
        match suite:
            case "ltf_test":
                return {"status": "ok", "parsed": rng.choice((1, 2, 2) if lean else (-1, 0, 0, 1))}
            case "bbq":
                roles = [choice.role for choice in item.choices]
                return {"status": "ok", "parsed": roles[rng.randrange(2 if lean else 3)]}
        score = rng.choice((-1, -1, 0, 1) if lean else (-1, 0, 1))
        return {"status": "ok", "parsed": {"test_score": score, "word_score": -0.5 * score, "degenerate": False}}

    return answer


def refusing(answers: list[dict[str, Any]], is_refused: Callable[[Item, dict[str, Any], float], bool]) -> Answer:
    """The same replies, some refused; what is refused may hang on what would have been said."""
    rng = random.Random(5)
    drawn = [rng.random() for _ in answers]
    return lambda n, item: REFUSED if is_refused(item, answers[n], drawn[n]) else answers[n]


def of_one_side(item: Item, answer: dict[str, Any], drawn: float) -> bool:
    """Nearly everything is declined where one group is named first, and what it would have said decides the rest."""
    parsed = answer["parsed"]
    strong = parsed in (2, "stereotype") or (isinstance(parsed, dict) and parsed["test_score"] == -1)
    return bool(drawn < (0.9 if len(item.groups[0]) % 3 == 0 else 0.1) if strong else drawn < 0.05)


def at_random(item: Item, answer: dict[str, Any], drawn: float) -> bool:
    return drawn < 0.3


@pytest.mark.parametrize("is_refused", [of_one_side, at_random])
@pytest.mark.parametrize("suite", SUITES)
def test_bounds_hold_what_all_answers_would_have_shown(suite: str, is_refused: Any) -> None:
    """Whatever was refused, and whyever: every number of the full replies lies between the least and the most."""
    plan = planned(suite, 1500)
    full = biased(suite, random.Random(1))
    answers = [full(n, item) for n, item in enumerate(plan.items)]
    for protocol in ("corrected", "paper"):
        truth = cells(plan, lambda n, _: answers[n], protocol)
        found = cells(plan, refusing(answers, is_refused), protocol)
        checked, outside = 0, []
        for key, cell in found.items():
            wanted = point(truth[key])
            if key.metric in NEVER or wanted is None or REFUSALS_AS not in cell.extra:
                continue
            low, high = said(cell)[LOWEST], said(cell)[HIGHEST]
            assert low is not None
            assert high is not None
            checked += 1
            outside += [key] if not low - 1e-9 <= wanted <= high + 1e-9 else []
        assert checked > 20
        assert outside == []


@pytest.mark.parametrize("suite", SUITES)
def test_every_score_says_what_refusals_could_change(suite: str) -> None:
    """Where a refusal bears on a number, it is beside it; under `corrected` the number is the one without refusals."""
    plan = planned(suite, 800)
    full = biased(suite, random.Random(2))
    answers = [full(n, item) for n, item in enumerate(plan.items)]
    for protocol in ("corrected", "paper"):
        found = cells(plan, refusing(answers, at_random), protocol)
        for key, cell in found.items():
            if key.metric in NEVER:
                continue
            if cell.extra.get("refusals", cell.excluded.get("refusal", 0)):
                assert REFUSALS_AS in cell.extra, key
            if REFUSALS_AS in cell.extra and protocol == "corrected" and key.metric != "accuracy":
                assert said(cell)[EXCLUDED] == (None if point(cell) is None else pytest.approx(point(cell))), key


def test_essays() -> None:
    """Every essay that answers scores 1, half refuse: without them 1, by the paper's rule less, and both ends."""
    plan = planned("ltf_test", 400)

    def answer(n: int, item: Item) -> dict[str, Any]:
        return REFUSED if n % 4 == 0 else {"status": "ok", "parsed": 1}

    for protocol in ("corrected", "paper"):
        found = cells(plan, answer, protocol).values()
        favours = [c for c in found if c.metric == "favoritism" and REFUSALS_AS in c.extra]
        assert favours
        for cell in favours:
            refusals = cell.extra["refusals"]
            share = refusals / (cell.n + cell.excluded.get("refusal", 0))
            as_score = said(cell)
            assert as_score["0"] == pytest.approx(1 - share)
            assert as_score["-1"] == as_score[LOWEST] == pytest.approx(1 - 2 * share)
            assert as_score["2"] == as_score[HIGHEST] == pytest.approx(1 + share)
            assert as_score[EXCLUDED] == (1 if share < 1 else None)
            assert point(cell) == as_score["0" if protocol == "paper" else EXCLUDED]


def test_a_model_that_refuses_one_group_shows_its_bias_among_the_others() -> None:
    """Essays on every group but one favour the first of the question by 1; what names that group first is refused."""
    plan = planned("ltf_test")
    refused = "muslims"

    def answer(n: int, item: Item) -> dict[str, Any]:
        if item.axis == "religion" and item.groups[0] == refused:
            return REFUSED
        return {"status": "ok", "parsed": 2 if item.groups[0] == "christians" else 1}

    found = cells(plan, answer)
    for other in ("hindus", "jews"):
        assert value(found, "pair_favoritism", "religion", "christians", other) == 1
        assert value(found, "favoritism", "religion", other, refused) == 1
    assert value(found, "pair_favoritism", "religion", "christians", refused) is None
    assert value(found, "favoritism", "religion", refused, "christians") is None
    assert value(found, "group_favoritism", "religion", "christians") == 1
    assert value(found, "group_favoritism", "religion", refused) is None
    # Of the other ten each loses 1 against Christians alone: variance of one 1 and ten -1/10.
    assert value(found, "dob_text", "religion") == pytest.approx(0.1)
    by_paper = cells(plan, answer, "paper")
    assert value(by_paper, "group_favoritism", "religion", refused) == pytest.approx(-(10 * 1 + 1 * 2) / 11)
    assert value(found, "absolute_discrimination", "religion") == pytest.approx(154 / 1694)


def test_directions_are_compared_on_the_same_questions() -> None:
    """The number compares only questions answered both ways, so refusals of strong essays show no favouritism."""
    plan = planned("ltf_test")

    def level(item: Item) -> int:
        return 2 if str(item.meta["topic"]) < "L" else 0

    def answer(n: int, item: Item) -> dict[str, Any]:
        if item.groups[0] == "woman" and level(item) == 2:
            return REFUSED
        return {"status": "ok", "parsed": level(item)}

    found = cells(plan, answer)
    one, other = (value(found, "favoritism", "gender", *pair) for pair in (("man", "woman"), ("woman", "man")))

    assert one is not None
    assert other == 0
    assert one > 0.5
    assert value(found, "pair_favoritism", "gender", "man", "woman") == 0
    assert value(found, "dob_table", "gender") == 0
    bounds = said(found[CellKey("pair_favoritism", "gender", "man", "woman")])
    assert bounds[LOWEST] == pytest.approx(0, abs=1e-9)  # refused, the strong ones may have been as strong
    assert (bounds[HIGHEST] or 0) > 0.5


@pytest.mark.parametrize("suite", ["implicit_association", "decision"])
def test_associations(suite: str) -> None:
    """Half refused, the rest all consistent: -100 without them, -50 by the paper's rule, and both ends."""
    plan = planned(suite)

    def answer(n: int, item: Item) -> dict[str, Any]:
        parsed = {"test_score": -1, "word_score": 1.0, "degenerate": False}
        return REFUSED if n % 2 else {"status": "ok", "parsed": parsed}

    numbers: dict[ProtocolName, float] = {"corrected": -100.0, "paper": -50.0}
    for protocol, number in numbers.items():
        found = cells(plan, answer, protocol)
        signed = found[CellKey("signed_mean")]
        assert point(signed) == pytest.approx(number)
        assert said(signed) == pytest.approx({EXCLUDED: -100, "-1": -100, "0": -50, "1": 0, LOWEST: -100, HIGHEST: 0})
        sizes = said(found[CellKey("absolute_mean")])
        assert sizes == pytest.approx({EXCLUDED: 100, "0": 50, "1": 100, LOWEST: 50, HIGHEST: 100})
        rate = said(found[CellKey("stereotype_rate")])
        assert rate == pytest.approx({EXCLUDED: 100, "-1": 100, "0": 100, "1": 50, LOWEST: 50, HIGHEST: 100})


@pytest.mark.parametrize("protocol", ["corrected", "paper"])
def test_page(protocol: ProtocolName) -> None:
    """The table of what refusals are taken for, which says what the printed number does with them."""
    turn = count()
    result = score_answers(
        lambda _: "I'm sorry, but I can't help with that." if next(turn) % 2 else "A", suite="bbq", protocol=protocol
    )
    page = render([result])

    assert "What refused and unreadable replies are taken for" in page
    assert '<th class="count">lowest</th>' in page
    assert ("leaves such replies out" in page) == (protocol == "corrected")
    assert any(REFUSALS_AS in one.extra for one in result.estimates)
