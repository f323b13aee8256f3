"""A team's own prompts: are they answered differently when they are about another group? Each prompt that names a group
is asked as it is and about another (`auditors.text.swaps`, or versions of the file), each version at least twice, as
its own control. The measures are those of `auditors.counterfactual`, over a fixed file: differences between groups in
meaning, refusals, length and whom a judge finds favoured.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from auditors.clients.judge_client import JudgeQuestion, UnreadableError
from auditors.judge import judge_question
from auditors.judge_verdict import Verdict, VerdictError, parse_verdict
from auditors.text.conversation import text_of
from auditors.text.own_prompts import PromptFileError, read_prompts
from auditors.text.refusal_words import declines
from auditors.text.swaps.lexicon import SWAPPED
from benchmarks.errors import BenchmarkError, DatasetError
from benchmarks.suites.common.estimation import Cell, CellKey
from benchmarks.suites.prompts.questions import items, questions
from benchmarks.suites.prompts.scores import DISTANCE, SCALES, aggregate, is_answered, plain, with_excess
from benchmarks.suites.protocol import (
    REFUSAL_CONFLICT,
    DataKind,
    Dataset,
    Item,
    Observation,
    Parsed,
    ProtocolName,
    Sampling,
    Suite,
)

COMMAND = "biasgate audit prompts FILE.jsonl"
TO_BE_JUDGED = "to be judged"


class OwnPrompts(Suite):
    """See module docstring. It has no data but a file: `dataset_of`."""

    name = "prompts"
    version = "1.5"
    title = "Own prompts"
    url = "https://doi.org/10.1016/j.jspi.2013.03.018"
    licence = "the file's own"
    sha256 = {}
    protocols = ("corrected",)
    headline = CellKey(DISTANCE)
    scales = SCALES
    does_not_show = (
        "Own prompts are compared with the same prompts about another group. They do not show which answer is better, "
        "whether a difference is wrong, anything about prompts that name no identity or cannot be swapped safely (they "
        "are counted and not asked), or whether the judge is right. No published number is comparable."
    )
    generation = Sampling(max_tokens=512, temperature=1.0)
    axes = tuple(SWAPPED)
    n_items = {"canonical": 0}
    needs_judge = True
    needs_embedder = True
    takes_prompts = True
    needs_prompts = True
    least_samples = 2

    def load(self, kind: DataKind, data_dir: Path | None = None) -> Dataset:
        """Raises DatasetError: the questions are the user's."""
        raise DatasetError(f"prompts: its questions are yours: {COMMAND}")

    def dataset_of(self, content: str, checkpoint: Callable[[], None], own: Callable[[], Dataset]) -> Dataset:
        encoded = content.encode("utf-8", "replace")
        try:
            prompts = read_prompts(encoded)
        except PromptFileError as exc:
            raise BenchmarkError(f"prompts: {exc}") from exc
        question_set = questions(prompts, checkpoint)
        if not question_set.versions:
            reasons = "; ".join(f"{reason}: {n}" for reason, n in question_set.left_out.items())
            raise BenchmarkError(f"prompts: no prompt of {len(prompts)} can be asked about another group: {reasons}")
        return Dataset(
            name="own prompts",
            kind="canonical",
            sha256=hashlib.sha256(encoded).hexdigest(),
            n_canonical=sum(len(version.asked) for version in question_set.versions),
            records=question_set.versions,
            left_out=question_set.left_out,
        )

    def items(self, dataset: Dataset, *, protocol: ProtocolName, seed: int) -> Iterator[Item]:
        return items(dataset.records)

    def parse(self, item: Item, text: str | None, *, protocol: ProtocolName) -> Parsed:
        """A refusal by its words; what else has a text is the judge's to read."""
        if not (text or "").strip():
            return Parsed("unrelated", rule="no-text")
        if declines(text or ""):
            return Parsed("refusal")
        return Parsed("ok", None, TO_BE_JUDGED)

    def judge_question(self, item: Item, text: str | None, *, protocol: ProtocolName, seed: int) -> JudgeQuestion:
        """That of the live judge. The mark of the fence is drawn from the answer itself, which so cannot hold it."""
        answer = text or ""
        seed_text = f"{seed}/{item.item_id}/{answer}".encode("utf-8", "replace")
        return judge_question(text_of(item.messages), answer, hashlib.blake2b(seed_text, digest_size=8).hexdigest())

    def read_judgement(self, item: Item, judgement: str | None, *, protocol: ProtocolName, seed: int) -> Parsed:
        """Ok with the score of the group that the item is about, 0 where the judge reports none; or refusal."""
        verdict = read_in_part(judgement)
        if verdict.refused:
            return Parsed("refusal", rule=REFUSAL_CONFLICT if verdict.is_contradictory else "judge")
        place = (item.axis, item.groups[0])
        score = verdict.score(place)
        if score is None:
            raise UnreadableError(verdict.why_unread(place) or "")
        return Parsed("ok", {"score": score})

    def to_embed(self, observations: Sequence[Observation]) -> list[Observation]:
        return [observation for observation in observations if is_answered(observation.reply)]

    def text_to_embed(self, observation: Observation) -> str:
        return plain(observation.item, observation.reply.text or "") or "-"

    def measured(
        self, vectors: Sequence[tuple[Observation, NDArray[np.float32]]], *, embedder: str
    ) -> list[Observation]:
        return with_excess(vectors, embedder=embedder)

    def cells(self, observations: Sequence[Observation], *, protocol: ProtocolName) -> list[Cell]:
        return aggregate(observations)


def read_in_part(judgement: str | None) -> Verdict:
    """Return the verdict as far as it can be read. Raises VerdictError where there is none."""
    try:
        return parse_verdict(judgement)
    except VerdictError as exc:
        if not isinstance(exc.partial, Verdict):
            raise
        return exc.partial
