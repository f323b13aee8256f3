"""Repeats: what is asked again, what is said of it, and that it is in no number of the run."""

import asyncio
import random
from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import binom

from benchmarks.errors import RunStopped
from benchmarks.reporting import report
from benchmarks.run.plan import select
from benchmarks.run.result import Result
from benchmarks.run.runner import Plan, Progress, run_plan
from benchmarks.suites.protocol import Item
from tests.benchmarks.suites.test_implicit_association import dictionary
from tests.support.benchmarks.scripted import MemoryLog, ScriptedCompleter, plan
from tests.support.long import repeated
from tests.support.tables import ROW

TIMES = 150


def associations(**options: object) -> Plan:
    return plan(suite="implicit_association", **options)


def tossed(seed: int, share: float = 0.5) -> Callable[[Item], str]:
    """A model that tosses a coin at each request."""
    rng = random.Random(seed)
    return lambda item: dictionary(item, is_reversed=rng.random() >= share)


def steady(item: Item) -> str:
    """A model that answers each item as ever, and items differently."""
    return dictionary(item, is_reversed=random.Random(item.item_id).random() < 0.5)


def stereotype_rate(result: Result) -> float:
    found = next(one for one in result.estimates if one.metric == "stereotype_rate" and one.axis is None)
    assert found.value is not None
    return float(found.value)


async def test_a_model_that_never_changes_has_no_noise() -> None:
    """Nothing changed among 40; how often it could have is bounded; no interval is made of no change."""
    ready = associations(repeat_share=0.1)
    completer = ScriptedCompleter(ready, steady)
    result = await run_plan(ready, completer=completer, log=MemoryLog())

    found = result.repeats
    assert found is not None
    assert (found.n_asked, found.n_pairs, len(completer.asked)) == (40, 40, 440)
    assert found.text is not None
    assert found.answer is not None
    assert (found.text.value, found.answer.value, found.answer.lower) == (0, 0, 0)
    assert found.answer.upper is not None
    assert 0.05 < found.answer.upper < 0.12
    assert (found.headline.standard_deviation, found.headline.difference) == (0, None)
    assert found.headline.reason is not None
    assert "too few of its replies changed" in found.headline.reason
    assert found.words in report.render([result])
    asked_twice = {one.messages for one in completer.asked[400:]}
    assert asked_twice == {item.messages for item in select(ready.items, 40, 0)}
    assert result.provenance.requests == 441


async def test_repeats_are_in_no_number() -> None:
    """The first replies alone make the result."""
    ready, without = associations(repeat_share=0.5, concurrency=1), associations(concurrency=1)
    result = await run_plan(ready, completer=ScriptedCompleter(ready, tossed(3)), log=MemoryLog())
    plain = await run_plan(without, completer=ScriptedCompleter(without, tossed(3)), log=MemoryLog())

    assert result.estimates == plain.estimates
    assert (result.counts, result.samples) == (plain.counts, 1)
    assert plain.repeats is None


async def test_a_stopped_run_asks_the_rest_of_its_repeats() -> None:
    """Whether it was stopped before them or among them; progress counts them."""
    for cut in (200, 420):
        ready, log, stop = associations(repeat_share=0.1, concurrency=1), MemoryLog(), asyncio.Event()

        def stop_there(progress: Progress, cut: int = cut, stop: asyncio.Event = stop) -> None:
            assert progress.total == 440
            if progress.done >= cut:
                stop.set()

        first = ScriptedCompleter(ready, steady)
        with pytest.raises(RunStopped) as stopped:
            await run_plan(ready, completer=first, log=log, stop=stop, on_progress=stop_there)
        assert cut <= stopped.value.done < 440
        result = await run_plan(ready, completer=ScriptedCompleter(ready, steady), log=log)
        assert len(log.replies) == 440
        assert result.repeats is not None
        assert result.repeats.n_pairs == 40


@repeated(TIMES)
async def test_the_noise_of_a_coin_is_found(times: int, record_property: Callable[[str, object], None]) -> None:
    """Repeats find a coin's noise of 2.5 points in 95 % of the intervals; 95 % of pairs of runs differ by less."""
    truth = 100 * (0.25 / 400) ** 0.5
    deviations, held, within = list[float](), 0, 0
    ready = associations(repeat_share=0.5)
    for seed in range(times):
        result = await run_plan(ready, completer=ScriptedCompleter(ready, tossed(seed)), log=MemoryLog())
        assert result.repeats is not None
        noise = result.repeats.headline
        assert noise.standard_deviation is not None
        assert noise.lower is not None
        assert noise.upper is not None
        assert noise.difference is not None
        deviations.append(noise.standard_deviation)
        held += noise.lower <= truth <= noise.upper
        apart = abs(stereotype_rate(result) - 100 * np.random.default_rng(seed).binomial(400, 0.5) / 400)
        within += apart <= noise.difference
    mean = float(np.mean(np.square(deviations)) ** 0.5)
    row = f"a coin, 400 items, half of them repeated: standard deviation {mean:.2f}, truth {truth:.2f}"
    record_property(ROW, f"repeats  {row}; held {100 * held / times:.1f} %, pairs {100 * within / times:.1f} %")
    assert mean == pytest.approx(truth, rel=0.02)
    for count in (held, within):
        assert binom.cdf(count, times, 0.93) > 0.001
