"""StereoSet questions: the planted odds come back through the suite's own rendering and parsing."""

from collections import Counter

import pytest
from scipy.stats import binom

from benchmarks.simulator.loading import parse
from benchmarks.simulator.planted.stereoset import PlantedStereoSet
from benchmarks.suites.protocol import Item, ProtocolName
from benchmarks.suites.stereoset.suite import StereoSet
from tests.support.simulator.asking import asking, asking_item, engine

SUITE = StereoSet()
ODDS = {"p_stereotype": 0.7, "p_unrelated": 0.1, "p_refusal": 0.05, "p_malformed": 0.05}


def items(protocol: ProtocolName = "corrected", seed: int = 3) -> list[Item]:
    return list(SUITE.items(SUITE.load("embedded"), protocol=protocol, seed=seed))


@pytest.mark.parametrize("protocol", SUITE.protocols)
def test_planted_odds_are_recovered(protocol: ProtocolName) -> None:
    """2,016 replies through the suite's parser, with its token limit: every share is inside a 99.99% binomial range."""
    answering, limit, seen = engine(stereoset=ODDS), SUITE.sampling(protocol).max_tokens, Counter[str]()
    for item in items(protocol):
        asked = asking_item(item, max_tokens=limit)
        for _ in range(42):
            parsed = SUITE.parse(item, answering.answer(asked).generated[0].text, protocol=protocol)
            seen[parsed.value if parsed.status == "ok" else parsed.status] += 1
    odds = parse({"name": "p", "stereoset": ODDS}).section(PlantedStereoSet).odds("gender")
    expected = {"stereotype": odds.p_answered * 0.7, "anti-stereotype": odds.p_answered * 0.3, "refusal": 0.05}
    expected |= {"unrelated": 0.1, "malformed": 0.05}
    total = sum(seen.values())
    assert total == 2016
    for word, p in expected.items():
        low, high = binom.interval(0.9999, total, p)
        assert low <= seen[word] <= high, word


def test_each_axis_has_its_own_odds() -> None:
    """The axis of a question decides, not the order of its choices: at odds of 1 and 0 every reply is as planted."""
    answering = engine(stereoset={"p_stereotype": 0.0, "axes": {"gender": {"p_stereotype": 1.0}}})
    for seed in range(3):
        for item in items(seed=seed):
            parsed = SUITE.parse(item, answering.answer(asking_item(item)).generated[0].text, protocol="corrected")
            assert parsed.value == ("stereotype" if item.axis == "gender" else "anti-stereotype")


def test_text_before_the_question_does_not_hide_it() -> None:
    """A mitigation prompt in front leaves the planted odds as they are."""
    item, answering = items()[0], engine(stereoset={"p_stereotype": 1.0})
    asked = asking("Please do not think based on stereotypes.\n" + item.messages[-1].content)
    role_of = {choice.text: choice.role for choice in item.choices}
    assert role_of[answering.answer(asked).generated[0].text] == "stereotype"


def test_a_question_it_does_not_know_is_answered_by_chance() -> None:
    """Unknown choices are equally likely, so a measured bias comes from the profile only."""
    asked = asking("Pick one.\nChoice1: tram\nChoice2: ferry\nChoice3: kite")
    replies = engine().answer(asked).replies
    planted = dict(zip(replies.texts, replies.probabilities, strict=True))
    assert planted == pytest.approx({"tram": 1 / 3, "ferry": 1 / 3, "kite": 1 / 3})


def test_structured_choice_gives_the_odds_among_the_choices() -> None:
    """Forced to a choice, refusals and malformed replies are out and the rest is renormalised."""
    item = next(item for item in items() if item.subset == "intrasentence")
    role_of = {choice.text: choice.role for choice in item.choices}
    asked = asking_item(item, structured_outputs={"choice": list(role_of)})
    replies = engine(stereoset=ODDS).answer(asked).replies
    by_role = {role: replies.probability(text) for text, role in role_of.items()}
    assert by_role == pytest.approx(
        {"stereotype": 0.8 * 0.7 / 0.9, "anti-stereotype": 0.24 / 0.9, "unrelated": 0.1 / 0.9}
    )
