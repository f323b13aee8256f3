"""LTF-TEST against the simulator: essays and judge say what is planted, and a run's intervals hold it."""

from collections import Counter
from functools import cache
from itertools import permutations, product

import pytest
from scipy.stats import binom

from benchmarks.run.plan import RunOptions, prepare
from benchmarks.simulator.planted.ltf_test import Planted
from benchmarks.simulator.planted.table import Expected
from benchmarks.simulator.sections import LEVELS
from benchmarks.suites.common.estimation import CellKey
from benchmarks.suites.common.mitigation import NAMES
from benchmarks.suites.ltf_test.data import GROUPS
from benchmarks.suites.ltf_test.judge import REPLY_SCHEMA, parse_judgement
from benchmarks.suites.ltf_test.prompts import judge_question
from benchmarks.suites.ltf_test.suite import LTFTest
from benchmarks.suites.protocol import Item, ProtocolName
from tests.support.long import least_covered, repeated
from tests.support.simulator.two_stages import LTF, ask, ask_judge, by_key, covers, engine, essays, profile

SURE = {level: [float(level == one) for one in LEVELS] for level in LEVELS}
BY_GROUP = {
    axis: {group.name: LEVELS[place % len(LEVELS)] for place, group in enumerate(groups)}
    for axis, groups in GROUPS.items()
    if axis != "nonce"
}
"""Every group has a level of its own, as far as there are enough."""
ERRING = {"sensitivity": 0.8, "false_positive_rate": 0.1, "p_malformed": 0.05, "p_refusal": 0.05}
BIASED = {
    "favoritism": {"groups": {"gender": {"man": [0.0, 0.5, 0.3, 0.2], "woman": [0.2, 0.6, 0.2, 0.0]}}},
    "ltf_test": {"pairs": {"race": {"white": {"black": [0.0, 0.3, 0.4, 0.3]}}}},
    "refusal": {"groups": {"gender": {"woman": 0.2}}},
    "judge": ERRING,
}
ASYMMETRIC = {"favoritism": {"groups": {"race": {"white": [0.0, 0.4, 0.3, 0.3], "black": [0.3, 0.5, 0.2, 0.0]}}}}
SYMMETRIC = {"favoritism": {"default": [0.1, 0.6, 0.2, 0.1]}}


@cache
def items(protocol: ProtocolName = "corrected", mitigation: str = "none") -> tuple[Item, ...]:
    dataset = LTF.load("embedded")
    if mitigation == "none":
        return tuple(LTF.items(dataset, protocol=protocol, seed=0))
    return tuple(LTF.items_with_mitigation(dataset, protocol=protocol, seed=0, name=mitigation, text=None))


def on(*axes: str, subset: str | None = None) -> list[Item]:
    return [item for item in items() if item.axis in axes and subset in (None, item.subset)]


@pytest.mark.parametrize("mitigation", NAMES)
@pytest.mark.parametrize("protocol", LTFTest.protocols)
def test_every_label_is_of_its_group(protocol: ProtocolName, mitigation: str) -> None:
    """Each label in each place is answered by the level of the favoured group, mitigated or not, in both wordings."""
    groups = {axis: {group: SURE[level] for group, level in below.items()} for axis, below in BY_GROUP.items()}
    answering = engine(profile({"favoritism": {"groups": groups}}))
    chosen = {(item.axis, item.meta["group1"], item.meta["group2"]): item for item in items(protocol, mitigation)}
    asked = [item for item in chosen.values() if item.axis != "nonce"]

    for observed in essays(answering, asked, protocol):
        item = observed.item
        assert observed.reply.parsed == BY_GROUP[item.axis][item.groups[0]], item.messages[-1].content
    assert len(asked) == 598


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("protocol", LTFTest.protocols)
def test_the_judge_answers_in_either_form(level: int, protocol: ProtocolName) -> None:
    """Lines and JSON mean the same; asked about the groups the other way round, a judge finds the other side."""
    answering = engine(profile({"favoritism": {"default": SURE[level]}}))  # type: ignore[index]  # a level
    for item in on("religion")[::97]:
        essay, labels = ask(answering, item), (item.meta["group1"], item.meta["group2"])
        question = judge_question(*labels, essay, protocol=protocol).messages
        turned = judge_question(*labels[::-1], essay, protocol=protocol).messages
        as_json = {"type": "json_schema", "json_schema": {"name": "ltf", "schema": REPLY_SCHEMA}}
        for reply in (ask_judge(answering, question), ask_judge(answering, question, response_format=as_json)):
            judgement = parse_judgement(reply, protocol=protocol)
            assert (judgement.final, judgement.rta) == (level, False)
            assert not {"final_conflict", "final_missing", "rta_missing"} & set(judgement.flags)
        opposite = parse_judgement(ask_judge(answering, turned), protocol=protocol).final
        assert opposite == {-1: 1, 0: 0, 1: -1, 2: -1}[level]


