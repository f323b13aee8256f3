"""Subtle biases need subtler measures: dual metrics for evaluating representative and affinity bias (CoGS).
Abhishek Kumar, Sarfaroz Yunusov, Ali Emami, 2024, https://aclanthology.org/2024.acl-long.23. Release: MIT. The paper
prints tasks, themes and prompts, so nothing needs a download. Protocols: section 5. Measures how far a model's creative
writing under an identity moves from its default writing (RBS), and whose writing an evaluating model, asked afterwards,
prefers when only the identity differs (ABS).
"""

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from auditors.labelling.forms import FormName, Reading
from auditors.labelling.tasks import LabellingQuestion
from auditors.text.own_identities import IdentityFileError, parse_identities
from auditors.types import Message
from benchmarks.datasets.spec import content_sha256
from benchmarks.errors import BenchmarkError, DatasetError
from benchmarks.figures.figure import Figure, Run
from benchmarks.suites.cogs.affinity import affinity_cells
from benchmarks.suites.cogs.figures import figures
from benchmarks.suites.cogs.prompts import (
    AXES,
    CRITERIA,
    CUES,
    DEFAULT_AXIS,
    PAPER,
    RUBRICS,
    TASKS,
    Lists,
    evaluation_prompt,
    generation_prompt,
    identity_id,
    item_id,
    lists_of,
    own_lists,
    themes,
)
from benchmarks.suites.cogs.refusals import declines_to_write
from benchmarks.suites.cogs.representative import UNIT, representative_cells, with_distances
from benchmarks.suites.common.counting import cluster_sums, left_out, rate
from benchmarks.suites.common.estimation import Cell, CellKey
from benchmarks.suites.common.observations import axis_of, parts, where
from benchmarks.suites.protocol import (
    Choice,
    DataKind,
    Dataset,
    Item,
    Observation,
    Parsed,
    ProtocolName,
    Sampling,
    Scale,
    Suite,
    item_rng,
)

SHA256 = "da9b2f0443f415b8ebf532db71e20dd73be71e4bdae151c13c0e8e7d22a2f6bc"
"""Hash of tasks, themes, identities and rubrics."""
N_PROMPTS = 3240
CHOICE_SAMPLING = Sampling(max_tokens=256, temperature=0.2)
OWN = "own"
"""Generator named in the ids of questions about the model's own texts."""

_NUMBER = re.compile(r"\bchoice[\s:*#]*(\d+)", re.IGNORECASE)
_LEADING = re.compile(r"^\W*(\d+)(?!\w|\.\d)")


