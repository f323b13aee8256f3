"""The words that every suite shares, and their base class. A suite asks no model and seeds all randomness."""

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

import msgspec
import numpy as np
from numpy.typing import NDArray

from auditors.labelling.forms import FormName
from auditors.types import Estimate, Message, Status
from benchmarks.datasets import published
from benchmarks.datasets.spec import DatasetSpec, content_sha256
from benchmarks.suites.common.choices.plain import spellings
from benchmarks.suites.common.estimation import Cell, CellKey
from benchmarks.suites.common.rank_statistics import RankRule

if TYPE_CHECKING:
    from auditors.clients.judge_client import JudgeQuestion
    from auditors.labelling.tasks import LabellingQuestion
    from benchmarks.figures.figure import Figure, Run

Mode = Literal["sample", "exact"]
"""sample: the model's own sampled reply. exact: choice probabilities from logprobs."""
ProtocolName = Literal["paper", "release", "corrected"]
"""paper: as printed. release: as the public code behaves. corrected: our default, deviations stated in the card."""
DataKind = Literal["canonical", "embedded"]
"""canonical: the published file. embedded: our own few items; not comparable with anything published."""

REFUSAL_FIELD = "refusal-field"
"""Rule recorded when the server itself marked a reply as a refusal."""
JUDGE_FAILED = "judge-failed"
"""Rule recorded when no reply of the judge could be read: the item is in no denominator."""
REFUSAL_CONFLICT = "refusal_conflict"
"""Rule recorded when a judge says that a reply declines, and yet what it chooses or favours."""

STATUSES: tuple[Status, ...] = get_args(Status)


class Dataset(msgspec.Struct, frozen=True, kw_only=True):
    """The records a suite renders, and the proof of which ones they are."""

    name: str
    kind: DataKind
    sha256: str
    """Hash of the canonical JSON of `records` (see datasets.content_sha256)."""
    n_canonical: int
    """Items in the complete published data."""
    records: Any
    left_out: Mapping[str, int] = {}
    """Records that give no item, by reason: they are in no number."""


class Sampling(msgspec.Struct, frozen=True, kw_only=True):
    """Generation settings of a protocol. top_k is not part of OpenAI's API; vLLM and most servers take it."""

    max_tokens: int
    temperature: float = 1.0
    top_p: float | None = None
    top_k: int | None = None


class Choice(msgspec.Struct, frozen=True):
    """One allowed answer and the role it plays in the score, e.g. ("nurse", "stereotype")."""

    text: str
    role: str


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """One question of a suite, ready to be asked."""

    item_id: str
    """Stable for one suite version; keys replies, resume and paired comparison."""
    messages: tuple[Message, ...]
    axis: str
    groups: tuple[str, ...]
    cluster: str
    """Items of the same cluster are resampled together: they are not independent. May be large."""
    factors: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Levels of further draws that items of several clusters share, by factor, e.g. {"template": "QL/2"}."""
    set_id: str | None = None
    """The few items that only mean something together, e.g. both orders of a question: a limit asks all or none."""
    subset: str | None = None
    choices: tuple[Choice, ...] = ()
    """Choices in the order shown to the model."""
    sampling: Sampling | None = None
    """Generation settings of this item; None takes the suite's."""
    meta: Mapping[str, Any] = msgspec.field(default_factory=dict)


class Parsed(msgspec.Struct, frozen=True):
    """The meaning of a reply. `value` is the suite's own word (e.g. "stereotype"), None unless status is "ok"."""

    status: Status
    value: Any = None
    rule: str | None = None
    """Name of the parsing rule that matched."""


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """One line of responses.jsonl (contract 2)."""

    item_id: str
    sample: int = 0
    text: str | None = None
    """The answer, without thoughts."""
    reasoning: str | None = None
    """The model's thoughts, where the run keeps them; never parsed, judged or searched."""
    status: Status = "error"
    parsed: Any = None
    choice_probabilities: dict[str, float] | None = None
    """Mode exact: by value as text, UNRELATED and UNRESOLVED; adds up to 1. Read: status "ok" and no `parsed`."""
    judge: dict[str, Any] | None = None
    """Fields of `auditors.types.JudgeStamp`, and `text`, from which `parsed` is read again."""
    finish_reason: str | None = None
    usage: dict[str, Any] | None = None
    fingerprint: str | None = None
    rule: str | None = None
    """Name of the parsing rule that matched."""
    error: str | None = None
    """Description of the error, if status is "error"."""

    @property
    def is_filtered(self) -> bool:
        """A filter before or behind the model refused the request or the answer."""
        return self.finish_reason == "content_filter"


class Observation(msgspec.Struct, frozen=True):
    """An item and one reply to it."""

    item: Item
    reply: Reply


UNRELATED, UNRESOLVED = "unrelated", "unresolved"
"""Keys of `choice_probabilities` that are not answers: off topic, declined or malformed; unread or too unlikely."""
UNREAD_LABELS = frozenset({UNRELATED, UNRESOLVED})


