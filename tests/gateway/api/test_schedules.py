"""Schedules over HTTP: made, listed, deleted, and refused in one line."""

import time
from pathlib import Path
from typing import Any

import pytest

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


@pytest.mark.parametrize(
    ("changes", "status", "detail"),
    [
        ({"cron": "0 3 * *"}, 400, "has 4 fields"),
        ({"cron": None}, 400, "give either cron or an interval"),
        ({"every_seconds": 3600}, 400, "give either cron or an interval"),
        ({"cron": None, "every_seconds": 1}, 400, ">= 60"),
        ({"suites": ["stereose"]}, 400, 'unknown suite "stereose" (did you mean "stereoset"?)'),
        ({"model": "qwem"}, 400, 'unknown model "qwem" (did you mean "qwen"?)'),
        ({"mode": "exact"}, 400, 'mode "exact" is not offered'),
        ({"data": "canonical"}, 409, "biasgate datasets fetch stereoset"),
        ({"every": 5}, 400, "unknown field"),
        ({"name": ""}, 400, "length >= 1"),
        ({"mitigation": "/etc/passwd"}, 400, "is not offered"),
        ({"thinking": "budget=0"}, 400, 'thinking "budget=0" is not known'),
        ({"extra_body": {"temperature": 0}}, 400, 'extra_body: "temperature" is set by the run itself'),
    ],
)
async def test_bad_input_is_one_line(tmp_path: Path, changes: dict[str, Any], status: int, detail: str) -> None:
    """What cannot work is a problem that says what, and nothing is scheduled."""
    async with control_plane(tmp_path) as plane:
        await publish_suites(plane)
        answer = await plane.http.post("/schedules", json=NIGHTLY | changes)
        assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
        assert detail in answer.json()["detail"]
        assert (await plane.http.get("/schedules")).json() == []


async def test_schedules_need_the_admin_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the key nothing is listed or made."""
    monkeypatch.setenv("TEST_ADMIN_KEY", "sesame")
    async with control_plane(tmp_path, server={"admin_key_env": "TEST_ADMIN_KEY"}) as plane:
        assert (await plane.http.get("/schedules")).status_code == 401
        assert (await plane.http.post("/schedules", json=NIGHTLY)).status_code == 401


async def test_it_is_in_the_openapi_document(tmp_path: Path) -> None:
    """The API's own description has every action on schedules."""
    async with control_plane(tmp_path) as plane:
        paths = (await plane.http.get("/schema/openapi.json")).json()["paths"]
    assert set(paths["/schedules"]) == {"get", "post"}
    assert set(paths["/schedules/{schedule_id}"]) == {"get", "delete"}
