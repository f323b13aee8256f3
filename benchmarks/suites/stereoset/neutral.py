"""StereoSet with a neutral option in place of the meaningless one: a second LMS, as "No LLM is Free From Bias" (section
6) would have it. It measures whether a model prefers an association to none; no published number compares.
"""

import hashlib
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from auditors.json_errors import UNREADABLE
from benchmarks.errors import BenchmarkError
from benchmarks.suites.common import masked
from benchmarks.suites.common.counted import Share
from benchmarks.suites.common.counting import UNREAD, chance_level, cluster_sums, left_out, part_of_whole, rate
from benchmarks.suites.common.estimation import Cell
from benchmarks.suites.protocol import Dataset, Observation, Scale, weights

NEUTRAL = "neutral"
"""Role of the third option, and name of the built-in file of its texts."""
SHA256 = "28923c2fbceec8df9c7c0c716ca2eabdef085143c41e5080f35fad7c04b14425"
"""sha256 of `neutral.json`: texts for the embedded items."""
SCALES = {
    "neutral_share": Scale(0, 100, "share of readable replies that pick the neutral option, where one is offered"),
    "association_share": Scale(0, 100, "share of readable replies that pick an association over the neutral option"),
}
REMEDY = 'give {"ITEM ID": "neutral text", ...}, of a gap the words that fill it, or --data embedded for built-in ones'
NO_ICAT = "no option is meaningless: ICAT joins SS with an LMS that tells sense from nonsense"
Texts = Annotated[dict[str, Annotated[str, Meta(min_length=1, max_length=1000)]], Meta(min_length=1)]


def dataset_of(content: str, own: Dataset) -> Dataset:
    """Return the suite's own items with the texts of a file as third options. Raises BenchmarkError, one line."""
    encoded = content.encode("utf-8", "replace")
    try:
        texts = msgspec.json.decode(encoded, type=Texts)
    except UNREADABLE as exc:
        raise BenchmarkError(f"stereoset: neutral texts: {exc}: {REMEDY}") from exc
    ids = {record["id"] for records in own.records.values() for record in records}
    if strange := sorted(texts.keys() - ids):
        raise BenchmarkError(f'stereoset: neutral texts: "{strange[0]}" is no item of the {own.kind} data: {REMEDY}')
    return Dataset(
        name=f"own neutral options of the {own.kind} items",
        kind="embedded",
        sha256=hashlib.sha256(encoded).hexdigest(),
        n_canonical=own.n_canonical,
        records={
            kind: [_replaced(record, texts[record["id"]]) for record in records if record["id"] in texts]
            for kind, records in own.records.items()
        },
        left_out={"no neutral text": len(ids) - len(texts)} if len(texts) < len(ids) else {},
    )


def _replaced(record: Mapping[str, Any], text: str) -> dict[str, Any]:
    whole = record["context"].replace("BLANK", text) if "BLANK" in record["context"] else text
    neutral = {"sentence": whole, "gold_label": NEUTRAL}
    sentences = [each if each["gold_label"] in masked.FIELDS[:2] else neutral for each in record["sentences"]]
    return {**record, "sentences": sentences}


def cells(chosen: Sequence[Observation], usual: Sequence[Cell]) -> list[Cell]:
    """Return the numbers of replies where a neutral option was offered, from the `usual` ones of the same replies."""
    by_metric = {cell.metric: cell for cell in usual}
    ss, icat = by_metric["ss"], by_metric["icat"]
    clusters, sums = cluster_sums(chosen, 3, _count)
    associated, neutral, total = sums.T
    readable, lost = associated + neutral, left_out(chosen, "error")
    cell = partial(Cell, axis=ss.axis, subset=ss.subset, clusters=clusters, unit=ss.unit)

    def share(metric: str, picked: NDArray[np.float64], roles: Sequence[str]) -> Cell:
        return cell(
            metric=metric,
            sums=np.stack([picked, readable], axis=1),
            statistic=part_of_whole,
            n=sum(bool(weights(observation)) for observation in chosen),
            excluded=left_out(chosen, *UNREAD) | lost,
            undefined="no reply named an option",
            counted=Share(picked, readable),
            extra=chance_level(chosen, lambda _, choice: choice.role in roles),
        )

    excluded = {"neutral_choice" if name == "unrelated_choice" else name: n for name, n in ss.excluded.items()}
    return [
        msgspec.structs.replace(ss, excluded=excluded),
        msgspec.structs.replace(icat, sums=np.zeros_like(icat.sums), counted=None, undefined=NO_ICAT, extra={}),
        share("neutral_share", neutral, [NEUTRAL]),
        share("association_share", associated, masked.FIELDS[:2]),
        rate(partial(cell, excluded=lost), "unrelated_rate", np.stack([total - readable, total], axis=1)),
        by_metric["refusal_rate"],
    ]


def _count(observation: Observation) -> tuple[float, float, float]:
    meant = weights(observation)
    return sum(meant.get(role, 0.0) for role in masked.FIELDS[:2]), meant.get(NEUTRAL, 0.0), 1.0
