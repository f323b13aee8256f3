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


async def test_tokens_are_those_of_the_newest_run_that_counted_them() -> None:
    """Twice the samples cost twice the tokens; without counts the prompt is guessed and the replies are not known."""
    run = await finished()
    counted = msgspec.structs.replace(run.provenance, prompt_tokens=4800, reply_tokens=144)
    twice = forecast(plan(samples=2), finished=[msgspec.structs.replace(run, provenance=counted)])
    guessed = forecast(plan(samples=2), finished=[run])

    assert (twice.prompt_tokens, twice.expected_reply_tokens) == (9600, 288)
    assert guessed.expected_reply_tokens is None
    assert guessed.prompt_tokens > 0
    assert twice.reply_tokens == guessed.reply_tokens > 288
