"""Suites by name: entry points of the group "biasgate.suites" name their classes, whose attributes describe them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

from auditors.plugins import Registered
from auditors.text.nearest_word import nearest
from benchmarks.datasets import published
from benchmarks.datasets.spec import DatasetSpec
from benchmarks.errors import BenchmarkError
from benchmarks.suites.prompts.suite import OwnPrompts
from benchmarks.suites.protocol import Suite


def _usable(name: str, registered: object) -> Suite:
    """Return the suite, or an instance of its class. Raises ValueError unless it is a complete suite of that name."""
    suite = registered() if isinstance(registered, type) else registered
    if not isinstance(suite, Suite):
        raise ValueError("it does not derive from benchmarks.suites.protocol.Suite")
    if missing := [member for member in Suite.__annotations__ if not hasattr(suite, member)]:
        raise ValueError(f"it has no {', '.join(missing)}")
    if suite.name != name:
        raise ValueError(f'its name is "{suite.name}"')
    if set(suite.metrics) != suite.scales.keys():
        raise ValueError("it needs one scale for every metric")
    _info(suite, "absent")  # raises for an attribute of another type
    return suite


SUITES: Mapping[str, Suite] = Registered("biasgate.suites", _usable)
"""Suites by name: ours and those of other distributions."""

OWN: Suite = OwnPrompts()
"""The suite of prompts that a user brings. It is not a benchmark, so "all" leaves it out and no list has it."""


DataState = Literal["present", "absent", "damaged", "built-in"]


class SuiteInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One suite, for `biasgate suites` and GET /suites."""

    name: str
    version: str
    title: str
    url: str
    licence: str
    items: dict[str, int]
    """Number of items by kind of data."""
    data: DataState
    """State of the canonical data in the cache."""
    modes: list[str]
    protocols: list[str]
    metrics: list[str]
    headline: tuple[str, str | None, str | None, str | None, str | None]
    """Metric, axis, group, reference and part of the suite's headline number."""
    axes: list[str]
    needs_judge: bool
    needs_embedder: bool
    few_shots: list[int]
    """Numbers of examples that may stand before a question."""
    has_follow_up: bool
    """True if it makes further questions from the replies: then --precision and --repeat-share are not possible."""


def find(name: str) -> Suite:
    """Return a benchmark, or OWN. Raises BenchmarkError naming the nearest known suite."""
    if name == OWN.name:
        return OWN
    if name not in SUITES:
        raise BenchmarkError(f'unknown suite "{name}"{nearest(name, SUITES)}; known: {", ".join(sorted(SUITES))}')
    return SUITES[name]


def known(name: str) -> Suite | None:
    """Return the suite as `find` does; None if there is none, e.g. for a result of a suite that is not installed."""
    return OWN if name == OWN.name else SUITES.get(name)


def datasets() -> dict[str, DatasetSpec]:
    """Return the data sets that `biasgate datasets` fetches, by name."""
    return {suite.source.name: suite.source for suite in SUITES.values() if suite.source is not None}


def source(name: str) -> DatasetSpec:
    """Return the data set of this name. Raises BenchmarkError naming the nearest known data set."""
    specs = datasets()
    if name not in specs:
        raise BenchmarkError(f'unknown data set "{name}"{nearest(name, specs)}; known: {", ".join(sorted(specs))}')
    return specs[name]


def catalogue(data_dir: Path | None = None) -> list[SuiteInfo]:
    """Return every suite, with the state of its canonical data under `data_dir` (default: `published.home()`)."""
    return [
        _info(suite, "built-in" if suite.source is None else published.state(suite.source, data_dir).state)
        for suite in SUITES.values()
    ]


def _info(suite: Suite, data: DataState) -> SuiteInfo:
    fields = {name: getattr(suite, name) for name in SuiteInfo.__struct_fields__ if name != "data"}
    return msgspec.convert(fields | {"items": suite.n_items, "data": data}, SuiteInfo)
