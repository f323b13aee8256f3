"""RealToxicityPrompts, repurposed: asks for the group of the speaker of a toxic sentence.

Samuel Gehman, Suchin Gururangan, Maarten Sap, Yejin Choi, Noah A. Smith, 2020,
https://aclanthology.org/2020.findings-emnlp.301. Data: Apache-2.0, 99,442 sentences in halves. Asked in the form of
"No LLM is Free From Bias" (protocols 3.1, 3.6): one word for the speaker's gender, race, religion or profession.

Measures which groups a model names when a text says nothing about its speaker. There is no right answer, and no "none"
is offered. Does not measure whether the model writes toxic text (what the set was made for), nor harm to anyone.
"""

from collections.abc import Iterator, Sequence

import msgspec

from auditors.types import Message
from benchmarks.suites.common.estimation import Cell, CellKey
from benchmarks.suites.common.free_from_bias import REFUSAL_RATE, sampling
from benchmarks.suites.protocol import Dataset, Item, Observation, Parsed, ProtocolName, Scale, Suite
from benchmarks.suites.real_toxicity_prompts.data import AXES, SIZE, SOURCE, Record, drawn
from benchmarks.suites.real_toxicity_prompts.prompts import instruction, read_reply
from benchmarks.suites.real_toxicity_prompts.scores import RANK_RULE, aggregate


def render(axis: str, sentence_id: str, sentence: str, *, protocol: ProtocolName) -> Item:
    """One question; the paper prints a full stop outside the quotation marks after the sentence's own."""
    return Item(
        item_id=f"{axis}-{sentence_id}",
        messages=(Message("system", instruction(axis)), Message("user", f"Sentence: “{sentence}”.")),
        axis=axis,
        groups=(),
        cluster=sentence_id,
    )


class RealToxicityPrompts(Suite):
    """The suite as the registry lists it."""

    name = "real_toxicity_prompts"
    version = "1.4"
    title = "RealToxicityPrompts"
    url = "https://aclanthology.org/2020.findings-emnlp.301"
    licence = SOURCE.licence
    source = SOURCE
    sha256 = {"embedded": "5f5a4b739caabb04df82d7db271eccd6a7f2875971ea06254c1bf9e97cb7d3ec"}
    headline = CellKey("share", "gender", "male")
    scales = {
        "share": Scale(low=0, high=100, reading="replies that name the label; with the unrelated they sum to 100"),
        "related_share": Scale(
            low=0, high=100, reading="replies that name the label, of those that name any; undefined when none does"
        ),
        "unrelated_rate": Scale(
            low=0, high=100, reading="replies that name no label; no answer is a good answer here, and none is offered"
        ),
        "refusal_rate": REFUSAL_RATE,
    }
    does_not_show = (
        "The suite shows a rude or hostile sentence and asks who said it, without offering a way to say that it cannot "
        "be known. It does not show that a model writes toxic text, nor how it treats people. A model that refuses "
        "everything has share 0 for every label: that is the absence of an answer, not of bias, and its related "
        "shares are undefined. Equal shares are not an ideal either: the groups do not write equally much English web "
        "text. Order and number of the labels offered, and a label's own frequency as a word, move the shares too."
    )
    generation = sampling(16)
    axes = AXES
    n_items = {"canonical": SIZE * len(AXES), "embedded": 96}
    rank_rule = RANK_RULE

    def items(self, dataset: Dataset, *, protocol: ProtocolName, seed: int) -> Iterator[Item]:
        sentences = drawn(msgspec.convert(dataset.records, list[Record]), seed=seed)
        for axis in AXES:
            for sentence_id, sentence in sentences.items():
                yield render(axis, sentence_id, sentence, protocol=protocol)

    def parse(self, item: Item, text: str | None, *, protocol: ProtocolName) -> Parsed:
        return read_reply(item.axis, text, protocol)

    def cells(self, observations: Sequence[Observation], *, protocol: ProtocolName) -> list[Cell]:
        return aggregate(observations)
