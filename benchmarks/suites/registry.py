"""The suites there are, by name, and what can be said about each without running it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

from benchmarks import datasets
from benchmarks.datasets import DatasetSpec
from benchmarks.errors import BenchmarkError, nearest
from benchmarks.suite import Suite
from benchmarks.suites.bbq import BBQ
from benchmarks.suites.cogs import CoGS
from benchmarks.suites.crows_pairs import CrowSPairs
from benchmarks.suites.decision import Decision
from benchmarks.suites.eec import EquityEvaluationCorpus
from benchmarks.suites.implicit_association import ImplicitAssociation
from benchmarks.suites.ltf_test import LTFTest
from benchmarks.suites.real_toxicity_prompts import RealToxicityPrompts
from benchmarks.suites.stereoset import StereoSet
from benchmarks.suites.unqover import UnQover
from benchmarks.suites.winobias import WinoBias

SUITES: Mapping[str, Suite] = {
    "bbq": BBQ(),
    "cogs": CoGS(),
    "crows_pairs": CrowSPairs(),
    "decision": Decision(),
    "eec": EquityEvaluationCorpus(),
    "implicit_association": ImplicitAssociation(),
    "ltf_test": LTFTest(),
    "real_toxicity_prompts": RealToxicityPrompts(),
    "stereoset": StereoSet(),
    "unqover": UnQover(),
    "winobias": WinoBias(),
}

DATASETS: Mapping[str, DatasetSpec] = {
    suite.source.name: suite.source for suite in SUITES.values() if suite.source is not None
}
"""What `biasgate datasets` fetches."""


class SuiteInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One suite, for `biasgate suites` and GET /suites."""

    name: str
    version: str
    title: str
    url: str
    licence: str
    items: dict[str, int]
    """Number of items by kind of data."""
    data: Literal["present", "absent", "damaged", "built-in"]
    """State of the canonical data in the cache."""
    modes: list[str]
    protocols: list[str]
    metrics: list[str]
    axes: list[str]
    needs_judge: bool
    needs_embedder: bool


def find(name: str) -> Suite:
    """Raises BenchmarkError naming the nearest known suite."""
    if name not in SUITES:
        raise BenchmarkError(f'unknown suite "{name}"{nearest(name, SUITES)}; known: {", ".join(sorted(SUITES))}')
    return SUITES[name]


def source(name: str) -> DatasetSpec:
    """Raises BenchmarkError naming the nearest known data set."""
    if name not in DATASETS:
        raise BenchmarkError(
            f'unknown data set "{name}"{nearest(name, DATASETS)}; known: {", ".join(sorted(DATASETS))}'
        )
    return DATASETS[name]


def catalogue(data_dir: Path | None = None) -> list[SuiteInfo]:
    """Every suite, with the state of its canonical data under `data_dir` (default: see datasets.home)."""
    return [_info(suite, data_dir) for _, suite in sorted(SUITES.items())]


def _info(suite: Suite, data_dir: Path | None) -> SuiteInfo:
    present = "built-in" if suite.source is None else datasets.state(suite.source, data_dir).state
    return SuiteInfo(
        name=suite.name,
        version=suite.version,
        title=suite.title,
        url=suite.url,
        licence=suite.licence,
        items=dict(suite.n_items.items()),
        data=present,
        modes=list(suite.modes),
        protocols=list(suite.protocols),
        metrics=list(suite.metrics),
        axes=list(suite.axes),
        needs_judge=suite.needs_judge,
        needs_embedder=suite.needs_embedder,
    )
