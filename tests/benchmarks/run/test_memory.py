"""What a run holds in memory hangs on its items, not on how often each is asked."""

import tracemalloc
from pathlib import Path

import pytest

from benchmarks.run import directory
from benchmarks.run.runner import run_plan
from tests.support.benchmarks.replayed import SUITES, Saying, answered, recorded_plan
from tests.support.benchmarks.scripted import plan

MOST_BYTES = 150
"""A reply that is held costs more than 2,000 here; the numbers that scores need of one, at most a few dozen."""


async def peak_bytes_of_scoring(path: Path, suite: str, samples: int) -> tuple[int, int]:
    """Peak of resuming and scoring a run with all its replies, and how many there are."""
    ready = recorded_plan(suite, samples=samples, limit=40)
    log = answered(path, ready)
    tracemalloc.start()
    try:
        await run_plan(ready, completer=Saying("1"), log=log)
        return tracemalloc.get_traced_memory()[1], ready.total
    finally:
        tracemalloc.stop()
        log.close()


@pytest.mark.parametrize("suite", SUITES)
async def test_scoring_takes_no_memory_for_another_reply(suite: str, tmp_path: Path) -> None:
    """A resumed run with three times the samples takes no more memory; both read several blocks of replies."""
    few, n_few = await peak_bytes_of_scoring(tmp_path / "few", suite, 8)
    many, n_many = await peak_bytes_of_scoring(tmp_path / "many", suite, 24)

    assert (many - few) / (n_many - n_few) < MOST_BYTES


async def peak_bytes_of_asking(path: Path, samples: int) -> int:
    ready = plan(samples=samples)
    directory.create(path, ready, directory.manifest(ready))
    log = directory.DirectoryLog(path)
    tracemalloc.start()
    try:
        await run_plan(ready, completer=Saying("word " * 400), log=log)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        log.close()


@pytest.mark.long
async def test_asking_takes_no_memory_for_another_reply(tmp_path: Path) -> None:
    """Twice as many questions, asked and kept, take the memory of the half, in a process that has run before."""
    await peak_bytes_of_asking(tmp_path / "first", 1)
    few = await peak_bytes_of_asking(tmp_path / "few", 8)
    many = await peak_bytes_of_asking(tmp_path / "many", 16)

    assert (many - few) / (8 * 48) < MOST_BYTES


def test_a_plan_of_any_size_is_made_at_once() -> None:
    """A thousand million replies are a number, not a list."""
    tracemalloc.start()
    try:
        ready = plan(samples=1_000_000_000)
        assert ready.total == 48_000_000_000
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()
