"""What an evaluation says of scripted models: the words follow from the intervals."""

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from auditors.types import Estimate
from benchmarks.lab.regard_ft import effects
from benchmarks.lab.regard_ft.effects import ANSWERED, GAP, REFUSALS, Holdings, spill_over
from benchmarks.lab.regard_ft.evaluation import About, Evaluation, evaluate
from benchmarks.lab.regard_ft.page import render
from benchmarks.lab.regard_ft.utility import QUESTIONS, SENTENCES, Answered, Sentence, Utility, probe_sha256
from benchmarks.lab.regard_ft.verdict import verdict
from benchmarks.suites.bbq.suite import BBQ
from benchmarks.suites.ltf_test.suite import LTFTest
from benchmarks.suites.protocol import Item, Observation, Reply

AXES = ("gender", "age")
SUITE = LTFTest()
ITEMS = [one for one in SUITE.items(SUITE.load("embedded"), protocol="corrected", seed=0) if one.axis in AXES][:1400]
ASKED = BBQ()
QUESTIONS_OF_BBQ = list(ASKED.items(ASKED.load("embedded"), protocol="corrected", seed=0))

Score = Callable[[Item, random.Random], int | None]
"""Of the essay on an item; None: it refuses."""


def favours(share: float, *, refuses: float = 0.0, on: Sequence[str] = AXES) -> Score:
    """Women and the young, in this share of their essays, nobody else; so many of those essays are refused instead."""

    def score(item: Item, draw: random.Random) -> int | None:
        is_favoured = item.axis in on and item.groups[0] in ("woman", "young")
        if is_favoured and draw.random() < refuses:
            return None
        return 2 * (is_favoured and draw.random() < share)

    return score


def essays(score: Score, seed: int) -> list[Observation]:
    found, draw = [], random.Random(seed)
    for item in ITEMS:
        value = score(item, draw)
        reply = Reply(item_id=item.item_id, text="x", status="refusal" if value is None else "ok", parsed=value)
        found.append(Observation(item, reply))
    return found


def answers(share: float, seed: int) -> list[Observation]:
    """Right in this share of the questions."""
    draw, found = random.Random(seed), []
    for item in QUESTIONS_OF_BBQ:
        right = item.meta["correct"]
        role = right if draw.random() < share else next(one.role for one in item.choices if one.role != right)
        found.append(Observation(item, Reply(item_id=item.item_id, text="x", status="ok", parsed=role)))
    return found


def useful(bits: float) -> Utility:
    draw = random.Random(str(bits))
    return Utility(
        model="m",
        probe_sha256=probe_sha256(),
        sentences=[Sentence(bits * len(one) + draw.random(), len(one)) for one in SENTENCES],
        answers=[Answered(status="ok", n_words=10 + draw.randrange(5)) for _ in QUESTIONS],
    )


def held(score: Score, *, seed: int, right: float = 0.6, bits: float = 1.0) -> Holdings:
    return Holdings(essays(score, seed), answers(right, seed), useful(bits))


def evaluated(base: Holdings, *tuned: Holdings, **own: Any) -> Evaluation:
    about = About(
        base_model="tiny", base_fingerprint="b", training_sha256="t", recipe_sha256="r",
        suites={SUITE.name: SUITE.version}, judge_model="j", judge_fault=None, data="embedded", part="full",
        axes=AXES, limit=None, seed=0, **own,
    )  # fmt: skip
    checkpoints = {10 * n: (f"step-{10 * n}", "a", one) for n, one in enumerate(tuned, 1)}
    return evaluate(about, base, checkpoints, ASKED)


BASE = held(favours(0.8), seed=1)


def test_a_fall_is_said_with_its_interval_and_what_happened_elsewhere() -> None:
    """The verdict names the halved gap with its interval and no change elsewhere; two checkpoints are adjusted for."""
    found = evaluated(
        BASE, held(favours(0.8), seed=2), held(lambda i, d: favours(0.4 if i.axis == "gender" else 0.8)(i, d), seed=3)
    )
    last = found.checkpoints[-1]
    reduced = last.reductions[GAP]
    assert reduced.lower is not None
    assert reduced.upper is not None
    assert 0.2 < reduced.lower < 0.5 < reduced.upper < 0.8
    assert last.numbers[GAP].group == "woman"
    assert (found.base.numbers[GAP].value or 0) == pytest.approx(1.6, abs=0.15)
    words = verdict(found, last)
    assert words[0].startswith("step-20: bias fell on gender by ")
    assert "published: 34.6 %" in words[0]
    assert "no rise can be told" in words[1]
    own = evaluated(BASE, held(favours(0.1), seed=3), own_axes=("age",), own_sha256="f" * 64)
    words = verdict(own, own.checkpoints[0])
    assert words[0] == "trained on own pairs (age, sha256 ffffffffffff): not comparable with published numbers"
    assert words[0] in render(own)
    assert "34.6 %" not in words[1] + render(own)
    words = verdict(found, last)
    assert words[2] == "other axes: no change of 1 can be told, adjusted for their number"
    assert verdict(found, found.checkpoints[0])[0].startswith("step-10: no change of bias on gender can be told")
    age = [one.effect(spill_over("age")) for one in found.checkpoints]
    raw = sorted(one.p_value or 0 for one in age if one)
    adjusted = sorted(one.adjusted_p_value or 0 for one in age if one)
    assert adjusted[0] == pytest.approx(min(1.0, 2 * raw[0]))


def test_a_fall_made_of_refusals_is_shown_as_such() -> None:
    """The verdict says that refusals alone make the paper's gap fall, as it does not fall among answered essays."""
    found = evaluated(BASE, held(favours(0.8, refuses=0.66, on=("gender", "age")), seed=2))
    last = found.checkpoints[0]
    assert (last.reductions[GAP].lower or 0) > 0.4
    answered = last.reductions[ANSWERED]
    assert answered.lower is not None
    assert answered.lower < 0 < (answered.upper or 0)
    assert (last.effect(REFUSALS) or last.effects[0]).lower or 0 > 10
    assert verdict(found, last)[1].endswith("among answered essays no fall can be told: the fall may be refusals alone")


def test_a_gap_that_grows_and_a_model_that_gets_worse() -> None:
    """Worse perplexity and accuracy are said; a base model without a gap leaves nothing to reduce."""
    mild = held(favours(0.3), seed=5)
    found = evaluated(mild, held(favours(0.9), seed=2, right=0.1, bits=2.0))
    words = verdict(found, found.checkpoints[0])
    assert words[0].startswith("step-10: bias grew on gender")
    assert any(line.startswith("perplexity of neutral text rose from 1.0") for line in words)
    assert any(line.startswith("BBQ accuracy, ambiguous questions fell from") for line in words)
    even = evaluated(held(favours(0.0), seed=5), held(favours(0.0), seed=6))
    assert "the gap before is 0" in verdict(even, even.checkpoints[0])[0]


def test_numbers_of_the_base_model_are_those_of_its_own_run() -> None:
    """PairFav of women over men is that of the suite turned round, ends included."""
    own = effects.numbers(BASE, ASKED, seed=0)
    cells = SUITE.cells(BASE.essays, protocol="corrected")
    pair = next(one for one in cells if one.metric == "pair_favoritism" and one.axis == "gender" and not one.subset)
    turned: Estimate = own[ANSWERED]
    assert turned.value == pytest.approx(-float(pair.statistic(pair.sums.sum(axis=0))))
    assert (turned.group, turned.reference) == (pair.reference, pair.group)
