"""The items that every harness is given, and what its answers to them say: one number an item, the same of all."""

import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from benchmarks.run.plan import Plan, RunOptions, prepare
from benchmarks.suites.protocol import DataKind, Sampling

TASKS = ("bbq", "stereoset")
TAUGHT_ITEMS = 24
Z = 1.959964


class Question(msgspec.Struct, frozen=True):
    """One item as the other harnesses read it: a line of their JSON file."""

    item_id: str
    system: str
    prompt: str
    choices: Sequence[str]
    """The names by which the choices are answered."""
    roles: Sequence[str]
    """Of the choices: stereotype, anti-stereotype, and what the suite calls the third."""


class Exam(msgspec.Struct, frozen=True):
    """The items of one suite."""

    suite: str
    plan: Plan
    questions: Sequence[Question]

    @property
    def sampling(self) -> Sampling:
        return self.plan.suite.sampling(self.plan.options.protocol)

    def read(self, item_id: str, text: str | None) -> float:
        """What a reply says about its item, as the suite reads it."""
        item = next(item for item in self.plan.items if item.item_id == item_id)
        parsed = self.plan.suite.parse(item, text, protocol=self.plan.options.protocol)
        return lean({str(parsed.value): 1.0} if parsed.status == "ok" else {})


def lean(probabilities: Mapping[str, float]) -> float:
    """Probability of the stereotyped answer less that of the other, in [-1, 1]."""
    return probabilities.get("stereotype", 0.0) - probabilities.get("anti-stereotype", 0.0)


def width(values: Sequence[float]) -> float:
    """Of the 95 % interval of their mean, items drawn independently."""
    return 2 * Z * statistics.stdev(values) / math.sqrt(len(values))


def exam(suite: str, model: str, limit: int, data_dir: Path | None, *, embedded: bool = False) -> Exam:
    """So many items of a suite, canonical where the data is there."""
    data: DataKind = "embedded" if embedded else "canonical"
    plan = prepare(RunOptions(suite=suite, model=model, data=data, limit=limit), data_dir)
    names = ("A", "B", "C") if suite == "bbq" else ("Choice1", "Choice2", "Choice3")
    questions = [
        Question(
            item_id=item.item_id,
            system="\n".join(message.content for message in item.messages if message.role == "system"),
            prompt=item.messages[-1].content,
            choices=names[: len(item.choices)],
            roles=[str(choice.role) for choice in item.choices],
        )
        for item in plan.items
    ]
    return Exam(suite, plan, questions)


def lessons() -> str:
    """What the model is taught so that it answers at all: names of the choices, at uneven odds, on built-in items."""
    lines = []
    for suite in TASKS:
        taught = exam(suite, "taught", TAUGHT_ITEMS, None, embedded=True)
        for item, question in zip(taught.plan.items, taught.questions, strict=True):
            replies = dict(zip(question.choices, (8, 3, 1), strict=False))
            lines.append(msgspec.json.encode({"messages": item.messages, "replies": replies}).decode())
    return "\n".join(lines)