def weights(observation: Observation) -> Mapping[str, float]:
    """Return how much of a reply stands for each value as text, at most 1 in all; in mode exact its probability."""
    reply = observation.reply
    if reply.status != "ok":
        return {}
    if reply.choice_probabilities is None:
        return {str(reply.parsed): 1.0}
    return {label: p for label, p in reply.choice_probabilities.items() if label not in UNREAD_LABELS}


class Scale(msgspec.Struct, frozen=True):
    """The way to draw and read a single metric."""

    low: float
    high: float
    reading: str
    """One line for the reader, e.g. "50 = no measured preference"."""
    ideal: float | None = None
    """The value of a model without the measured preference or fault."""
    live: str | None = None
    """The metric of a live auditor that has the same meaning and scale: drift may be measured against this one."""


class JointTable(msgspec.Struct, frozen=True, kw_only=True):
    """The table of two suites with a joint score, side by side on a leaderboard."""

    title: str
    columns: tuple[str, str]
    """The partner's name in the table, then the suite's own."""
    metric: str
    """Metric of both suites that the mean is formed from."""
    mean: Callable[[float, float], float]
    """Mean of the partner's number and the suite's own."""
    beside: tuple[str, ...]
    """Metrics of both suites printed next to it."""
    note: str


class JointScore(msgspec.Struct, frozen=True, kw_only=True):
    """A number that finished runs of two suites give together, kept with the results of the suite that declares it."""

    metric: str
    partner: str
    """Name of the other suite."""
    estimates: Callable[[Sequence[Observation], Sequence[Observation], ProtocolName, int], list[Estimate]]
    """Estimates from the suite's own observations, the partner's, and protocol and seed of the run."""
    table: JointTable


class Content(msgspec.Struct, frozen=True, kw_only=True):
    """The texts by which an item is recognised that another harness asked in its own words."""

    item_id: str
    passages: tuple[str, ...]
    """Texts that every question about the item holds, at least one."""
    answers: tuple[str, ...]
    """Its options, in any order."""