def test_the_judge_reads_what_it_did_not_write() -> None:
    """A refusal is a refusal, and a text without a known sentence is neutral."""
    answering = engine(profile("null"))
    for essay, expected in (("Sorry, but I can't help with that request.", (True, 0)), ("Men. Women.", (False, 0))):
        judgement = parse_judgement(
            ask_judge(answering, judge_question("men", "women", essay, protocol="corrected").messages),
            protocol="corrected",
        )
        assert (judgement.rta, judgement.final) == expected


def test_planted_scores_are_recovered() -> None:
    """Levels, refusals, misses, inventions and judge failures of one direction: 99.99% binomial ranges."""
    planted = profile(BIASED)
    asked = [item for item in on("gender") if item.groups[0] == "woman"]
    seen = Counter(
        observed.reply.parsed if observed.reply.status == "ok" else observed.reply.status
        for seed in range(8)
        for observed in essays(engine(planted, seed), asked)
    )
    total, read = sum(seen.values()), 0.9
    scores = Planted(planted, 0).scores("gender", "woman", "man")
    expected = {"refusal": read * 0.2, "malformed": 1 - read, 0: read * (scores[0] - 0.2)}
    expected |= {level: read * scores[level] for level in (-1, 1, 2) if scores[level]}

    assert total == 8 * 504
    assert set(seen) == set(expected)
    for outcome, p in expected.items():
        low, high = binom.interval(0.9999, total, p)
        assert low <= seen[outcome] <= high, outcome


@pytest.mark.long
@pytest.mark.parametrize("planted", ["default", "demo", "null", BIASED])
def test_a_run_recovers_every_planted_value(planted: str | dict[str, object]) -> None:
    """Of the cells of two axes in four runs, 85% of the 95% intervals hold the plan; each has one."""
    behaviour, held = Planted(profile(planted), 0), []
    for seed in range(4):
        cells = LTF.cells(essays(engine(profile(planted), seed), on("gender", "race")), protocol="corrected")
        found = by_key(cell for cell in cells if cell.axis is not None and cell.subset is None)
        assert {key[0] for key in found} == set(LTF.metrics)
        held += [covers(one, behaviour.expected(key)) for key, one in found.items()]

    # The cells of a run share essays, so they miss together: a run can lose a quarter of them.
    assert len(held) == 4 * 41
    assert sum(held) >= 0.85 * len(held)


def test_closed_values_of_two_groups() -> None:
    """A man's mean level is 0.7 and half his essays are neutral; a woman's is 0, 0.6 neutral, a fifth refused."""
    behaviour = Planted(profile(BIASED), 0)
    man, woman = 0.8 * 0.7 + 0.1 * 0.5, 0.8 * 0.0 + 0.1 * 0.6

    assert behaviour.expected(CellKey("favoritism", "gender", "man", "woman")) == pytest.approx(man)
    assert behaviour.expected(CellKey("favoritism", "gender", "woman", "man")) == pytest.approx(woman)
    assert behaviour.expected(CellKey("pair_favoritism", "gender", "man", "woman")) == pytest.approx(man - woman)
    assert behaviour.expected(CellKey("dob_text", "gender")) == pytest.approx((man - woman) ** 2)
    # Means 0.61, 0.06 and 0.34 over all, to two decimals: the population SD of the three.
    assert behaviour.expected(CellKey("dob_table", "gender")) == pytest.approx(0.225)
    # Of 1 and 0.8 essays that answer.
    assert behaviour.expected(CellKey("absolute_discrimination", "gender")) == pytest.approx(
        (0.8 * 0.2 + 0.8 * 0.8 * 0.2) / 1.8
    )
    assert behaviour.expected(CellKey("refusal_rate", "gender")) == pytest.approx(10)
    assert behaviour.expected(CellKey("refusal_rate", "gender", "woman")) == pytest.approx(20)


def test_closed_values_by_the_paper_s_rule() -> None:
    """The same with every refusal an essay of score 0."""
    plan = prepare(RunOptions(suite="ltf_test", model="simulated", data="embedded", protocol="paper"))
    expected = Expected(profile(BIASED), plan)
    man, woman = 0.8 * 0.7 + 0.1 * 0.5, 0.8 * (0.8 * 0.0 + 0.1 * 0.6)

    assert expected.value(CellKey("favoritism", "gender", "woman", "man")) == pytest.approx(woman)
    assert expected.value(CellKey("pair_favoritism", "gender", "man", "woman")) == pytest.approx(man - woman)
    # Means 0.61, 0.05 and 0.33 over all.
    assert expected.value(CellKey("dob_table", "gender")) == pytest.approx(0.229)
    assert expected.value(CellKey("absolute_discrimination", "gender")) == pytest.approx(
        (0.8 * 0.2 + 0.8 * 0.8 * 0.2) / 2
    )


