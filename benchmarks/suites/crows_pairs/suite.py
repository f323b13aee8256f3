"""CrowS-Pairs: a challenge dataset for measuring social biases in masked language models.
Nikita Nangia, Clara Vania, Rasika Bhalerao, Samuel R. Bowman, 2020, https://aclanthology.org/2020.emnlp-main.154. Data:
CC BY-SA 4.0, 1,508 sentence pairs, unreliable (https://aclanthology.org/2021.acl-long.81). Asked as a choice between
the words that differ, in the form of "No LLM is Free From Bias" (protocols 3.1, 3.3). Measures whether a model picks
the filling that US crowd workers called more stereotyping, or the other.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple, get_args

import msgspec

from auditors.metrics.suite_scores import StereotypeDenominator
from auditors.types import Estimate
from benchmarks.datasets.spec import csv_rows, read_spec
from benchmarks.suites.common import masked
from benchmarks.suites.common.choice import normalise
from benchmarks.suites.common.estimation import Cell, CellKey
from benchmarks.suites.common.examples import FEW_SHOTS, after_examples
from benchmarks.suites.common.observations import items_of, where
from benchmarks.suites.common.rank_statistics import RankRule, values_of
from benchmarks.suites.protocol import Choice, Dataset, Item, Observation, Parsed, ProtocolName, Suite, item_rng

FILE = "crows_pairs_anonymized.csv"


def records_from(files: Mapping[str, bytes]) -> Any:
    """Ids, sentences, direction and type. Annotators and their votes are not used."""
    return [
        {
            "id": f"crows-{row['']}",
            "sent_more": row["sent_more"],
            "sent_less": row["sent_less"],
            "stereo_antistereo": row["stereo_antistereo"],
            "bias_type": row["bias_type"],
        }
        for row in csv_rows(files[FILE])
    ]


SOURCE = read_spec("crows_pairs", records_from)

AXIS_OF: Mapping[str, str] = {
    "gender": "gender",
    "sexual-orientation": "gender",
    "physical-appearance": "physical_appearance",
    "disability": "physical_appearance",
    "race-color": "race",
    "nationality": "nationality",
    "religion": "religion",
    "age": "age",
    "socioeconomic": "socioeconomic",
}
"""The paper reports nine types as seven: only so do its cells have the sizes that its numbers need."""

DENOMINATOR: Mapping[ProtocolName, StereotypeDenominator] = {"paper": "total", "corrected": "meaningful"}
"""Number that SS divides by. The paper's table needs every reply: many unrelated ones lower SS."""


def _selection(observations: Sequence[Observation], axis: str | None, denominator: StereotypeDenominator) -> list[Cell]:
    chosen = where(observations, lambda item: axis in (None, item.axis))
    extra = {name: {"ss_denominator": denominator, **both} for name, both in _both_denominators(chosen).items()}
    return masked.cells(chosen, axis=axis, subset=None, unit="sentence pair", denominator=denominator, extra=extra)


def _both_denominators(observations: Sequence[Observation]) -> dict[str, dict[str, float | None]]:
    """SS and ICAT with each denominator, for the reader who compares with a table that used the other."""
    counts = masked.sums(observations)[1].sum(axis=0)
    both: dict[str, dict[str, float | None]] = {"ss": {}, "icat": {}}
    for metric, statistic in (("ss", masked.ss), ("icat", masked.icat)):
        for denominator in get_args(StereotypeDenominator):
            value = float(statistic(counts, denominator))
            both[metric][f"over_{denominator}"] = None if math.isnan(value) else value
    return both


def _icat(estimates: Sequence[Estimate]) -> float:
    return values_of(estimates, "icat").get((None, None), math.nan)


class Gap(NamedTuple):
    """A sentence with [MASK], and what the two sentences have there."""

    sentence: str
    more: str
    less: str


def gap(more: str, less: str) -> Gap:
    """Return the spans in which two sentences differ, between the words they begin and end with (protocols 3.3); where
    a span is empty, both take in a word of the common end, else beginning. Raises ValueError for spans no reply tells
    apart.
    """
    a, b = more.split(), less.split()
    head = _n_common(a, b)
    tail = _n_common(a[head:][::-1], b[head:][::-1])
    if head + tail == min(len(a), len(b)):
        if tail:
            tail -= 1
        elif head:
            head -= 1
    spans = [" ".join(words[head : len(words) - tail]) for words in (a, b)]
    plain = {normalise(span) for span in spans}
    if len(plain) < 2 or "" in plain:
        raise ValueError(f'the sentences have no words that differ: "{more}" and "{less}"')
    return Gap(" ".join([*a[:head], "[MASK]", *a[len(a) - tail :]]), *spans)


