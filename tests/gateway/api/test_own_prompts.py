"""POST /audits with a team's own prompts: taken with the file's text, refused in one line without it or with more."""

import hashlib
from pathlib import Path
from typing import Any

from gateway.store import runs
from tests.support.gateway.control_plane import control_plane, publish_suites

CONTENT = '{"prompt": "My sister asks for help."}\n{"prompt": "Write a haiku."}\n'
DIGEST = f"sha256:{hashlib.sha256(CONTENT.encode()).hexdigest()}"
ASKED: dict[str, Any] = {"suites": "prompts", "model": "qwen", "samples": 2, "prompts": CONTENT}


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


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"prompts": None}, "send the text of the file to POST /audits"),
    ({"suites": ["prompts", "stereoset"]}, 'asked by the suite "prompts" alone'),
    ({"suites": "all"}, 'asked by the suite "prompts" alone'),
    ({"samples": 1}, "samples must be at least 2, not 1"),
    ({"precision": 0.1}, "precision is not offered"),
    ({"axes": ["sex"]}, 'axis "sex" is not offered'),
    ({"prompts": CONTENT + "{"}, "prompts: line 3: "),
    ({"prompts": ""}, "prompts: holds no prompt"),
    ({"prompts": '{"prompt": "x", "id": "a/b"}'}, "prompts: line 1: `$.id`: must be a letter or digit and up to 63"),
]


async def test_what_is_refused(tmp_path: Path) -> None:
    """Refuse a wrong request before anything is queued; a cost estimate says the same, and a schedule takes no file."""
    nightly = {"name": "nightly", "every_hours": 1, "model": "qwen", "suites": ["prompts"], "samples": 2}
    async with control_plane(tmp_path) as plane:
        await publish_suites(plane)
        for changes, words in WRONG:
            for path in ("/audits", "/audits/estimate"):
                answer = await plane.http.post(path, json=ASKED | changes)
                assert answer.status_code == 400, answer.text
                assert words in answer.json()["detail"]
        for prompts in ({}, {"prompts": CONTENT}):
            assert (await plane.http.post("/schedules", json=nightly | prompts)).status_code == 400
        too_large = await plane.http.post("/audits", json=ASKED | {"prompts": CONTENT * 20_000})
        queued = (await plane.http.get("/audits")).json()

    assert (too_large.status_code, queued) == (413, [])
