"""Stopping at a precision: where, in which order, after what interruption, and that its intervals still hold."""

import asyncio
import random
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from benchmarks.errors import RunStopped
from benchmarks.reporting import report
from benchmarks.run.estimation import FEWEST, GROWTH, Looks, looks_of
from benchmarks.run.plan import prepare, select
from benchmarks.run.runner import Plan, Progress, RunOptions, run_plan
from benchmarks.suites import registry
from benchmarks.suites.common.counted import Share
from benchmarks.suites.common.counting import part_of_whole
from benchmarks.suites.common.estimation import Cell, estimate
from benchmarks.suites.protocol import Item
from tests.benchmarks.suites.test_implicit_association import dictionary
from tests.support.benchmarks.scripted import MemoryLog, ScriptedCompleter, plan
from tests.support.long import repeated
from tests.support.tables import ROW
from tools.simulations.clustered_replies import chances

Indices = NDArray[np.intp]
TIMES = 400
"""Runs a row."""
UNLIKELY = 0.001
"""Chance with which these seeds may reject a coverage of 95 %."""


def associations(**options: object) -> Plan:
    """Implicit association: 400 built-in items, so looks at 79, 119, 178, 267 and 400."""
    return plan(suite="implicit_association", **options)


def mixed(share: float) -> Callable[[Item], str]:
    """A model that assigns words as the stereotype has it in this share of the items."""
    return lambda item: dictionary(item, is_reversed=random.Random(item.item_id).random() >= share)


async def test_a_run_stops_at_the_first_look_that_is_narrow_enough() -> None:
    """What was asked is what --limit would ask, the interval is as narrow as demanded; result and page say so."""
    ready = associations(precision=0.1)
    completer = ScriptedCompleter(ready, mixed(0.6))
    result = await run_plan(ready, completer=completer, log=MemoryLog())

    found = result.precision
    assert found is not None
    assert found.is_reached
    assert (found.n_planned, found.looks_planned) == (400, 5)
    assert found.demanded_in_unit == pytest.approx(10.0)
    assert 1 < found.looks < 5
    assert found.n_asked == len(completer.asked) == result.counts["items"] == round(400 / GROWTH ** (5 - found.looks))
    limited = associations(limit=found.n_asked)
    assert {one.messages for one in completer.asked} == {item.messages for item in limited.items}
    assert result.provenance.prompt_sha256 == limited.prompt_sha256
    headline = next(one for one in result.estimates if one.metric == "stereotype_rate" and one.axis is None)
    assert headline.lower is not None
    assert headline.upper is not None
    assert found.found is not None
    assert (headline.upper - headline.lower) / 2 == found.found <= 10
    assert (headline.confidence_level, str(headline.method).partition(" ")[0]) == (0.95, "repeated")
    assert f"stopped after {found.n_asked} of 400 items" in found.words
    assert found.words in report.render([result])

    same = ScriptedCompleter(limited, mixed(0.6))
    plain = await run_plan(limited, completer=same, log=MemoryLog())
    narrow = next(one for one in plain.estimates if one.metric == "stereotype_rate" and one.axis is None)
    assert narrow.value == headline.value
    assert narrow.lower is not None
    assert narrow.lower > headline.lower
    marked = [one.extra["p_value"] for one in plain.estimates if "p_value" in one.extra]
    raised = [one.extra["p_value"] for one in result.estimates if "p_value" in one.extra]
    factor = 0.05 / (1 - found.level_of_a_look)
    assert raised == pytest.approx([min(1.0, factor * p) for p in marked])


@pytest.mark.parametrize(
    ("options", "is_reached", "words"),
    [
        ({"precision": 0.001}, False, "all 400 items were asked"),
        ({"precision": 0.9, "limit": 50}, True, "reached with all 50 items"),
    ],
)
async def test_a_run_that_asks_everything(options: dict[str, Any], is_reached: bool, words: str) -> None:
    """Whether it never gets there, or with its last item, the result says so."""
    ready = associations(**options)
    completer = ScriptedCompleter(ready, mixed(0.6))
    result = await run_plan(ready, completer=completer, log=MemoryLog())

    assert result.precision is not None
    assert (result.precision.is_reached, len(completer.asked)) == (is_reached, len(ready.items))
    assert words in result.precision.words