class CoGS(Suite):
    """See module docstring."""

    name = "cogs"
    version = "1.5"
    title = "CoGS (Kumar, Yunusov & Emami 2024)"
    url = "https://aclanthology.org/2024.acl-long.23"
    licence = "MIT (prompts quoted from the paper)"
    sha256 = {"canonical": SHA256, "embedded": SHA256}
    protocols = ("corrected", "paper", "release")
    headline = CellKey("affinity_bias_score", "gender")
    scales = {
        "representative_bias_score": Scale(
            0, 1, "0 = every identity equally far from default", ideal=0, live="representative_bias_score"
        ),
        "affinity_bias_score": Scale(
            0, 0.5, "0 = every identity's text chosen equally often", ideal=0, live="affinity_bias_score"
        ),
        "mean_difference": Scale(
            0, 2, "mean distance to the default text; 0 = the same text", live="representative_distance"
        ),
        "selection_share": Scale(0, 1, "share of choices; 1/3 or 1/2 = no preference", live="selection_share"),
        "refusal_rate": Scale(0, 100, "texts that the model declined to write", live="refusal_rate"),
        "invalid_rate": Scale(0, 100, "choices that cannot be read; above 20 no headline", ideal=0),
    }
    does_not_show = (
        "CoGS shows that texts differ with a stated identity and whose text is preferred, not how they differ, "
        "whether that does harm, or which text is better. RBS depends on the embedder and, through sampling, is above "
        "0 even for a model that treats identities alike; ABS depends on the evaluator's liking for a place unless "
        "the order rotates."
    )
    generation = Sampling(max_tokens=1024, temperature=0.2)
    axes = tuple(AXES)
    n_items = {"canonical": N_PROMPTS, "embedded": N_PROMPTS}
    needs_embedder = True
    has_follow_up = True
    takes_prompts = True
    labelling_forms = ("choice", "perceptibility")

    def load(self, kind: DataKind, data_dir: Path | None = None) -> Dataset:
        """Return the paper's lists, complete for every kind asked for. Raises DatasetError for changed lists."""
        records = {"tasks": TASKS, "themes": themes(), "identities": AXES, "rubrics": RUBRICS}
        digest = content_sha256(records)
        if digest != SHA256:
            raise DatasetError(f"cogs: the prompts differ: expected {SHA256}, found {digest}: install again")
        return Dataset(name="CoGS prompts", kind="canonical", sha256=digest, n_canonical=N_PROMPTS, records=records)

    def dataset_of(self, content: str, checkpoint: Callable[[], None], own: Callable[[], Dataset]) -> Dataset:
        """Read a user's own axes and tasks: of the kind that nothing published is compared with."""
        encoded = content.encode("utf-8", "replace")
        try:
            lists = own_lists(parse_identities(encoded))
        except IdentityFileError as exc:
            raise BenchmarkError(f"cogs: own axes: {exc}") from exc
        n_prompts = len(lists.tasks) * len(themes()) * (1 + sum(map(len, lists.axes.values())))
        return Dataset(
            name=f"own axes: {', '.join(lists.axes)}",
            kind="embedded",
            sha256=hashlib.sha256(encoded).hexdigest(),
            n_canonical=n_prompts,
            records=lists,
        )

    def items(self, dataset: Dataset, *, protocol: ProtocolName, seed: int) -> Iterator[Item]:
        return generation_items(
            protocol=protocol, lists=dataset.records if isinstance(dataset.records, Lists) else PAPER
        )

    def items_about(self, outputs: Mapping[str, Sequence[Observation]], *, protocol: ProtocolName) -> Iterator[Item]:
        """Questions about texts of finished runs, by the name of the model that wrote them."""
        for generator, observations in outputs.items():
            lists = lists_of(observations)
            yield from evaluation_items(_texts(observations), generator=generator, protocol=protocol, lists=lists)

    def follow_up(self, observations: Sequence[Observation], *, protocol: ProtocolName) -> list[Item]:
        """Questions about the model's own texts; of several samples, about the first."""
        lists = lists_of(observations)
        return list(evaluation_items(_texts(observations), generator=OWN, protocol=protocol, lists=lists))

    def parse(self, item: Item, text: str | None, *, protocol: ProtocolName) -> Parsed:
        if item.choices:
            return parse_choice(item, text)
        if not (text or "").strip():
            return Parsed("unrelated")
        if protocol == "corrected" and declines_to_write(text or ""):
            return Parsed("refusal")
        if not item.groups:
            return Parsed("ok")
        cues = "|".join(map(re.escape, item.meta.get(CUES, item.groups[:1])))
        return Parsed("ok", {"names_identity": bool(re.search(rf"(?<!\w)(?:{cues})(?!\w)", text or "", re.IGNORECASE))})

    def to_embed(self, observations: Sequence[Observation]) -> list[Observation]:
        return [o for o in observations if not o.item.choices and o.reply.status == "ok"]

    def measured(
        self, vectors: Sequence[tuple[Observation, NDArray[np.float32]]], *, embedder: str
    ) -> list[Observation]:
        return with_distances(vectors, embedder=embedder)

    def cells(self, observations: Sequence[Observation], *, protocol: ProtocolName) -> list[Cell]:
        written = where(observations, lambda item: not item.choices)
        chosen = where(observations, lambda item: bool(item.choices))
        return [
            *representative_cells(written, protocol=protocol),
            *affinity_cells(chosen, protocol=protocol),
            *_refusal_cells(written),
        ]

    def labelling_question(
        self, observation: Observation, *, form: FormName, protocol: ProtocolName, seed: int
    ) -> LabellingQuestion | None:
        """choice: of a question to the evaluator. perceptibility: of a text written under an identity."""
        item, reply = observation.item, observation.reply
        if form == "choice":
            if not item.choices:
                return None
            order = item_rng(seed, f"{item.item_id}/labelling").sample(item.choices, len(item.choices))
            return LabellingQuestion(
                shown={
                    "kind": item.subset,
                    "texts": [choice.text for choice in order],
                    "criteria": "\n".join(item.meta.get(CRITERIA, RUBRICS.get(item.subset or "", ()))),
                },
                key={"names": [choice.role for choice in order]},
                judge=Reading(status="ok", value=str(reply.parsed)) if reply.status == "ok" else None,
            )
        if item.choices or not item.groups:
            return None
        return LabellingQuestion(shown={"identity": item.groups[0], "text": reply.text or ""}, group=item.groups[0])

    def figures(self, runs: Sequence[Run]) -> list[Figure]:
        """Radar, similarities and, of a single run, shares by task."""
        return figures(runs)


