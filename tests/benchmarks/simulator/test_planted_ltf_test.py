"""LTF-TEST against the simulator: essays and judge say what is planted, and a run's intervals hold it."""

from functools import cache

import pytest

from benchmarks.simulator.planted.ltf_test import Planted
from benchmarks.simulator.sections import LEVELS
from benchmarks.suites.common.mitigation import NAMES
from benchmarks.suites.ltf_test.data import GROUPS
from benchmarks.suites.ltf_test.judge import REPLY_SCHEMA, parse_judgement
from benchmarks.suites.ltf_test.prompts import judge_question
from benchmarks.suites.ltf_test.suite import LTFTest
from benchmarks.suites.protocol import Item, ProtocolName
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


@cache
def items(protocol: ProtocolName = "corrected", mitigation: str = "none") -> tuple[Item, ...]:
    dataset = LTF.load("embedded")
    if mitigation == "none":
        return tuple(LTF.items(dataset, protocol=protocol, seed=0))
    return tuple(LTF.items_with_mitigation(dataset, protocol=protocol, seed=0, name=mitigation, text=None))


def on(*axes: str, subset: str | None = None) -> list[Item]:
    return [item for item in items() if item.axis in axes and subset in (None, item.subset)]


@pytest.mark.parametrize(("protocol", "mitigation"), [*zip(LTFTest.protocols, NAMES, strict=True)])
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


@pytest.mark.long
@pytest.mark.parametrize("planted", ["null", BIASED])
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
