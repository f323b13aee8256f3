"""Schedules over HTTP: made, listed, deleted, and refused in one line."""

import time
from pathlib import Path
from typing import Any

from tests.support.gateway.control_plane import control_plane, publish_suites

NIGHTLY: dict[str, Any] = {
    "name": "nightly",
    "cron": "0 3 * * *",
    "suites": ["stereoset"],
    "model": "qwen",
    "data": "embedded",
    "limit": 5,
}


async def test_a_schedule_is_made_listed_and_deleted(tmp_path: Path) -> None:
    """It comes back with its next time in the future and what it will ask for; deleted, it is gone."""
    async with control_plane(tmp_path) as plane:
        await publish_suites(plane)
        made = await plane.http.post("/schedules", json=NIGHTLY)
        listed = (await plane.http.get("/schedules")).json()
        one = await plane.http.get(f"/schedules/{made.json()['id']}")
        gone = await plane.http.delete(f"/schedules/{made.json()['id']}")
        left = (await plane.http.get("/schedules")).json()
        missing = await plane.http.delete(f"/schedules/{made.json()['id']}")

    assert made.status_code == 201, made.text
    assert listed == [made.json()] == [one.json()]
    assert (listed[0]["source"], listed[0]["cron"], listed[0]["last_run_ids"]) == ("api", "0 3 * * *", [])
    assert listed[0]["next_due_at"] > time.time()
    assert (listed[0]["request"]["suites"], listed[0]["request"]["limit"]) == (["stereoset"], 5)
    assert (gone.status_code, left, missing.status_code) == (204, [], 404)


async def test_bad_input_is_one_line(tmp_path: Path) -> None:
    """What cannot work, of the schedule or of its runs, is a problem that says what, and nothing is scheduled."""
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"cron": "0 3 * *"}, "has 4 fields"),
        ({"cron": None}, "give either cron or an interval"),
        ({"every_seconds": 3600}, "give either cron or an interval"),
        ({"cron": None, "every_seconds": 1}, ">= 60"),
        ({"name": ""}, "length >= 1"),
        ({"suites": ["stereose"]}, 'unknown suite "stereose" (did you mean "stereoset"?)'),
        ({"mitigation": "/etc/passwd"}, "is not offered"),
    ]
    async with control_plane(tmp_path) as plane:
        await publish_suites(plane)
        for changes, detail in wrong:
            answer = await plane.http.post("/schedules", json=NIGHTLY | changes)
            assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json"), changes
            assert detail in answer.json()["detail"]
        assert (await plane.http.get("/schedules")).json() == []
