"""What a run is made of is not looked at by the garbage collector, and everything is as before when it has ended."""

import gc
from collections.abc import Iterator

import pytest

from benchmarks.run.runner import run
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