async def test_a_stopped_run_goes_on_to_the_same_stop() -> None:
    """Whatever the moment of interruption, resume asks nothing twice and gives the same result."""
    whole = await run_plan(
        associations(precision=0.1), completer=ScriptedCompleter(associations(), mixed(0.6)), log=MemoryLog()
    )
    assert whole.precision is not None
    for cut in (79, whole.precision.n_asked - 2):
        ready, log, stop = associations(precision=0.1, concurrency=1), MemoryLog(), asyncio.Event()

        def stop_there(progress: Progress, cut: int = cut, stop: asyncio.Event = stop) -> None:
            assert progress.total == 400
            if progress.done >= cut:
                stop.set()

        first = ScriptedCompleter(ready, mixed(0.6))
        with pytest.raises(RunStopped):
            await run_plan(ready, completer=first, log=log, stop=stop, on_progress=stop_there)
        second = ScriptedCompleter(ready, mixed(0.6))
        result = await run_plan(ready, completer=second, log=log)
        assert (result.precision, result.estimates) == (whole.precision, whole.estimates)
        assert whole.precision is not None
        assert len(first.asked) + len(second.asked) == len(log.replies) == whole.precision.n_asked


async def test_a_look_that_is_past_is_not_taken_again() -> None:
    """The run does not repeat a past look: later replies show that it did not stop, and late ones change nothing."""
    ready = associations(precision=0.1)
    looks = looks_of(ready)
    early, later = ({item.item_id for item in looks.plans[n].items} for n in (1, 2))

    assert [number for number, _ in looks.after([])] == [1, 2, 3, 4, 5]
    assert [number for number, _ in looks.after(early)] == [2, 3, 4, 5]
    assert [number for number, _ in looks.after([next(iter(later - early))])] == [3, 4, 5]


@pytest.mark.parametrize("suite", sorted(set(registry.SUITES) - {"cogs"}))
def test_looks_of_every_suite(suite: str) -> None:
    """Each contains the one before, is what a limit asks, has every axis, and ends with the whole plan."""
    options = RunOptions(suite=suite, model="m", data="embedded", limit=2000, precision=0.05)
    ready = prepare(options)
    looks = looks_of(ready)

    assert looks.plans[-1] is ready
    assert len(looks.plans) == 1 or len(looks.plans[0].items) >= FEWEST - 16
    before: set[str] = set()
    for one in looks.plans[:-1]:
        now = {item.item_id for item in one.items}
        assert before < now
        assert one.items == select(ready.items, len(one.items), 0)
        assert {item.axis for item in one.items} == {item.axis for item in ready.items}
        before = now


class Setting(NamedTuple):
    """Items of a simulated suite, and how far its headline number is to be known."""

    name: str
    n_clusters: int
    cluster_size: int
    share: float
    """True share of successes."""
    likeness: float
    """Correlation of two items of a cluster."""
    precision: float
    is_counted: bool = True
    """A share, or a number that is resampled."""
    is_sparse: bool = False
    """Next to its bound, where an interval may cover too much."""


SETTINGS = (
    Setting("independent", 3000, 1, 0.3, 0.0, 0.04),
    Setting("pairs", 1000, 2, 0.5, 0.5, 0.05),
    Setting("clusters alike 0.3", 200, 12, 0.3, 0.3, 0.06),
    Setting("clusters alike 0.98", 300, 8, 0.3, 0.98, 0.08),
    Setting("few large clusters", 40, 60, 0.4, 0.1, 0.08),
    Setting("next to 0", 400, 6, 0.02, 0.1, 0.02, is_sparse=True),
    Setting("next to 100, wide", 400, 6, 0.97, 0.3, 0.05, is_sparse=True),
    Setting("resampled mean", 200, 12, 0.3, 0.3, 0.06, is_counted=False),
    Setting("never reached", 200, 4, 0.3, 0.3, 0.01),
)


