"""Clocks on one beat: when they tick, how late they say they are, and what ends them."""

import asyncio
import logging
import time
from contextlib import suppress

import pytest

from gateway import ticks
from gateway.ticks import EARLY_SECONDS, every, until_tick


@pytest.mark.parametrize(
    ("now", "seconds", "left"),
    [(10.0, 0.05, 0.05), (10.01, 0.05, 0.04), (10.03, 0.1, 0.07), (10.099, 0.1, 0.101), (10.0999, 0.05, 0.0501)],
)
def test_a_tick_is_a_whole_multiple_of_the_interval(
    now: float, seconds: float, left: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted from the beginning of the process; one that is all but here was ticked already."""
    monkeypatch.setattr(ticks, "_BEGAN", 10.0)
    monkeypatch.setattr(time, "monotonic", lambda: now)
    assert until_tick(seconds) == pytest.approx(left)
    assert EARLY_SECONDS < until_tick(seconds) <= seconds + EARLY_SECONDS


async def test_a_failing_tick_ends_no_clock_and_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """A failure that lasts has one entry; after a good tick the next failure has another."""
    outcomes = iter([False, False, True, False])
    n, is_enough = 0, asyncio.Event()

    def work(_: float) -> None:
        nonlocal n
        n += 1
        if n == 6:
            is_enough.set()
        if not next(outcomes, True):
            raise OSError("the disk is full")

    clock = asyncio.create_task(every(0.01, work))
    with caplog.at_level(logging.ERROR, logger="gateway.ticks"):
        await is_enough.wait()
    clock.cancel()
    with suppress(asyncio.CancelledError):
        await clock
    assert len(caplog.records) == 2
    after = n
    await asyncio.sleep(0.05)
    assert n == after
