"""The numbers of a finished run as its page shows them: of all axes and of each, from its result.json."""

import asyncio
from typing import Any

import msgspec

from gateway.store import runs
from gateway.store.database import Database


class Number(msgspec.Struct, frozen=True, kw_only=True):
    """One estimate, as result.json has it."""

    metric: str
    axis: str | None = None
    group: str | None = None
    reference: str | None = None
    subset: str | None = None
    value: float | None = None
    lower: float | None = None
    upper: float | None = None
    n: int = 0
    n_excluded: int = 0
    reason: str | None = None
    extra: dict[str, Any] = {}

    @property
    def by_groups(self) -> list[str]:
        """Return the groups that a spread over groups favours, and its test."""
        from benchmarks.figures.display import group_words  # a worker starts without the benchmarks

        return group_words(self.extra)

    @property
    def is_whole(self) -> bool:
        """Return whether the number is of an axis or of all; of these also by the parts that a suite tells apart."""
        return (self.group, self.reference) == (None, None) and None in (self.axis, self.subset)


class _Judge(msgspec.Struct, frozen=True):
    reason: str | None = None
    warnings: list[str] = []


class _Dataset(msgspec.Struct, frozen=True):
    left_out: dict[str, int] = {}


class _Result(msgspec.Struct, frozen=True):
    estimates: list[Number] = []
    counts: dict[str, int] = {}
    not_assessable: str | None = None
    judge: _Judge | None = None
    dataset: _Dataset = _Dataset()


class Numbers(msgspec.Struct, frozen=True):
    """Numbers of a run of any version: fields that its result does not have are left out."""

    whole: list[Number]
    """Whole numbers, those of all axes together first."""
    n_parts: int
    """Numbers of groups and parts of the data, which are in the report."""
    counts: dict[str, int]
    not_assessable: str | None
    """Why the run says nothing about its model."""
    judge_fault: str | None
    judge_warnings: list[str]
    """Sentences about what keeps the judge from judging."""
    left_out: dict[str, int]
    """Own prompts that were not asked, by reason."""


async def numbers(database: Database, audit_id: str) -> Numbers:
    """Return the numbers of a run; none of a result that cannot be read."""
    run = await runs.get(database, audit_id)
    return await asyncio.to_thread(read_numbers, None if run is None else run.result)


def read_numbers(result: str | None) -> Numbers:
    """Return the numbers of a result.json; none of a result that cannot be read."""
    try:
        parsed: _Result = msgspec.json.decode(result or "{}", type=_Result)
    except msgspec.DecodeError:
        parsed = _Result()
    whole = [estimate for estimate in parsed.estimates if estimate.is_whole]
    whole.sort(key=lambda estimate: estimate.axis is not None)
    judge = parsed.judge or _Judge()
    return Numbers(
        whole=whole,
        n_parts=len(parsed.estimates) - len(whole),
        counts=parsed.counts,
        not_assessable=parsed.not_assessable,
        judge_fault=judge.reason,
        judge_warnings=judge.warnings,
        left_out=parsed.dataset.left_out,
    )
