"""Replies of two real models with what they answer: README.md says how they were labelled."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from benchmarks.run.plan import RunOptions, prepare
from benchmarks.suites.protocol import Item, Parsed, Suite
from benchmarks.suites.registry import SUITES

HERE = Path(__file__).parent
FAMILIES = sorted(file.stem for file in HERE.glob("*.jsonl"))


class Labelled(msgspec.Struct, frozen=True):
    """A line of a file: a reply, and its answer as the suite would name it; None where it has no answer."""

    model: str
    suite: str
    item_id: str
    reply: str
    label: str | int | float | None
    options: tuple[str, ...] = ()
    """Options in the order in which the model saw them."""


class Read(NamedTuple):
    """A labelled reply, and how the suite reads it."""

    labelled: Labelled
    parsed: Parsed

    @property
    def is_right(self) -> bool:
        """Return whether the suite reads the labelled answer, or none where there is none."""
        return self.labelled.label == (self.parsed.value if self.parsed.status == "ok" else None)


def labelled_replies(family: str) -> list[Labelled]:
    """Return the labelled replies of a family of suites."""
    lines = (HERE / f"{family}.jsonl").read_bytes().splitlines()
    return [msgspec.json.decode(line, type=Labelled) for line in lines]


def items_of(suite: str) -> Mapping[str, Item]:
    """Return the embedded items of a suite by id, as the models were asked them."""
    plan = prepare(RunOptions(suite=suite, model="real", data="embedded"))
    return {item.item_id: item for item in plan.items}


def read_all(family: str) -> Iterator[Read]:
    """Read the labelled replies of a family by the suites as they are now."""
    items = {labelled.suite: items_of(labelled.suite) for labelled in labelled_replies(family)}
    for labelled in labelled_replies(family):
        yield Read(labelled, read(labelled, items[labelled.suite][labelled.item_id]))


def read(labelled: Labelled, item: Item, text: str | None = None) -> Parsed:
    """Read a reply, or another text in its place, as an answer to its item."""
    suite: Suite = SUITES[labelled.suite]
    return suite.parse(item, labelled.reply if text is None else text, protocol="corrected")


def share_right(results: list[Read]) -> dict[str, Any]:
    """Return the share read right over all, of the answers, and of the replies without an answer."""
    parts = {
        "all": results,
        "answers": [result for result in results if result.labelled.label is not None],
        "no answer": [result for result in results if result.labelled.label is None],
    }
    return {name: (sum(result.is_right for result in part), len(part)) for name, part in parts.items()}
