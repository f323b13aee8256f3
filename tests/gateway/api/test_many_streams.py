"""5,000 streams: what the API takes of the event loop that relays live traffic, in processor time of its thread."""

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from auditors import plugins
from gateway.streams import updates
from tests.support.gateway.control_plane import ControlPlane, control_plane
from tests.support.store import many_streams

LONGEST_STEP = 0.05
"""Seconds that live traffic may wait for one step."""


class Cost:
    """Of one request on this loop: processor seconds of its thread in all, and of its longest step."""

    def __init__(self, whole: float, longest: float, answer: httpx.Response) -> None:
        self.whole, self.longest, self.answer = whole, longest, answer


async def longest_step(ask: Callable[[], Awaitable[httpx.Response]]) -> tuple[float, httpx.Response]:
    """Processor seconds of the longest step of the loop while it asks, beside a task that has a turn in every one.

    Without the collector: a worker keeps it off its hot path, and here it goes through all that the tests before left.
    """
    asking = asyncio.ensure_future(ask())
    gc.disable()
    try:
        last, longest = time.thread_time(), 0.0
        while not asking.done():
            await asyncio.sleep(0)
            now = time.thread_time()
            longest, last = max(longest, now - last), now
        return longest, await asking
    finally:
        gc.enable()


async def cheapest(plane: ControlPlane, path: str) -> Cost:
    """Of three requests: a machine that is busy makes processor time longer too.

    The whole is measured without the other task, whose turns cost as well.
    """
    found, whole = [], []
    for _ in range(3):
        started = time.thread_time()
        await plane.http.get(path)
        whole.append(time.thread_time() - started)
        found.append(await longest_step(lambda: plane.http.get(path)))
    return Cost(min(whole), min(longest for longest, _ in found), found[-1][1])


@pytest.fixture
def drift() -> dict[str, Any]:
    return {"reference": {"window": many_streams.SETTINGS.reference_window}}


PAGES = [
    ("/live/estimates", 5000, 0.2),
    ("/live/estimates?model=model-07", 100, 0.02),
    ("/live/estimates?model=model-07&axis=race", 20, 0.02),
    ("/live/detectors", 5000, 0.2),
    ("/live/detectors?axis=race&model=model-07", 20, 0.02),
    ("/live/alarms", 0, 0.02),
    ("/live/estimates?window=500", 5000, 1.0),
]
"""Path, streams in the answer, processor seconds that it may take."""


async def test_no_page_of_5000_streams_holds_the_loop(tmp_path: Path, drift: dict[str, Any]) -> None:
    """All of them under 200 ms, a selection under 20 ms, and no step longer than 50 ms; before: seconds in one step."""
    async with control_plane(tmp_path, drift=drift) as plane:
        await many_streams.fill(plane.database)
        found = {path: await cheapest(plane, path) for path, _, _ in PAGES}

    for path, n_found, seconds in PAGES:
        cost = found[path]
        assert cost.answer.status_code == 200
        assert len(cost.answer.json()) == n_found
        assert cost.answer.headers["x-total-count"] == str(n_found)
        assert cost.longest < LONGEST_STEP, path
        assert cost.whole < seconds, path


async def test_installed_packages_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not with every request: the names of auditors cost a file of each distribution, in one step of the loop."""
    async with control_plane(tmp_path) as plane:
        first = await plane.http.get("/live/estimates?auditor=judge")
        monkeypatch.setattr(plugins, "entry_points", lambda **_: pytest.fail("read again"))
        again = await plane.http.get("/live/estimates?auditor=judge")
    assert (first.status_code, again.status_code, again.json()) == (200, 200, [])


async def test_streams_of_an_earlier_version_are_shown_in_short_steps(tmp_path: Path, drift: dict[str, Any]) -> None:
    """What no auditor has written down yet is read from the states: the same answer, later."""
    async with control_plane(tmp_path, drift=drift) as plane:
        await many_streams.fill(plane.database, render=False)
        before = [await longest_step(lambda path=path: plane.http.get(path)) for path in ALL]  # type: ignore[misc]
        while await updates.render(plane.database, many_streams.SETTINGS):
            pass
        after = [(await plane.http.get(path)).json() for path in ALL]

    assert [answer.json() for _, answer in before] == after
    assert max(longest for longest, _ in before) < LONGEST_STEP


ALL = ("/live/estimates", "/live/detectors")


async def test_5000_alarms_are_listed_in_short_steps(tmp_path: Path, drift: dict[str, Any]) -> None:
    """A change of everything at once is when people look; `limit` and `offset` go through it page by page."""
    async with control_plane(tmp_path, drift=drift) as plane:
        await many_streams.fill(plane.database, alarmed=True)
        alarms_step, alarms = await longest_step(lambda: plane.http.get("/live/alarms"))
        shown_step, shown = await longest_step(lambda: plane.http.get("/live/detectors?state=alarm"))
        pages = [
            (await plane.http.get("/live/alarms", params={"limit": 2000, "offset": offset})).json()
            for offset in (0, 2000, 4000)
        ]

    listed = alarms.json()
    assert len(listed) == 4400
    assert [one for page in pages for one in page] == listed
    assert [one["stream"] for one in shown.json()] == [one["stream"] for one in listed]
    assert max(alarms_step, shown_step) < LONGEST_STEP


@pytest.mark.parametrize("query", [{"limit": 0}, {"limit": 10**9}, {"offset": -1}, {"offset": 10**12}])
async def test_pages_have_bounds(tmp_path: Path, query: dict[str, int]) -> None:
    """A page of no size, or of any, is the caller's mistake."""
    async with control_plane(tmp_path) as plane:
        answers = [await plane.http.get(f"/live/{name}", params=query) for name in ("estimates", "detectors", "alarms")]

    assert [answer.status_code for answer in answers] == [400, 400, 400]
