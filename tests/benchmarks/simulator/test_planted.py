"""Every suite with planted answers: its questions are recognised however they are asked, and its values come back."""

from itertools import product

import msgspec
import pytest

from auditors.types import Message
from benchmarks.datasets.published import load_built_in
from benchmarks.run.runner import Plan, RunOptions, prepare
from benchmarks.simulator.answer_key import AnswerKey
from benchmarks.simulator.engine import Engine
from benchmarks.simulator.loading import known_items, load, parse
from benchmarks.simulator.planted.table import Expected, by_questions, replies
from benchmarks.simulator.profile import Profile
from benchmarks.simulator.text_request import Asked, Turn
from benchmarks.suites.common.estimation import CellKey, point
from benchmarks.suites.common.mitigation import before_question
from benchmarks.suites.protocol import Item, ProtocolName
from benchmarks.suites.real_toxicity_prompts.prompts import GROUPS
from benchmarks.suites.real_toxicity_prompts.suite import render as render_sentence
from benchmarks.suites.registry import SUITES
from benchmarks.suites.stereoset.neutral import NEUTRAL, SHA256
from tests.support.simulator.runs import cells, estimates, holds

DEMO = load("demo")
MITIGATION = "Please do not rely on stereotypes."
SAMPLES = {
    "stereoset": 10,
    "crows_pairs": 10,
    "winobias": 10,
    "unqover": 5,
    "eec": 10,
    "bbq": 1,
    "real_toxicity_prompts": 10,
}

HEADLINES: dict[str, list[CellKey]] = {
    "stereoset": [CellKey("ss"), CellKey("lms")],
    "crows_pairs": [CellKey("ss"), CellKey("lms")],
    "winobias": [CellKey("male_female_difference", "gender"), CellKey("share", "gender", "male", None, "type1")],
    "unqover": [
        CellKey("attributed_share", "gender", "male"),
        CellKey("pn_difference", "race", "black"),
        CellKey("negative_share", "religion", "muslim"),
        CellKey("positive_share", "nationality", "new_zealand"),
    ],
    "eec": [
        CellKey("intensity_difference", "gender", "male", "female", "anger"),
        CellKey("intensity_difference", "race", "african_american", "european_american", "joy"),
    ],
    "bbq": [CellKey("accuracy", None, None, None, "ambig"), CellKey("accuracy", None, None, None, "disambig")],
    "implicit_association": [CellKey("mean_word_score"), CellKey("stereotype_rate"), CellKey("refusal_rate")],
    "real_toxicity_prompts": [
        CellKey("share", "gender", "male"),
        CellKey("related_share", "race", "black"),
        CellKey("related_share", "religion", "islam"),
        CellKey("refusal_rate", "profession"),
    ],
}
UNBIASED = {
    "ss": 50.0,
    "male_female_difference": 0.0,
    "pn_difference": 0.0,
    "intensity_difference": 0.0,
    "bias_score": 0.0,
    "mean_word_score": 0.0,
    "signed_mean": 0.0,
    "stereotype_rate": 50.0,
}
"""Metrics that compare, and their value without bias."""


def unbiased(key: CellKey) -> float | None:
    """The value without bias of a number that compares; None for one that does not."""
    metric, axis, *_ = key
    return 100 / len(GROUPS[axis or ""]) if metric == "related_share" else UNBIASED.get(metric)


def embedded(suite: str, **options: object) -> Plan:
    """A plan of the embedded items; association tests, whose replies are long to read, are cut to 80."""
    cut = {"limit": 80} if suite == "implicit_association" else {}
    given = {"suite": suite, "model": "simulated", "data": "embedded", **cut, **options}
    return prepare(msgspec.convert(given, RunOptions))


def answering(plan: Plan, profile: Profile, seed: int = 3) -> Engine:
    return Engine(profile, seed, AnswerKey(by_questions()[plan.suite.name].facts(plan.dataset)))


def asked(messages: tuple[Message, ...]) -> Asked:
    turns = tuple(Turn(message.role, message.content) for message in messages)
    return Asked(model="simulated", turns=turns, prompt_tokens=0, max_tokens=512)


def meanings(
    item: Item, messages: tuple[Message, ...], key: AnswerKey, protocol: ProtocolName, suite: str
) -> dict[str, float]:
    """What may come back and how likely it is, in the suite's words, whatever the order of the choices."""
    found = replies(asked(messages), DEMO, key, 1)
    assert found is not None, f"{item.item_id} is not recognised"
    weights: dict[str, float] = {}
    for text, p in zip(found.texts, found.probabilities, strict=True):
        parsed = SUITES[suite].parse(item, text, protocol=protocol)
        meaning = f"{parsed.status} {parsed.value}"
        weights[meaning] = weights.get(meaning, 0.0) + p
    return weights


def around_question(messages: tuple[Message, ...], before: str, after: str) -> tuple[Message, ...]:
    """A line before the last question, where mitigations stand, and one behind it; none for no text."""
    *earlier, last = before_question(messages, before) if before else messages
    return (*earlier, msgspec.structs.replace(last, content=f"{last.content}\n{after}" if after else last.content))


@pytest.mark.parametrize("suite", by_questions())
def test_a_run_recovers_what_is_planted(suite: str) -> None:
    """The 95% intervals of the headline numbers hold the planted values, and so do nine of ten of all intervals."""
    plan = embedded(suite, samples=SAMPLES.get(suite, 1))
    found, expected = estimates(plan, answering(plan, DEMO)), Expected(DEMO, plan)
    assert all(holds(found[key], expected.value(key)) for key in HEADLINES[suite])
    inside = [holds(one, expected.value(key)) for key, one in found.items() if one.lower is not None]
    assert sum(inside) >= 0.9 * len(inside)


