"""POST /audits with a team's own prompts: taken with the file's text, refused in one line without it or with more."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from gateway.store import runs
from gateway.store.database import Database
from tests.support.gateway.control_plane import control_plane, publish_suites

CONTENT = '{"prompt": "My sister asks for help."}\n{"prompt": "Write a haiku."}\n'
DIGEST = f"sha256:{hashlib.sha256(CONTENT.encode()).hexdigest()}"
ASKED: dict[str, Any] = {"suites": "prompts", "model": "qwen", "samples": 2, "prompts": CONTENT}
OPTIONS = {"suite": "prompts", "model": "m", "mode": "sample", "protocol": "corrected", "prompts": CONTENT}


async def test_a_run_is_queued_and_lists_do_not_carry_the_text(tmp_path: Path) -> None:
    """The text is kept once, apart: a run and lists of runs have its digest."""
    async with control_plane(tmp_path) as plane:
        await publish_suites(plane)
        answer = await plane.http.post("/audits", json=ASKED)
        assert answer.status_code == 202, answer.text
        audit_id = answer.json()["id"]
        one = (await plane.http.get(f"/audits/{audit_id}")).json()
        [listed] = (await plane.http.get("/audits", params={"suite": "prompts"})).json()
        run = await runs.claim(plane.database, audit_id)
        assert run is not None
        whole = await runs.with_prompts(plane.database, run)
        everything = await plane.http.post(
            "/audits", json={**ASKED, "suites": "all", "prompts": None, "data": "embedded"}
        )
        suites = [suite["name"] for suite in (await plane.http.get("/suites")).json()]

    assert one["options"]["prompts"] == listed["options"]["prompts"] == run.options["prompts"] == DIGEST
    assert whole.options == run.options | {"prompts": CONTENT}
    assert "prompts" not in everything.json()["ids"]
    assert "prompts" not in suites


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"prompts": None}, "send the text of the file to POST /audits"),
        ({"suites": ["prompts", "stereoset"]}, 'asked by the suite "prompts" alone'),
        ({"suites": "stereoset"}, 'asked by the suite "prompts" alone'),
        ({"suites": "all"}, 'asked by the suite "prompts" alone'),
        ({"samples": 1}, "samples must be at least 2, not 1"),
        ({"precision": 0.1}, "precision is not offered"),
        ({"axes": ["sex"]}, 'axis "sex" is not offered'),
        ({"prompts": CONTENT + "{"}, "prompts: line 3: "),
        ({"prompts": ""}, "prompts: holds no prompt"),
        ({"prompts": '{"prompt": "x", "id": "a/b"}'}, "prompts: line 1: `$.id`: must be up to 64 letters"),
    ],
)
async def test_what_is_refused(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    """Before anything is queued; a cost estimate says the same."""
    async with control_plane(tmp_path) as plane:
        await publish_suites(plane)
        answers = [await plane.http.post(path, json=ASKED | changes) for path in ("/audits", "/audits/estimate")]
        queued = (await plane.http.get("/audits")).json()

    for answer in answers:
        assert answer.status_code == 400, answer.text
        assert words in answer.json()["detail"]
    assert queued == []


async def test_a_file_that_is_too_large(tmp_path: Path) -> None:
    """The body's own limit comes first."""
    async with control_plane(tmp_path) as plane:
        await publish_suites(plane)
        answer = await plane.http.post("/audits", json=ASKED | {"prompts": CONTENT * 20_000})
    assert answer.status_code == 413


async def test_a_schedule_has_no_file(tmp_path: Path) -> None:
    """Neither with the text nor without."""
    asked = {"name": "nightly", "every_hours": 1, "model": "qwen", "suites": ["prompts"], "samples": 2}
    async with control_plane(tmp_path) as plane:
        await publish_suites(plane)
        answers = [await plane.http.post("/schedules", json=asked | more) for more in ({}, {"prompts": CONTENT})]
    assert [answer.status_code for answer in answers] == [400, 400]


async def test_the_text_goes_with_its_run(database: Database) -> None:
    """On both stores it is kept apart from the options, and deleted with them."""
    await runs.create(database, "r", OPTIONS)
    [listed] = await runs.list_runs(database)
    assert listed.options["prompts"] == DIGEST
    assert (await runs.with_prompts(database, listed)).options == OPTIONS
    await runs.delete(database, "r")
    await runs.create(database, "r", OPTIONS | {"prompts": None})
    [other] = await runs.list_runs(database)
    assert (await runs.with_prompts(database, other)) is other
