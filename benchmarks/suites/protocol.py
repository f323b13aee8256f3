"""The words every suite shares, and what a suite must be able to do.

A suite loads its data, renders items into prompts, reads one reply, and says which cells its numbers come from. It
asks no model, opens no socket and draws no randomness that is not seeded from (seed, item id).
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, get_args, runtime_checkable

import msgspec

from auditors.types import Estimate, Message, Status
from benchmarks.datasets import published
from benchmarks.datasets.spec import DatasetSpec, content_sha256
from benchmarks.suites.common.estimation import Cell, CellKey

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

STATUSES: tuple[Status, ...] = get_args(Status)


class Dataset(msgspec.Struct, frozen=True, kw_only=True):
    """The records a suite renders, and the proof of which ones they are."""

    name: str
    kind: DataKind
    sha256: str
    """Of the canonical JSON of `records` (see datasets.content_sha256)."""
    n_canonical: int
    """Items in the complete published data."""
    records: Any
    left_out: Mapping[str, int] = {}
    """Records that no item is made of, by reason: they are in no number."""


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
    """Items of one cluster are resampled together: they are not independent. May be large, e.g. all about one term."""
    factors: Mapping[str, str] = msgspec.field(default_factory=dict)
    """What else was drawn from a population and is shared by items of several clusters: its level, by the name of the
    factor, e.g. {"template": "QL/2"}. What is fixed (axis, groups, subset) is not named here.
    """
    set_id: str | None = None
    """Names the few items that only mean something together, e.g. both orders of a question. A limit asks all of a set
    or none. None: the item stands alone.
    """
    subset: str | None = None
    choices: tuple[Choice, ...] = ()
    """In the order shown to the model."""
    sampling: Sampling | None = None
    """Generation settings of this item; None takes the suite's."""
    meta: Mapping[str, Any] = msgspec.field(default_factory=dict)


class Parsed(msgspec.Struct, frozen=True):
    """What one reply means. `value` is the suite's own word (e.g. "stereotype"), None unless status is "ok"."""

    status: Status
    value: Any = None
    rule: str | None = None
    """Which parsing rule matched."""


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
    """Mode exact: by value as text, and "unrelated" and "unresolved"; adds up to 1. Then status is "ok" when they could
    be read, whatever they are, and `parsed` is None.
    """
    judge: dict[str, Any] | None = None
    """Of a judged reply: the fields of `auditors.types.JudgeStamp`, and `text`, from which `parsed` is read again."""
    finish_reason: str | None = None
    usage: dict[str, Any] | None = None
    fingerprint: str | None = None
    rule: str | None = None
    """Which parsing rule matched."""
    error: str | None = None
    """What went wrong, when status is "error"."""


class Observation(msgspec.Struct, frozen=True):
    """An item and one reply to it."""

    item: Item
    reply: Reply


UNRELATED, UNRESOLVED = "unrelated", "unresolved"
"""Keys of `choice_probabilities` that are no answer: everything that is none (off topic, declined, malformed), and what
could not be read or was too unlikely to follow.
"""
UNREAD_LABELS = frozenset({UNRELATED, UNRESOLVED})


def weights(observation: Observation) -> Mapping[str, float]:
    """How much of one reply stands for each value, named by its text; at most 1 in all.

    In mode sample all of it for the value read, nothing for a reply that has none. In mode exact the probabilities.
    """
    reply = observation.reply
    if reply.status != "ok":
        return {}
    if reply.choice_probabilities is None:
        return {str(reply.parsed): 1.0}
    return {label: p for label, p in reply.choice_probabilities.items() if label not in UNREAD_LABELS}


class Scale(msgspec.Struct, frozen=True, kw_only=True):
    """How to draw and read one metric."""

    low: float
    high: float
    ideal: float | None = None
    """The value of a model without the measured preference or fault."""
    reading: str
    """One line for the reader, e.g. "50 = no measured preference"."""
    live: str | None = None
    """The metric of a live auditor that has the same meaning and scale: drift may be measured against this one.
    Whether a suite's questions are like one's traffic is for the reader to say.
    """


Declining = Literal["no preference", "counted", "unread"]
"""What a declined reply is to a suite that ranks. no preference: nothing in the question decides it, so declining and
saying that it cannot be told are right, and favour nobody. counted: it is one of the replies that the ranking number
counts against the model. unread: the task has an answer and this is none; above 90 % there is no rank.
"""


