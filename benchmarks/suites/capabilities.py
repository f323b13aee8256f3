"""What a suite may be able to do besides what every suite must: one class each, told apart by `isinstance`."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol, runtime_checkable

import msgspec
import numpy as np
from numpy.typing import NDArray

from auditors.clients.judge_client import JudgeQuestion
from auditors.labelling.forms import FormName
from auditors.labelling.tasks import LabellingQuestion
from benchmarks.figures.figure import Figure, Run
from benchmarks.suites.protocol import Dataset, Item, JointScore, Observation, Parsed, ProtocolName, RankRule


class Content(msgspec.Struct, frozen=True, kw_only=True):
    """By what one knows an item that another harness asked in its own words around it."""

    item_id: str
    passages: tuple[str, ...]
    """Texts that every question about it holds, at least one."""
    answers: tuple[str, ...]
    """Its options, in any order."""


@runtime_checkable
class WithContents(Protocol):
    """A suite whose items other harnesses ask too."""

    def contents(self, dataset: Dataset) -> Iterator[Content]:
        """One an item, in their order."""
        ...


@runtime_checkable
class WithExamples(Protocol):
    """A suite that can also put answered examples before each question (few-shot)."""

    @property
    def few_shots(self) -> tuple[int, ...]:
        """Numbers of examples offered, 0 included."""
        ...

    def items_after_examples(
        self, dataset: Dataset, *, protocol: ProtocolName, seed: int, few_shot: int
    ) -> Iterator[Item]:
        """As Suite.items, with `few_shot` > 0 examples before each; what serves as an example is not asked."""
        ...


@runtime_checkable
class WithJudge(Protocol):
    """A suite whose replies mean something only once a judge has read them."""

    def judge_question(
        self, item: Item, text: str | None, *, protocol: ProtocolName, seed: int
    ) -> JudgeQuestion | None:
        """The question about one reply that `parse` called ok; None when there is nothing to judge."""
        ...

    def read_judgement(self, item: Item, judgement: str | None, *, protocol: ProtocolName, seed: int) -> Parsed:
        """What a reply means, by the judge's. Raises UnreadableError: ask again, then a failure."""
        ...


@runtime_checkable
class WithLabelling(Protocol):
    """A suite whose replies people can label: what they are asked, without any score."""

    @property
    def labelling_forms(self) -> tuple[FormName, ...]:
        """The first is the usual one."""
        ...

    def labelling_question(
        self, observation: Observation, *, form: FormName, protocol: ProtocolName, seed: int
    ) -> LabellingQuestion | None:
        """Of a reply with a text; the same for the same arguments. None where the form asks nothing about it."""
        ...


@runtime_checkable
class WithFollowUp(Protocol):
    """A suite with questions that can only be made from the replies to the first ones."""

    def follow_up(self, observations: Sequence[Observation], *, protocol: ProtocolName) -> list[Item]:
        """Items about the replies; the same for the same replies, whatever else has been asked since."""
        ...


@runtime_checkable
class WithOutputs(Protocol):
    """A suite in which one model evaluates what others wrote."""

    def items_about(self, outputs: Mapping[str, Sequence[Observation]], *, protocol: ProtocolName) -> Iterator[Item]:
        """Items about finished runs, by the name of the model that wrote them."""
        ...


@runtime_checkable
class WithEmbedding(Protocol):
    """A suite that compares replies by their embeddings."""

    def to_embed(self, observations: Sequence[Observation]) -> list[Observation]:
        """Those whose replies need a vector, whatever else is among the observations."""
        ...

    def measured(
        self, vectors: Sequence[tuple[Observation, NDArray[np.float32]]], *, embedder: str
    ) -> list[Observation]:
        """Observations whose `parsed` the vectors change. Called with all pairs of whole clusters; a reply without a
        usable vector is not among them.
        """


@runtime_checkable
class WithTextToEmbed(Protocol):
    """A suite that does not compare replies word for word as they came."""

    def text_to_embed(self, observation: Observation) -> str:
        """What stands for a reply before the embedder; not empty."""
        ...


@runtime_checkable
class WithOwnPrompts(Protocol):
    """A suite whose questions the user brings in a file, in place of data of its own."""

    @property
    def least_samples(self) -> int:
        """Replies an item without which its numbers have no control."""
        ...

    def dataset_of(self, content: str, checkpoint: Callable[[], None]) -> Dataset:
        """The questions of a file. `checkpoint` is called before each, and may raise to end it.

        Raises: BenchmarkError, one line, for a file that cannot be taken.
        """
        ...


@runtime_checkable
class WithMitigation(Protocol):
    """A suite with its own place and wording for a mitigation prompt; see `suites.common.mitigation` for all others."""

    def items_with_mitigation(
        self, dataset: Dataset, *, protocol: ProtocolName, seed: int, name: str, text: str | None
    ) -> Iterator[Item]:
        """As Suite.items; `text` is the user's own, None for a mitigation known by `name`."""


@runtime_checkable
class WithAcceptedAnswers(Protocol):
    """A suite that mode exact can measure: its reply is one of a few words."""

    def accepted_answers(self, item: Item, *, protocol: ProtocolName) -> Sequence[str]:
        """Texts that are an answer when a reply begins with them; case and punctuation do not matter. `parse` reads
        every one of them as ok, and says what it means.
        """
        ...


@runtime_checkable
class WithRanks(Protocol):
    """A suite by which models are ranked; all others stand side by side without a rank."""

    @property
    def rank_rule(self) -> RankRule: ...


@runtime_checkable
class WithJointScore(Protocol):
    """A suite that gives one more number together with a run of another suite."""

    @property
    def joint_score(self) -> JointScore: ...


@runtime_checkable
class WithFigures(Protocol):
    """A suite whose results are also shown as pictures."""

    def figures(self, runs: Sequence[Run]) -> list[Figure]:
        """Drawn from stored estimates alone: of one run, or of several made alike, side by side. May be empty."""
        ...
