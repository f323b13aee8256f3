"""5,000 streams: what the API takes of the event loop that relays live traffic, in processor time of its thread."""

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.gateway.control_plane import ControlPlane, control_plane
from tests.support.store import many_streams

LONGEST_STEP = 0.05
"""Seconds that live traffic may wait for one step."""


class Cost:
    """Of one request on this loop: processor seconds of its thread in all, and of its longest step."""

    def __init__(self, whole: float, longest: float, answer: httpx.Response) -> None:
        self.whole, self.longest, self.answer = whole, longest, answer


async def longest_step(ask: Callable[[], Awaitable[httpx.Response]]) -> tuple[float, httpx.Response]:
    """Return the processor seconds of the loop's longest step during the request, with the garbage collector off."""
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
    """Return the least of three requests' processor times, as a busy machine raises them."""
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
    ("/live/estimates", 5000, 0.4),
    ("/live/estimates?model=model-07", 100, 0.05),
    ("/live/estimates?model=model-07&axis=race", 20, 0.05),
    ("/live/detectors", 5000, 0.5),
    ("/live/detectors?axis=race&model=model-07", 20, 0.1),
    ("/live/estimates?window=500", 5000, 1.0),
]
"""Path, streams in the answer, processor seconds that it may take: twice what a slow machine takes."""


async def test_no_page_of_5000_streams_holds_the_loop(tmp_path: Path, drift: dict[str, Any]) -> None:
    """Pages take at most 0.5 s, selections and steps 50 ms; 4,400 alarms are listed in the same order."""
    async with control_plane(tmp_path, drift=drift) as plane:
        await many_streams.fill(plane.database, alarmed=True)
        found = {path: await cheapest(plane, path) for path, _, _ in PAGES}
        alarms_step, alarms = await longest_step(lambda: plane.http.get("/live/alarms"))
        shown_step, shown = await longest_step(lambda: plane.http.get("/live/detectors?state=alarm"))
        pages = [
            (await plane.http.get("/live/alarms", params={"limit": 2000, "offset": offset})).json()
            for offset in (0, 2000, 4000)
        ]

    listed = alarms.json()
    assert len(listed) == 4400
    assert [alarm for page in pages for alarm in page] == listed
    assert [alarm["stream"] for alarm in shown.json()] == [alarm["stream"] for alarm in listed]
    assert max(alarms_step, shown_step) < LONGEST_STEP
    for path, n_found, seconds in PAGES:
        cost = found[path]
        assert cost.answer.status_code == 200
        assert len(cost.answer.json()) == n_found
        assert cost.answer.headers["x-total-count"] == str(n_found)
        assert cost.longest < LONGEST_STEP, path
        assert cost.whole < seconds, path
