"""What a run would send, worked out from its plan and from finished runs."""

import msgspec

from benchmarks.run.forecast import forecast
from benchmarks.run.result import Result
from benchmarks.run.runner import run_plan
from tests.support.benchmarks.scripted import MemoryLog, ScriptedCompleter, pick, plan


async def finished(**options: object) -> Result:
    """A run of 48 items that took 96 seconds."""
    ready = plan(**options)
    result = await run_plan(ready, completer=ScriptedCompleter(ready, pick("stereotype")), log=MemoryLog())
    return msgspec.structs.replace(result, provenance=msgspec.structs.replace(result.provenance, seconds=96.0))


async def test_the_rate_of_a_run_that_thinks_is_another() -> None:
    """A model that thinks is many times slower: minutes come from runs with the same setting alone."""
    off = await finished(thinking="off")

    assert forecast(plan(thinking="off"), finished=[off]).seconds == 96.0
    assert forecast(plan(thinking="on"), finished=[off]).seconds is None
