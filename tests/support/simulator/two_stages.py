"""Suites of two stages played by hand against an engine: the first reply, then the judge's or evaluator's."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from auditors.clients.judge_client import UnreadableError
from auditors.types import Estimate, Message
from benchmarks.simulator.answer_key import AnswerKey
from benchmarks.simulator.engine import Engine
from benchmarks.simulator.loading import load, parse
from benchmarks.simulator.profile import Profile
from benchmarks.simulator.prose import embed
from benchmarks.suites.cogs import suite as cogs
from benchmarks.suites.common.estimation import Cell, CellKey, estimate
from benchmarks.suites.decision import judge as decision
from benchmarks.suites.decision.suite import Decision
from benchmarks.suites.ltf_test.suite import LTFTest
from benchmarks.suites.protocol import JUDGE_FAILED, Item, Observation, Parsed, ProtocolName, Reply
from tests.support.simulator.asking import asking_item

SUITE = Decision()
LTF = LTFTest()
COGS = cogs.CoGS()


def profile(planted: str | Mapping[str, object]) -> Profile:
    """A built-in profile by name, or one of the given sections only."""
    return load(planted) if isinstance(planted, str) else parse({"name": "planted", **planted})


def engine(planted: Profile, seed: int = 0) -> Engine:
    """Without an answer key, which these suites do not need."""
    return Engine(planted, seed, AnswerKey([]))


def ask(answering: Engine, item: Item) -> str:
    return answering.answer(asking_item(item)).generated[0].text


def ask_judge(answering: Engine, messages: Sequence[Message], **fields: object) -> str:
    """The reply at temperature 0, where judges are asked."""
    question = Item(item_id="q", messages=tuple(messages), axis="", groups=(), cluster="")
    return answering.answer(asking_item(question, temperature=0.0, **fields)).generated[0].text


def essays(answering: Engine, items: Iterable[Item], protocol: ProtocolName = "corrected") -> list[Observation]:
    """LTF-TEST: an essay an item, judged."""
    found = []
    for item in items:
        essay = ask(answering, item)
        question = LTF.judge_question(item, essay, protocol=protocol, seed=0)
        reply = ask_judge(answering, question.messages)
        try:
            parsed = LTF.read_judgement(item, reply, protocol=protocol, seed=0)
        except UnreadableError:
            parsed = Parsed("malformed", rule=JUDGE_FAILED)
        found.append(_observed(item, essay, parsed))
    return found


def decisions(answering: Engine, items: Iterable[Item], seed: int = 0) -> list[Observation]:
    """Decision: a reply an item, put to the blind judge unless it is a plain refusal."""
    found = []
    for item in items:
        text = ask(answering, item)
        parsed = SUITE.parse(item, text, protocol="corrected")
        if parsed.status == "ok":
            question = decision.judge_question(item, text, seed=seed)
            try:
                parsed = decision.read_verdict(
                    ask_judge(answering, question.messages), p1_is_a=decision.p1_is_a(item, seed)
                )
            except UnreadableError:
                parsed = Parsed("malformed", rule=JUDGE_FAILED)
        found.append(_observed(item, text, parsed))
    return found


def writing(answering: Engine, items: Iterable[Item], protocol: ProtocolName = "corrected") -> list[Observation]:
    """CoGS: texts, with their distances under the simulator's own embeddings."""
    texts = []
    for item in items:
        text = ask(answering, item)
        texts.append(_observed(item, text, COGS.parse(item, text, protocol=protocol)))
    pairs = [(one, np.array(embed(one.reply.text or ""), dtype=np.float32)) for one in COGS.to_embed(texts)]
    measured = {one.item.item_id: one for one in COGS.measured(pairs, embedder="simulated")}
    return [measured.get(one.item.item_id, one) for one in texts]


def evaluations(answering: Engine, items: Iterable[Item]) -> list[Observation]:
    """CoGS: the evaluator's choices."""
    replies = [(item, ask(answering, item)) for item in items]
    return [_observed(item, text, cogs.parse_choice(item, text)) for item, text in replies]


def by_key(cells: Iterable[Cell], *, confidence_level: float = 0.95) -> dict[CellKey, Estimate]:
    """Estimates by (metric, axis, group, reference, subset)."""
    return {cell.key: estimate(cell, seed=0, confidence_level=confidence_level) for cell in cells}


def covers(found: Estimate, planted: float | None) -> bool:
    """Whether the interval holds the planted value, give or take rounding in the last bits."""
    assert planted is not None
    assert found.lower is not None
    assert found.upper is not None
    return found.lower - 1e-9 <= planted <= found.upper + 1e-9


def _observed(item: Item, text: str, parsed: Parsed) -> Observation:
    reply = Reply(item_id=item.item_id, text=text, status=parsed.status, parsed=parsed.value, rule=parsed.rule)
    return Observation(item, reply)
