"""What a run is made of is not looked at by the garbage collector, and everything is as before when it has ended."""

import gc
from collections.abc import Iterator

import pytest

from benchmarks.run.runner import no_full_collections, run, set_aside
from benchmarks.suites.protocol import Item
from tests.support.benchmarks.scripted import MemoryLog, ScriptedCompleter, pick, plan


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Whatever the test does, nothing is left set aside, and the thresholds are those of before."""
    gc.unfreeze()  # what an earlier test's server has set aside in this process for good
    thresholds = gc.get_threshold()
    yield
    assert gc.get_freeze_count() == 0
    assert gc.get_threshold() == thresholds


def full_collections() -> int:
    return int(gc.get_stats()[2]["collections"])


def many_objects() -> list[list[int]]:
    return [[number] for number in range(400_000)]


def test_no_full_collection_comes_while_much_is_made() -> None:
    """Of a size that sees several otherwise; blocks may overlap."""
    gc.freeze()  # how much more there must be before a full collection hangs on what other tests have left
    gc.collect()
    before = full_collections()
    kept = [many_objects()]
    gc.unfreeze()
    assert full_collections() > before
    with no_full_collections():
        with no_full_collections():
            pass
        before = full_collections()
        kept.append(many_objects())
        assert full_collections() == before
    kept.clear()


def test_what_is_set_aside_is_not_looked_at() -> None:
    """Until the last block has ended, in whatever order."""
    first, second = set_aside(), set_aside()
    first.__enter__()
    alone = gc.get_freeze_count()
    made = many_objects()
    second.__enter__()
    assert gc.get_freeze_count() >= alone + len(made)
    first.__exit__(None, None, None)
    assert gc.get_freeze_count() >= alone + len(made)
    second.__exit__(None, None, None)


@pytest.mark.parametrize("fails", [False, True])
async def test_a_run_sets_its_items_aside(fails: bool) -> None:
    """While the model is asked, and no longer when the run has ended, or failed."""
    ready, seen = plan(), list[int]()

    def answer(item: Item) -> str:
        seen.append(gc.get_freeze_count())
        if fails:
            raise RuntimeError("broken on purpose")
        return pick("stereotype")(item)

    running = run(ready.options, completer=ScriptedCompleter(ready, answer), log=MemoryLog())
    if fails:
        with pytest.raises(RuntimeError, match="on purpose"):
            await running
    else:
        assert (await running).n_replies == len(ready.items)
    assert min(seen) > len(ready.items)