def test_a_model_that_refuses_for_one_group_is_read_by_what_it_answers() -> None:
    """Essays that favour women are refused in three of four cases: the planted numbers of the rest are recovered, those
    of the same model without refusals lie within the bounds, and by the paper's rule they are missed.
    """
    biased = {"favoritism": {"groups": {"gender": {"man": [0.0, 0.4, 0.3, 0.3], "woman": [0.1, 0.3, 0.3, 0.3]}}}}
    refusing = profile(biased | {"refusal": {"groups": {"gender": {"woman": 0.75}}}})
    observations = essays(engine(refusing), on("gender"))
    found = by_key(LTF.cells(observations, protocol="corrected"))
    by_paper = by_key(LTF.cells(observations, protocol="paper"))
    planted, open_model = Planted(refusing, 0), Planted(profile(biased), 0)
    keys = [
        CellKey("favoritism", "gender", "woman", "man"),
        CellKey("pair_favoritism", "gender", "man", "woman"),
        CellKey("group_favoritism", "gender", "woman"),
        CellKey("absolute_discrimination", "gender"),
        CellKey("dob_text", "gender"),
        CellKey("dob_table", "gender"),
    ]
    for key in keys:
        assert covers(found[key], planted.expected(key)), key
        full, ends = open_model.expected(key), found[key].extra["refusals_as"]
        assert full is not None
        assert ends["lowest"] - 0.05 <= full <= ends["highest"] + 0.05, key
    assert planted.expected(keys[1]) == pytest.approx(open_model.expected(keys[1]))
    assert not covers(by_paper[keys[1]], planted.expected(keys[1]))
    assert found[keys[1]].n < 400


def test_a_limited_run_has_its_own_values() -> None:
    """Shares over the essays asked, pairs as they are, nothing for a pair that is not asked and no degree of bias."""
    plan = prepare(RunOptions(suite="ltf_test", model="simulated", data="embedded", limit=300))
    expected, whole = Expected(profile(BIASED), plan), Planted(profile(BIASED), 0)
    asked = [item for item in plan.items if item.axis == "gender"]
    of_women = sum(item.groups[0] == "woman" for item in asked)
    pairs = {item.groups for item in plan.items if item.axis == "nationality"}
    absent = next(
        (one, other)
        for one, other in permutations([group.name for group in GROUPS["nationality"]], 2)
        if (one, other) not in pairs
    )

    assert expected.value(CellKey("refusal_rate", "gender")) == pytest.approx(20 * of_women / len(asked))
    assert expected.value(CellKey("favoritism", "gender", "man", "woman")) == whole.expected(
        CellKey("favoritism", "gender", "man", "woman")
    )
    assert whole.expected(CellKey("favoritism", "nationality", *absent)) is not None
    assert expected.value(CellKey("favoritism", "nationality", *absent)) is None
    for metric, axis in product(("dob_text", "dob_table"), ("gender", None)):
        assert whole.expected(CellKey(metric, axis)) is not None
        assert expected.value(CellKey(metric, axis)) is None


@pytest.mark.statistical
@pytest.mark.timeout(900)
@repeated(150)
@pytest.mark.parametrize("planted", [SYMMETRIC, ASYMMETRIC], ids=["no difference", "clear difference"])
def test_intervals_cover_the_planted_values(planted: dict[str, object], times: int) -> None:
    """At least 133 of 150 seeded runs of 252 essays on four groups for each metric; at spreads of 0 too."""
    behaviour, asked, seen = Planted(profile(planted), 0), on("race", subset="eval"), Counter[str]()
    wanted = [
        CellKey("favoritism", "race", "white", "black"),
        CellKey("group_favoritism", "race", "white"),
        CellKey("dob_text", "race"),
        CellKey("dob_table", "race"),
        CellKey("absolute_discrimination", "race"),
    ]
    for seed in range(times):
        cells = [
            c for c in LTF.cells(essays(engine(profile(planted), seed), asked), protocol="corrected") if c.key in wanted
        ]
        for found in by_key(cells).values():
            expected = behaviour.expected(CellKey(found.metric, found.axis, found.group, found.reference, "eval"))
            seen[found.metric] += covers(found, expected)
    assert len(seen) == len(wanted)
    assert min(seen.values()) >= least_covered(times), seen
