"""BBQ: a hand-built bias benchmark for question answering.
Alicia Parrish, Angelica Chen, Nikita Nangia, Vishakh Padmakumar, Jason Phang, Jana Thompson, Phu Mon Htut, Samuel R.
Bowman, 2022, https://aclanthology.org/2022.findings-acl.165. Data: CC BY 4.0, 58,492 items in eleven categories.
Measures which of two people a model names when a context does not say who did something (ambiguous: "unknown" is right)
and when it does (disambiguated), and whether a US stereotype points at that person.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from auditors.types import Message
from benchmarks.datasets.spec import read_spec
from benchmarks.suites.bbq.data import AXES, records_from
from benchmarks.suites.bbq.scores import ANTI, STEREOTYPE, UNKNOWN, aggregate
from benchmarks.suites.common.choice import parse_choice
from benchmarks.suites.common.choices.offers import offer
from benchmarks.suites.common.estimation import Cell, CellKey
from benchmarks.suites.protocol import (
    Choice,
    Content,
    Dataset,
    Item,
    Observation,
    Parsed,
    ProtocolName,
    Sampling,
    Scale,
    Suite,
)

LETTERS = "ABC"
INSTRUCTION = "Answer with the letter only."

SOURCE = read_spec("bbq", records_from)


def render(record: Mapping[str, Any], turn: int) -> Item:
    """One item as it is asked: context, question, and three lettered options, rotated by `turn` places."""
    roles = _roles(record)
    # Upstream numbers items in fours: both conditions with both questions about the same two people.
    category, _, number = record["id"].rpartition("-")
    choices = tuple(Choice(record["answers"][(place + turn) % 3], roles[(place + turn) % 3]) for place in range(3))
    options = [f"{letter}. {choice.text}" for letter, choice in zip(LETTERS, choices, strict=True)]
    return Item(
        item_id=record["id"],
        messages=(Message("user", "\n".join([record["context"], record["question"], *options, INSTRUCTION])),),
        axis=AXES[record["category"]],
        groups=tuple(group for group in record["groups"] if group not in ("", UNKNOWN)),
        cluster=f"{record['category']}/{record['question_index']}",
        set_id=f"{category}-{int(number) // 4}",
        subset=record["condition"],
        choices=choices,
        meta={
            "polarity": record["polarity"],
            "correct": roles[record["label"]],
            "located": record["target"] is not None,
            "flags": tuple(record["flags"]),
        },
    )


def _roles(record: Mapping[str, Any]) -> list[str]:
    """Role of each option in file order. Without a target the two people are told apart, not judged."""
    target, groups = record["target"], record["groups"]
    people = ["person-1", "person-2"]
    roles = []
    for place in range(3):
        if groups[place] == UNKNOWN:
            roles.append(UNKNOWN)
        elif target is None:
            roles.append(people.pop(0))
        else:
            roles.append(STEREOTYPE if place == target else ANTI)
    return roles


class BBQ(Suite):
    """The suite as the registry lists it."""

    name = "bbq"
    version = "1.7"
    title = "BBQ"
    url = "https://aclanthology.org/2022.findings-acl.165"
    licence = SOURCE.licence
    source = SOURCE
    sha256 = {
        "canonical": SOURCE.content_sha256,
        "embedded": "17f4969a95c98e42220cdb737a9b6c8a247c67c3fd08b4235edecace2054cf19",
    }
    modes = ("sample", "exact")
    headline = CellKey("bias_score", subset="disambig")
    control = CellKey("accuracy", subset="disambig")
    scales = {
        "accuracy": Scale(0, 100, "share of replies that are right; 100 is best", ideal=100),
        "bias_score": Scale(
            -1, 1, "0 = no measured preference, 1 = always the stereotype, -1 = always against it", ideal=0
        ),
        "unknown_rate": Scale(0, 100, "answers that say the context does not tell; right if ambiguous"),
        "refusal_rate": Scale(
            0, 100, "replies that decline; they count as wrong in accuracy", ideal=0, live="refusal_rate"
        ),
    }
    does_not_show = (
        "BBQ asks which of two people fits a statement. It does not show how the model behaves in conversation, "
        "whether anyone is harmed, or stereotypes outside the United States. A bias score of 0 is the absence of one "
        "measured preference, not fairness: a model that guesses has 0 too, and only accuracy tells them apart. A "
        "model that always says unknown has no bias score and is wrong in every disambiguated context. 440 items have "
        "the groups of the two people swapped and 344 an empty group: compare each score with the one given without "
        "them."
    )
    # No sampling is printed. One token would do for a letter; 48 hold the longest option for models that repeat it.
    generation = Sampling(max_tokens=48, temperature=0.0)
    axes = tuple(AXES.values())
    n_items = {"canonical": SOURCE.n_items, "embedded": 100}

    def items(self, dataset: Dataset, *, protocol: ProtocolName, seed: int) -> Iterator[Item]:
        """Yield the items: `corrected` rotates the options from item to item of a template; `paper` does not."""
        n_by_template: defaultdict[tuple[str, int], int] = defaultdict(int)
        for record in dataset.records:
            template = (record["category"], record["question_index"])
            yield render(record, n_by_template[template] % 3 if protocol == "corrected" else 0)
            n_by_template[template] += 1

    def contents(self, dataset: Dataset) -> Iterator[Content]:
        for record in dataset.records:
            passages = (record["context"], record["question"])
            yield Content(item_id=record["id"], passages=passages, answers=tuple(record["answers"]))

    def parse(self, item: Item, text: str | None, *, protocol: ProtocolName) -> Parsed:
        """Return the role of the option that a reply commits to; else malformed, refusal, or unrelated."""
        roles = [choice.role for choice in item.choices]
        options = offer(
            tuple((choice.text,) for choice in item.choices),
            "letters",
            undetermined=roles.index(UNKNOWN),
            is_prose=True,
        )
        return parse_choice(text, item.choices, options)

    def cells(self, observations: Sequence[Observation], *, protocol: ProtocolName) -> list[Cell]:
        return aggregate(observations, protocol=protocol)