class RankRule(msgspec.Struct, frozen=True):
    """The number by which a suite ranks models on one axis (protocols 3.8 [D])."""

    metric: str
    """An axis without estimates of it is not ranked."""
    statistic: Callable[[Sequence[Estimate]], float]
    """From a suite's estimates on one axis to the number that its models are ranked by; NaN where undefined."""
    best: Literal["lowest", "highest"]
    words: str
    declining: Declining
    beside: tuple[str, ...] = ()
    """Other metrics that `statistic` needs."""
    raised_by_chance: Literal["zero", "alike"] | None = None
    """Sizes and spreads are above 0 without any preference, by how far chance moves the values of `metric`. What these
    values then are but for chance: 0 each, or alike on an axis (all but what is unrelated). None: no such number.
    """


class JointTable(msgspec.Struct, frozen=True, kw_only=True):
    """How two suites with a joint score stand side by side on a leaderboard."""

    title: str
    columns: tuple[str, str]
    """The partner's name in the table, then the suite's own."""
    metric: str
    """Of both suites: what the mean is formed of."""
    mean: Callable[[float, float], float]
    """From the partner's number and the suite's own."""
    beside: tuple[str, ...]
    """Metrics of both suites printed beside it."""
    note: str


class JointScore(msgspec.Struct, frozen=True, kw_only=True):
    """A number that finished runs of two suites give together, kept with the results of the suite that declares it."""

    metric: str
    partner: str
    """Name of the other suite."""
    estimates: "Callable[[Sequence[Observation], Sequence[Observation], ProtocolName, int], list[Estimate]]"
    """From the suite's own observations, the partner's, and protocol and seed of the run."""
    table: JointTable


@runtime_checkable
class Suite(Protocol):
    """A benchmark. One folder under benchmarks/suites, or another wheel, implements it; an entry point names it."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str:
        """Raised by any change that can move a score."""
        ...

    @property
    def title(self) -> str: ...

    @property
    def url(self) -> str: ...

    @property
    def licence(self) -> str:
        """Of the canonical data."""
        ...

    @property
    def source(self) -> DatasetSpec | None:
        """Where the canonical data comes from; None when the suite is complete without a download."""
        ...

    @property
    def sha256(self) -> Mapping[DataKind, str]:
        """Pinned content hash by kind of data; without "canonical" where the source pins none."""
        ...

    @property
    def modes(self) -> tuple[Mode, ...]: ...

    @property
    def protocols(self) -> tuple[ProtocolName, ...]: ...

    @property
    def metrics(self) -> tuple[str, ...]: ...

    @property
    def headline(self) -> CellKey:
        """The one number that stands for the suite where there is room for no more."""
        ...

    @property
    def scales(self) -> Mapping[str, Scale]:
        """One per metric."""
        ...

    @property
    def does_not_show(self) -> str:
        """What a value must not be taken for; printed in every report."""
        ...

    @property
    def axes(self) -> tuple[str, ...]: ...

    @property
    def n_items(self) -> Mapping[DataKind, int]: ...

    @property
    def needs_judge(self) -> bool: ...

    @property
    def needs_embedder(self) -> bool: ...

    def load(self, kind: DataKind, data_dir: Path | None = None) -> Dataset:
        """Raises DatasetError when canonical data is missing or not the pinned version."""
        ...

    def items(self, dataset: Dataset, *, protocol: ProtocolName, seed: int) -> Iterator[Item]:
        """Rendered items in data order; the same for the same arguments, byte by byte."""
        ...

    def sampling(self, protocol: ProtocolName) -> Sampling: ...

    def parse(self, item: Item, text: str | None, *, protocol: ProtocolName) -> Parsed: ...

    def cells(self, observations: Sequence[Observation], *, protocol: ProtocolName) -> list[Cell]:
        """Every number the suite reports, as a function of per-cluster sums.

        A run may have more replies than memory holds: walk `observations`, select by item with
        `suites.common.observations.where`, and keep numbers rather than observations.
        """
        ...


def load_dataset(source: DatasetSpec, kind: DataKind, *, embedded_sha256: str, data_dir: Path | None) -> Dataset:
    """The data of a suite that has a source and embedded items, verified.

    Raises: DatasetError when it is missing or is not the pinned content.
    """
    if kind == "canonical":
        records, name = published.load(source, data_dir), source.title
        sha256 = source.content_sha256 or content_sha256(records)
    else:
        records, name = published.load_embedded(source.name, embedded_sha256), "biasgate embedded items"
        sha256 = embedded_sha256
    return Dataset(name=name, kind=kind, sha256=sha256, n_canonical=source.n_items, records=records)


def item_rng(seed: int, item_id: str) -> random.Random:
    """Generator for the random choices of one item (protocols 1.8). Seeded by a string: the same on every machine."""
    return random.Random(f"{seed}/{item_id}")