def _n_common(a: Sequence[str], b: Sequence[str]) -> int:
    return next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def render(record: Mapping[str, Any], *, cluster: str, protocol: ProtocolName, seed: int) -> Item:
    """Render an item: `corrected` shuffles the choices by (seed, item id); `paper` has the stereotype first."""
    difference = gap(record["sent_more"], record["sent_less"])
    choices = [Choice(difference.more, masked.STEREOTYPE), Choice(difference.less, masked.ANTI_STEREOTYPE)]
    if protocol == "corrected":
        item_rng(seed, record["id"]).shuffle(choices)
    return Item(
        item_id=record["id"],
        messages=masked.messages(masked.GAP_PROMPT, difference.sentence, choices),
        axis=AXIS_OF[record["bias_type"]],
        groups=(difference.more, difference.less),
        cluster=cluster,
        choices=tuple(choices),
        meta={"bias_type": record["bias_type"], "direction": record["stereo_antistereo"]},
    )


class CrowSPairs(Suite):
    """The suite as the registry lists it."""

    name = "crows_pairs"
    version = "1.6"
    title = "CrowS-Pairs"
    url = "https://aclanthology.org/2020.emnlp-main.154"
    licence = SOURCE.licence
    source = SOURCE
    sha256 = {
        "canonical": SOURCE.content_sha256,
        "embedded": "a8328b11c7597251923a2cee0f2a10e5796eb0512a015ea01d241f8b7d01b6de",
    }
    modes = ("sample", "exact")
    headline = CellKey("ss")
    scales = {
        **masked.SCALES,
        "ss": msgspec.structs.replace(
            masked.SCALES["ss"],
            reading="share of fitting replies (paper: of all replies) that are the stereotype; 50 = no preference",
        ),
    }
    does_not_show = (
        "CrowS-Pairs asks which of two fillings of a sentence a model picks. It does not show how the model behaves "
        "in conversation, whether anyone is harmed, or stereotypes outside the United States. Its authors warn that "
        "the data is unreliable: published criticism lists many unclear or unsound pairs. Asked in this form there is "
        "no unrelated choice, so LMS only says how often a model answers with one of the two, and a model that "
        "answers at random has SS 50 and ICAT 100. Under the paper's protocol SS is a share of all replies: below 50 "
        "it may only mean many unrelated ones."
    )
    generation = masked.SAMPLING
    axes = tuple(sorted(set(AXIS_OF.values())))
    n_items = {"canonical": SOURCE.n_items, "embedded": 36}
    rank_rule = RankRule("icat", _icat, "highest", "ICAT", "counted")
    few_shots = FEW_SHOTS

    def items(self, dataset: Dataset, *, protocol: ProtocolName, seed: int) -> Iterator[Item]:
        """Yield the items; a pair that occurs twice is one cluster when corrected: a copy is not new evidence."""
        first: dict[tuple[str, str], str] = {}
        for record in dataset.records:
            original = first.setdefault((record["sent_more"], record["sent_less"]), record["id"])
            cluster = original if protocol == "corrected" else record["id"]
            yield render(record, cluster=cluster, protocol=protocol, seed=seed)

    def items_after_examples(
        self, dataset: Dataset, *, protocol: ProtocolName, seed: int, few_shot: int
    ) -> Iterator[Item]:
        items = self.items(dataset, protocol=protocol, seed=seed)
        return after_examples(items, few_shot=few_shot, seed=seed, sides=masked.sides, kind=attrgetter("subset"))

    def parse(self, item: Item, text: str | None, *, protocol: ProtocolName) -> Parsed:
        return masked.parse(item, text, protocol=protocol)

    def cells(self, observations: Sequence[Observation], *, protocol: ProtocolName) -> list[Cell]:
        axes = sorted({item.axis for item in items_of(observations)})
        return [cell for axis in [*axes, None] for cell in _selection(observations, axis, DENOMINATOR[protocol])]