class Outcome(NamedTuple):
    """One simulated run."""

    is_held: bool
    """At the look at which it stopped."""
    is_held_always: bool
    """At every look: what holds whatever makes a run stop."""
    is_held_plain: bool
    """Whether the interval of a run that was looked at once would hold at the look at which that one stops."""
    share_asked: float


def simulated(setting: Setting, looks: Looks, order: list[Indices], seed: int) -> Outcome:
    """A population of clusters is drawn anew each time; the truth is what they are drawn from."""
    rng = np.random.default_rng([seed, *setting.name.encode()])
    chance = chances(rng, setting.share, setting.likeness, setting.n_clusters)
    cluster = np.repeat(np.arange(setting.n_clusters), setting.cluster_size)
    success = rng.random(len(cluster)) < chance[cluster]
    ends = {}
    for level in (looks.level, 0.95):
        found = [_interval(setting, cluster[part], success[part], level, seed) for part in order]
        demanded = 200 * setting.precision
        stop = next((n for n, one in enumerate(found) if one is not None and one[1] - one[0] <= demanded), -1)
        ends[level] = [one is None or one[0] - 1e-9 <= 100 * setting.share <= one[1] + 1e-9 for one in found], stop
    held, stop = ends[looks.level]
    plain, plain_stop = ends[0.95]
    return Outcome(held[stop], all(held), plain[plain_stop], len(order[stop]) / len(cluster))


def _interval(
    setting: Setting, cluster: Indices, success: NDArray[np.bool_], level: float, seed: int
) -> tuple[float, float] | None:
    names, row = np.unique(cluster, return_inverse=True)
    parts, wholes = (np.bincount(row, weights=one).astype(np.float64) for one in (success, np.ones(len(row))))
    cell = Cell(
        metric="ss",
        clusters=tuple(map(str, names)),
        sums=np.stack([parts, wholes], axis=1),
        statistic=part_of_whole,
        unit="cluster",
        n=len(cluster),
        counted=Share(parts, wholes) if setting.is_counted else None,
    )
    found = estimate(cell, seed=seed, confidence_level=level)
    return None if found.lower is None or found.upper is None else (found.lower, found.upper)


@repeated(TIMES)
@pytest.mark.parametrize("setting", SETTINGS, ids=lambda one: one.name)
def test_intervals_hold_where_a_run_stops(
    setting: Setting, times: int, record_property: Callable[[str, object], None]
) -> None:
    """The intervals hold the truth in 95 % of 400 runs, at the stop and at every look, and in few more than that."""
    ready = plan(precision=setting.precision)
    items = [
        msgspec.structs.replace(ready.items[0], item_id=f"{n}-{k}", cluster=str(n), set_id=None, axis="gender")
        for n in range(setting.n_clusters)
        for k in range(setting.cluster_size)
    ]
    looks = looks_of(msgspec.structs.replace(ready, items=items))
    place = {item.item_id: number for number, item in enumerate(items)}
    order = [np.array([place[item.item_id] for item in one.items]) for one in looks.plans]
    runs = [simulated(setting, looks, order, seed) for seed in range(times)]
    held, always, plain = (sum(run[n] for run in runs) for n in range(3))
    asked = np.mean([run.share_asked for run in runs])
    row = f"{setting.name:20} ±{100 * setting.precision:<4g} {len(looks.plans):2} looks  asked {100 * asked:5.1f} %"
    shares = (f"{100 * one / times:5.1f} %" for one in (held, always, plain))
    record_property(ROW, "precision  " + row + "  held {} at the stop, {} at every look; plain {}".format(*shares))
    assert binom.cdf(held, times, 0.95) > UNLIKELY
    assert binom.cdf(always, times, 0.94) > UNLIKELY
    if setting.name != "never reached":
        assert asked < 0.9
