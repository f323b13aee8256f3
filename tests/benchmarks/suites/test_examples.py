"""Answered examples before the questions of StereoSet, CrowS-Pairs and UnQover."""

import itertools

import pytest

from benchmarks.run.plan import Plan, RunOptions, prepare
from benchmarks.suites.protocol import Item, ProtocolName
from benchmarks.suites.registry import SUITES

NAMES = ("stereoset", "crows_pairs", "unqover")
PROTOCOLS: tuple[ProtocolName, ...] = ("corrected", "paper")


def asked(suite: str, few_shot: int, protocol: ProtocolName = "corrected", seed: int = 0) -> Plan:
    options = RunOptions(suite=suite, model="m", data="embedded", few_shot=few_shot, protocol=protocol, seed=seed)
    return prepare(options)


def side(suite: str, example: Item, answer: str, protocol: ProtocolName) -> str:
    """The side that an answer stands for: a role, or of UnQover the place."""
    parsed = SUITES[suite].parse(example, answer, protocol=protocol)
    assert parsed.status == "ok", (example, answer)
    return str(parsed.value)


@pytest.mark.parametrize(("suite", "protocol", "seed"), list(itertools.product(NAMES, PROTOCOLS, (0, 1))))
def test_half_of_the_answers_are_of_each_side(suite: str, protocol: ProtocolName, seed: int) -> None:
    """The examples are unasked turns of other axes, balanced in side and place; the question itself does not change."""
    plain = {item.item_id: item for item in asked(suite, 0, protocol, seed).items}
    by_question = {item.messages[-1].content: item for item in plain.values()}
    two, four = (asked(suite, few_shot, protocol, seed).items for few_shot in (2, 4))
    ids = {item.item_id for item in two}
    assert [item.item_id for item in two] == [item.item_id for item in four]
    assert len(ids) >= len(plain) / 2
    places = []
    for few_shot, item in [*((2, item) for item in two), *((4, item) for item in four)]:
        first, *turns, last = item.messages
        examples = [by_question[turn.content] for turn in turns[::2]]
        sides = [side(suite, e, turn.content, protocol) for e, turn in zip(examples, turns[1::2], strict=True)]
        places += [
            next(at for at, c in enumerate(e.choices) if turn.content in (c.text, f"Choice{at + 1}"))
            for e, turn in zip(examples, turns[1::2], strict=True)
        ]
        assert (first, last) == plain[item.item_id].messages
        assert [turn.role for turn in turns] == ["user", "assistant"] * few_shot
        assert sorted(sides.count(name) for name in set(sides)) == [few_shot / 2] * 2
        assert not {e.item_id for e in examples} & ids
        assert item.axis not in {e.axis for e in examples}
        assert {e.messages[0] for e in examples} == {first}
        assert len({e.item_id for e in examples}) == few_shot
    assert max(places.count(at) for at in set(places)) <= 0.6 * len(places)


def test_prompts_with_examples_are_pinned() -> None:
    """A change of any prompt changes this hash and needs a new suite version."""
    assert {suite: asked(suite, 4).prompt_sha256[:12] for suite in NAMES} == {
        "stereoset": "0f4c3c432402",
        "crows_pairs": "4fe0b6b45e68",
        "unqover": "d79aa4de42ae",
    }