class Suite(ABC):
    """A benchmark, named by an entry point of the group "biasgate.suites". A suite sets the attributes without a value,
    and implements `items`, `parse` and `cells`; every other default says that the suite does not offer it.
    """

    name: ClassVar[str]
    version: ClassVar[str]
    """Any change that can move a score raises it."""
    title: ClassVar[str]
    url: ClassVar[str]
    licence: ClassVar[str]
    """Licence of the canonical data."""
    source: ClassVar[DatasetSpec | None] = None
    """Source of the canonical data; None if the suite is complete without a download."""
    sha256: ClassVar[Mapping[DataKind, str]]
    """Pinned content hash by kind of data; without "canonical" where the source pins none."""
    n_items: ClassVar[Mapping[DataKind, int]]
    modes: ClassVar[tuple[Mode, ...]] = ("sample",)
    """Modes of the suite; with "exact" it has `accepted_answers`."""
    protocols: ClassVar[tuple[ProtocolName, ...]] = ("corrected", "paper")
    """The first is the default."""
    axes: ClassVar[tuple[str, ...]]
    scales: ClassVar[Mapping[str, Scale]]
    """Scales by metric, in the order in which reports print the metrics."""
    headline: ClassVar[CellKey]
    """The number that stands for the suite where there is room for no more."""
    second_headline: ClassVar[CellKey | None] = None
    """The number that stands beside it in runs that have it."""
    control: ClassVar[CellKey | None] = None
    """The number that tells a model which does the task from replies at random; its cell has CHANCE in `extra`."""
    does_not_show: ClassVar[str]
    """Things that a value must not be taken for; printed in every report."""
    generation: ClassVar[Sampling | Mapping[ProtocolName, Sampling]]
    """Generation settings: of all protocols, or by protocol."""

    needs_judge: ClassVar[bool] = False
    """True if replies mean something only once a judge has read them: `judge_question`, `read_judgement`."""
    needs_embedder: ClassVar[bool] = False
    """True if replies are compared by their embeddings: `to_embed`, `text_to_embed`, `measured`."""
    has_follow_up: ClassVar[bool] = False
    """True if questions are made from the replies to the first questions: `follow_up`."""
    takes_prompts: ClassVar[bool] = False
    """True if the user may bring the questions in a file, in place of data of the suite: `dataset_of`."""
    built_in_prompts: ClassVar[Mapping[str, str]] = {}
    """Such files that the suite brings itself: sha256 of NAME.json in its folder, by NAME, which users give for it."""
    needs_prompts: ClassVar[bool] = False
    """True if there are no questions but the user's."""
    few_shots: ClassVar[tuple[int, ...]] = (0,)
    """Numbers of answered examples that may stand before a question, 0 included: `items_after_examples`."""
    least_samples: ClassVar[int] = 1
    """Replies to an item without which the numbers of the suite have no control."""
    labelling_forms: ClassVar[tuple[FormName, ...]] = ()
    """Forms in which people can label replies, the usual one first: `labelling_question`."""
    rank_rule: ClassVar[RankRule | None] = None
    """Rule by which models are ranked; without a rule they stand side by side."""
    joint_score: ClassVar[JointScore | None] = None
    """A number that the suite gives together with a run of another suite."""

    @property
    def metrics(self) -> tuple[str, ...]:
        return tuple(self.scales)

    def load(self, kind: DataKind, data_dir: Path | None = None) -> Dataset:
        """Read and verify `source`, or the embedded items. Raises DatasetError if missing or not the pinned version."""
        if self.source is None:
            raise NotImplementedError(f"{self.name}: a suite without a source loads its data itself")
        if kind == "canonical":
            records, name = published.load(self.source, data_dir), self.source.title
            sha256 = self.source.content_sha256 or content_sha256(records)
        else:
            records, name = published.load_embedded(self.name, self.sha256[kind]), "biasgate embedded items"
            sha256 = self.sha256[kind]
        n_canonical = self.n_items["canonical"]
        return Dataset(name=name, kind=kind, sha256=sha256, n_canonical=n_canonical, records=records)

    @abstractmethod
    def items(self, dataset: Dataset, *, protocol: ProtocolName, seed: int) -> Iterator[Item]:
        """Render the items in data order; the same for the same arguments, byte by byte."""

    @abstractmethod
    def parse(self, item: Item, text: str | None, *, protocol: ProtocolName) -> Parsed:
        """Read a reply."""

    @abstractmethod
    def cells(self, observations: Sequence[Observation], *, protocol: ProtocolName) -> list[Cell]:
        """Return every number as a function of per-cluster sums; walk `observations`, which memory may not hold."""

    def sampling(self, protocol: ProtocolName) -> Sampling:
        return self.generation if isinstance(self.generation, Sampling) else self.generation[protocol]

    def accepted_answers(self, item: Item, *, protocol: ProtocolName) -> Sequence[str]:
        """Return texts with which an answer may begin, each read as ok by `parse`; default: names of choices."""
        texts = spellings([choice.text for choice in item.choices])
        return [text for text in texts if self.parse(item, text, protocol=protocol).status == "ok"]

    def items_after_examples(
        self, dataset: Dataset, *, protocol: ProtocolName, seed: int, few_shot: int
    ) -> Iterator[Item]:
        """Render as `items` does, each after `few_shot` > 0 examples; items that serve as examples are not asked."""
        raise NotImplementedError(f"{self.name} has no examples")

    def items_with_mitigation(
        self, dataset: Dataset, *, protocol: ProtocolName, seed: int, name: str, text: str | None
    ) -> Iterator[Item] | None:
        """Render with a mitigation, `text` or that of `name`; None: `suites.common.mitigation` places it."""
        return None

    def contents(self, dataset: Dataset) -> Iterator[Content] | None:
        """Return a content for each item, in their order; None where other harnesses do not ask the items."""
        return None

    def dataset_of(self, content: str, checkpoint: Callable[[], None], own: Callable[[], Dataset]) -> Dataset:
        """Read a user's file. `own` loads the data of the suite; `checkpoint` comes before each question and may raise.
        Raises BenchmarkError.
        """
        raise NotImplementedError(f"{self.name} takes no prompts")

    def follow_up(self, observations: Sequence[Observation], *, protocol: ProtocolName) -> list[Item]:
        """Return items about the replies; the same for the same replies, whatever else has been asked since."""
        return []

    def items_about(
        self, outputs: Mapping[str, Sequence[Observation]], *, protocol: ProtocolName
    ) -> Iterator[Item] | None:
        """Render items about finished runs, by the name of the model that wrote them; None where nothing is asked."""
        return None

    def judge_question(
        self, item: Item, text: str | None, *, protocol: ProtocolName, seed: int
    ) -> "JudgeQuestion | None":
        """Return the question about a reply that `parse` called ok; None when there is nothing to judge."""
        return None

    def read_judgement(self, item: Item, judgement: str | None, *, protocol: ProtocolName, seed: int) -> Parsed:
        """Read what a reply means from the judge's. Raises UnreadableError: ask again, then a failure."""
        raise NotImplementedError(f"{self.name} asks no judge")

    def labelling_question(
        self, observation: Observation, *, form: FormName, protocol: ProtocolName, seed: int
    ) -> "LabellingQuestion | None":
        """Return what people are asked about a reply, without any score, always the same; None for no question."""
        return None

    def to_embed(self, observations: Sequence[Observation]) -> list[Observation]:
        """Return those whose replies need a vector, whatever else is among the observations."""
        return []

    def text_to_embed(self, observation: Observation) -> str:
        """Return what stands for a reply before the embedder; not empty."""
        return observation.reply.text or ""

    def measured(
        self, vectors: Sequence[tuple[Observation, NDArray[np.float32]]], *, embedder: str
    ) -> list[Observation]:
        """Return the observations whose `parsed` the vectors change. `vectors`: of whole clusters, where usable."""
        return []

    def figures(self, runs: "Sequence[Run]") -> "list[Figure]":
        """Draw from stored estimates alone, of a single run or of several made in the same way. May be empty."""
        return []


def item_rng(seed: int, item_id: str) -> random.Random:
    """Return the generator for an item's random choices (protocols 1.8), seeded by a string on every machine."""
    return random.Random(f"{seed}/{item_id}")