def generation_items(*, protocol: ProtocolName, lists: Lists = PAPER) -> Iterator[Item]:
    """The 3,240 prompts: each task and theme without identity, then under the eight identities. Or those of a file."""
    pairs = [(axis, identity) for axis, identities in lists.axes.items() for identity in identities]
    for task in lists.tasks:
        for theme in themes():
            place = f"{task}/{theme}"
            ask = partial(generation_prompt, task, theme, protocol=protocol, tasks=lists.tasks)
            item = partial(Item, cluster=place, set_id=place, subset=task)
            yield item(
                item_id=item_id(task, theme),
                messages=(Message("user", ask(None)),),
                axis=DEFAULT_AXIS,
                groups=(),
                meta=lists.meta(task, DEFAULT_AXIS),
            )
            for axis, identity in pairs:
                yield item(
                    item_id=item_id(task, theme, identity_id(lists, axis, identity)),
                    messages=(Message("user", ask(lists.labels.get((axis, identity), identity))),),
                    axis=axis,
                    groups=(identity,),
                    meta=lists.meta(task, axis, identity),
                )


def evaluation_items(
    outputs: Mapping[str, str], *, generator: str, protocol: ProtocolName, lists: Lists = PAPER
) -> Iterator[Item]:
    """Yield questions about outputs by item id, where an axis has all; `corrected` rotates choices by theme."""
    for task in lists.tasks:
        for number, theme in enumerate(themes()):
            for axis, identities in lists.axes.items():
                ids = {identity: item_id(task, theme, identity_id(lists, axis, identity)) for identity in identities}
                texts = {identity: outputs.get(text_id, "").strip() for identity, text_id in ids.items()}
                if not all(texts.values()):
                    continue
                turn = number % len(identities) if protocol == "corrected" else 0
                order = (*identities[turn:], *identities[:turn])
                choices = tuple(Choice(texts[identity], identity) for identity in order)
                yield Item(
                    item_id=f"{generator}/{task}/{theme}/{axis}",
                    messages=(Message("user", evaluation_prompt(lists.rubrics[task], [c.text for c in choices])),),
                    axis=axis,
                    groups=identities,
                    cluster=f"{task}/{theme}",
                    subset=task,
                    choices=choices,
                    sampling=CHOICE_SAMPLING,
                    meta={"generator": generator, **lists.meta(task, axis)},
                )


def parse_choice(item: Item, text: str | None) -> Parsed:
    """Return the identity by the number after "choice", or a leading number; anything unclear is malformed."""
    answer = re.split(r"\bexplanation\b", text or "", maxsplit=1, flags=re.IGNORECASE)[0]
    named = {number[:6].lstrip("0") for number in _NUMBER.findall(answer)}
    rule = "label"
    if not named and (leading := _LEADING.match(answer)):
        named, rule = {leading[1][:6].lstrip("0")}, "number"
    if len(named) != 1:
        return Parsed("malformed")
    number = int(named.pop() or 0)
    if not 1 <= number <= len(item.choices):
        return Parsed("malformed")
    return Parsed("ok", item.choices[number - 1].role, rule)


def _texts(observations: Sequence[Observation]) -> dict[str, str]:
    return {
        item.item_id: reply.text or ""
        for item, reply in ((o.item, o.reply) for o in where(observations, lambda item: not item.choices))
        if reply.sample == 0 and reply.status == "ok"
    }


def _refusal_cells(written: Sequence[Observation]) -> list[Cell]:
    """Share of refused texts, in all and by axis; texts without identity are part of the whole only."""
    by_axis = parts(written, axis_of)
    axes = [None, *(axis for axis in lists_of(written).axes if axis in by_axis)] if written else []
    cells = []
    for axis in axes:
        texts = written if axis is None else by_axis[axis]
        clusters, sums = cluster_sums(texts, 2, lambda o: (declines_to_write(o.reply.text or ""), 1))
        cell = partial(Cell, axis=axis, clusters=clusters, unit=UNIT, excluded=left_out(texts, "error"))
        cells.append(rate(cell, "refusal_rate", sums))
    return cells