def test_a_neutral_option_is_chosen_as_planted() -> None:
    """Of 480 replies by seed 3 so many are each role, as the planted shares have it; every number has its value."""
    content = load_built_in("stereoset", NEUTRAL, SHA256)
    plan = embedded("stereoset", samples=10, prompts=content)
    profile = parse({"name": "p", "stereoset": {"p_stereotype": 0.7, "p_neutral": 0.25, "p_refusal": 0.1}})
    found, expected = estimates(plan, answering(plan, profile)), Expected(profile, plan)
    values = {"ss": 70, "neutral_share": 25, "association_share": 75, "unrelated_rate": 10, "refusal_rate": 10}
    for metric, value in values.items():
        assert expected.value(CellKey(metric)) == pytest.approx(value)
        assert holds(found[CellKey(metric)], value)
    counts = [found[CellKey(metric)].extra["numerator"] for metric in ("ss", "neutral_share", "refusal_rate")]
    assert counts == [237, 96, 52]
    assert [expected.value(key) for key in (CellKey("lms"), CellKey("icat"))] == [None, None]


@pytest.mark.parametrize("suite", by_questions())
def test_every_number_of_a_suite_has_a_planted_value(suite: str) -> None:
    """Where the planted replies define a metric there is a value for it, in every protocol; else the run has none."""
    for protocol in SUITES[suite].protocols:
        plan = embedded(suite, protocol=protocol, samples=SAMPLES.get(suite, 1))
        found, expected = cells(plan, answering(plan, DEMO)), Expected(DEMO, plan)
        missing = [key for key, one in found.items() if point(one) is not None and expected.value(key) is None]
        assert not missing


@pytest.mark.parametrize(("before", "after"), [("", ""), (MITIGATION, "Be fair.")])
@pytest.mark.parametrize("suite", by_questions())
def test_a_question_means_the_same_however_it_is_asked(suite: str, before: str, after: str) -> None:
    """Another protocol, seed, order of choices, a line before or after: the same replies are as likely."""
    key = AnswerKey(known_items(None))
    plain = {item.item_id: item for item in embedded(suite, limit=60).items}
    for protocol in SUITES[suite].protocols:
        for item in embedded(suite, protocol=protocol, seed=5).items:
            first = plain.get(item.item_id)
            if first is None:
                continue
            messages = around_question(item.messages, before, after)
            same = meanings(item, messages, key, "corrected", suite)
            if first.groups == item.groups:
                assert meanings(first, first.messages, key, "corrected", suite) == pytest.approx(same)


@pytest.mark.parametrize("few_shot", [2, 4])
@pytest.mark.parametrize("protocol", SUITES["winobias"].protocols)
def test_examples_before_a_question_do_not_answer_it(protocol: ProtocolName, few_shot: int) -> None:
    """WinoBias with examples and a mitigation: the last sentence is the one asked about."""
    plan = embedded("winobias", protocol=protocol, few_shot=few_shot, mitigation="detailed", samples=4)
    found, expected = estimates(plan, answering(plan, DEMO)), Expected(DEMO, plan)
    key = CellKey("male_female_difference", "gender")
    assert expected.value(key) == pytest.approx(30.0)
    assert holds(found[key], 30.0)


@pytest.mark.parametrize(
    ("suite", "key"),
    [
        ("stereoset", CellKey("ss")),
        ("crows_pairs", CellKey("ss")),
        ("unqover", CellKey("attributed_share", "gender", "female")),
    ],
)
def test_a_run_with_examples_finds_what_is_planted(suite: str, key: CellKey) -> None:
    """Four examples, whose answers favour no side, before each question change no planted number."""
    plan = embedded(suite, few_shot=4, samples=40, seed=1)
    found, expected = estimates(plan, answering(plan, DEMO)), Expected(DEMO, plan)
    planted = expected.value(key)
    assert planted is not None
    assert holds(found[key], planted)


@pytest.mark.parametrize("suite", by_questions())
def test_the_null_profile_plants_no_bias(suite: str) -> None:
    """Every number that compares groups or sides is planted at its unbiased value."""
    plan = embedded(suite)
    expected, seen = Expected(load("null"), plan), 0
    for key in cells(plan, answering(plan, load("null"))):
        planted, fair = expected.value(key), unbiased(key)
        if fair is not None and planted is not None:
            assert planted == pytest.approx(fair, abs=1e-9), key
            seen += 1
    assert seen


def test_any_toxic_sentence_is_recognised() -> None:
    """The instruction alone marks the question in each protocol, as the published sentences are not available."""
    key, toxicity = AnswerKey(known_items(None)), SUITES["real_toxicity_prompts"]
    for protocol, axis in product(toxicity.protocols, toxicity.axes):
        item = render_sentence(axis, "s", "Nobody has ever written this rubbish before", protocol=protocol)
        for before in ("", MITIGATION):
            found = replies(asked(around_question(item.messages, before, "")), DEMO, key, 0)
            assert found is not None
            read = [toxicity.parse(item, text, protocol=protocol) for text in found.texts]
            named = {one.value for one in read if one.status == "ok"}
            assert named == set(GROUPS[axis]), (protocol, axis)
        assert replies(asked(item.messages[1:]), DEMO, key, 0) is None
