"""`/audits` and `/suites`: runs are queued, listed, cancelled, resumed and read."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from benchmarks.suites import registry
from gateway.store import catalogue, jobs, run_responses, runs
from tests.support.gateway.control_plane import STEREOSET, ControlPlane, control_plane, publish_suites

pytestmark = pytest.mark.asyncio(loop_scope="module")  # the process that makes pages lives as long as the loop

ASKED: dict[str, Any] = {"suites": ["stereoset"], "model": "qwen", "data": "embedded"}


async def start_one(plane: ControlPlane, **changes: Any) -> str:
    await publish_suites(plane)
    answer = await plane.http.post("/audits", json=ASKED | changes)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


async def finish(plane: ControlPlane, audit_id: str) -> None:
    """What an auditor does with a run, in short."""
    run = await runs.claim(plane.database, audit_id)
    assert run is not None
    await run_responses.append(
        plane.database, run, [("b", 0, "ok", '{"item_id":"b"}'), ("a", 0, "ok", '{"item_id":"a"}')]
    )
    await runs.heartbeat(plane.database, audit_id, 2, 2)
    await runs.finish(plane.database, audit_id, result='{"schema": 1}', report="<!doctype html><title>r</title>")


async def test_no_suites_before_an_auditor_reports(tmp_path: Path) -> None:
    """Without an auditor there is nothing to list and nothing to run, and the answer says what to do."""
    async with control_plane(tmp_path) as plane:
        listed = await plane.http.get("/suites")
        started = await plane.http.post("/audits", json=ASKED)
        await publish_suites(plane)
        published = (await plane.http.get("/suites")).json()

    assert (listed.status_code, started.status_code) == (503, 503)
    assert "biasgate auditor" in listed.json()["detail"]
    assert [(suite["name"], suite["items"]["embedded"]) for suite in published] == [("stereoset", 48)]


async def test_start_queues_a_run_and_a_job(tmp_path: Path) -> None:
    """An accepted audit is in the store with all its options, and an auditor is notified."""
    async with control_plane(tmp_path) as plane:
        audit_id = await start_one(plane, limit=5, seed=7)
        audit = (await plane.http.get(f"/audits/{audit_id}")).json()
        waiting = await jobs.payloads(plane.database, "run_suite")

    assert (audit["status"], audit["suite"], audit["model"]) == ("queued", "stereoset", "qwen")
    assert audit["options"] == {
        "suite": "stereoset",
        "model": "qwen",
        "mode": "sample",
        "protocol": "corrected",
        "data": "embedded",
        "limit": 5,
        "precision": None,
        "repeat_share": None,
        "seed": 7,
        "samples": 1,
        "mitigation": "none",
        "few_shot": 0,
        "subset": None,
        "axes": None,
        "temperature": None,
        "thinking": "default",
        "extra_body": None,
        "keep_reasoning": False,
        "judge_model": None,
        "concurrency": None,
    }
    assert waiting == [{"run_id": audit_id}]


async def test_of_all_suites_those_that_cannot_run_are_left_out(tmp_path: Path) -> None:
    """Built-in items stand in where no others exist; a suite without its data is named with what to do."""
    async with control_plane(tmp_path) as plane:
        built_in = STEREOSET | {"name": "decision", "items": {"embedded": 620}, "data": "built-in"}
        await catalogue.publish(plane.database, [STEREOSET, built_in])
        asked = ASKED | {"suites": "all", "data": "canonical"}
        accepted = (await plane.http.post("/audits", json=asked)).json()
        audit = (await plane.http.get(f"/audits/{accepted['id']}")).json()

    assert (audit["suite"], audit["options"]["data"]) == ("decision", "embedded")
    assert accepted["ids"].keys() == {"decision"}
    assert "biasgate datasets fetch stereoset" in accepted["left_out"]["stereoset"]


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"suites": ["stereset"]}, 'unknown suite "stereset" (did you mean "stereoset"?)'),
    ({"suites": []}, "suites is empty"),
    ({"model": "qwem"}, 'unknown model "qwem" (did you mean "qwen"?)'),
    ({"mode": "exact"}, 'mode "exact" is not offered; offered: sample'),
    ({"protocol": "release"}, 'protocol "release" is not offered'),
    ({"data": "canonical"}, "biasgate datasets fetch stereoset"),
    ({"precision": 1.0}, "precision"),
    ({"limit": 10**30}, "limit"),
    ({"samples": 1_000_000_000}, "<= 1000"),
    ({"mitigation": "detaild"}, '(did you mean "detailed"?)'),
    ({"mitigation": "/etc/hostname"}, "a text of your own only with biasgate audit run --mitigation FILE"),
    ({"mitigation_text": "Weigh."}, "unknown field `mitigation_text`"),
    ({"thinking": "of"}, 'thinking "of" is not known: write off, on, default or budget=N'),
    ({"thinking": "on", "mode": "exact"}, 'it needs "thinking": "off"'),
    ({"samples": 2, "mode": "exact"}, "samples must be 1, not 2"),
    ({"temperature": 0.5, "mode": "exact"}, "at the protocol's own temperature"),
    ({"few_shot": 2}, "stereoset: few_shot 2 is not offered; offered: 0"),
    ({"extra_body": {"min_p": 0.1, "n": 2}}, 'extra_body: "n" is set by the run itself: leave it out'),
    ({"extra_body": {"stop": "x" * 20_000}}, "longer than 16384 bytes as JSON"),
    ({"axes": ["gendr"]}, 'stereoset: axis "gendr" is not offered (did you mean "gender"?); offered: gender'),
    ({"sed": 3}, 'unknown field `sed` (did you mean "seed"?)'),
]


async def test_wrong_requests_say_what_to_do(tmp_path: Path) -> None:
    """Each mistake in a request is one problem line with the value and, where there is one, the nearest known word."""
    async with control_plane(tmp_path) as plane:
        await publish_suites(plane)
        for changes, words in WRONG:
            answer = await plane.http.post("/audits", json=ASKED | changes)
            assert answer.status_code == (409 if "data" in changes else 400), changes
            assert words in answer.json()["detail"]
        assert await runs.list_runs(plane.database) == []


@pytest.mark.parametrize("asked", [{"precision": 0.1}, {"repeat_share": 0.5}])
async def test_what_a_suite_with_follow_up_questions_cannot_do(tmp_path: Path, asked: dict[str, float]) -> None:
    """The API refuses early stops and repeats for cogs before it queues anything, and "all" leaves cogs out."""
    cogs = msgspec.to_builtins(next(one for one in registry.catalogue(tmp_path) if one.name == "cogs"))
    data = {"data": "embedded"} if "embedded" in cogs["items"] else {}
    async with control_plane(tmp_path) as plane:
        await catalogue.publish(plane.database, [STEREOSET, cogs])
        refused = await plane.http.post("/audits", json={"suites": "cogs", "model": "qwen"} | data | asked)
        queued = await runs.list_runs(plane.database)
        accepted = await plane.http.post("/audits", json=ASKED | {"suites": "all"} | asked)

    [field] = asked
    words = f"cogs: {field} is not offered: it makes further questions of its replies"
    assert (refused.status_code, refused.json()["detail"], queued) == (400, words, [])
    assert accepted.json()["left_out"] == {"cogs": words}


async def test_the_queue_has_an_end(tmp_path: Path) -> None:
    """A run too many is a 429 that says how many wait, and when to come back; nothing of it is queued."""
    async with control_plane(tmp_path, audits={"max_queued": 3}) as plane:
        await publish_suites(plane)
        answers = [await plane.http.post("/audits", json=ASKED) for _ in range(4)]
        first = answers[0].json()["id"]
        await plane.http.post(f"/audits/{first}/cancel")
        again = await plane.http.post("/audits", json=ASKED)

    assert [answer.status_code for answer in answers] == [202, 202, 202, 429]
    assert "3 suite runs wait and 1 would be added; audits.max_queued is 3" in answers[-1].json()["detail"]
    assert int(answers[-1].headers["retry-after"]) > 0
    assert again.status_code == 202


async def test_a_resumed_run_needs_room_too(tmp_path: Path) -> None:
    """Resuming is queueing: without room it is a 429, and the run stays as it was."""
    async with control_plane(tmp_path, audits={"max_queued": 1}) as plane:
        cancelled = await start_one(plane)
        await plane.http.post(f"/audits/{cancelled}/cancel")
        await start_one(plane)
        refused = await plane.http.post(f"/audits/{cancelled}/resume")
        after = (await plane.http.get(f"/audits/{cancelled}")).json()

    assert refused.status_code == 429
    assert "1 suite runs wait and 1 would be added; audits.max_queued is 1" in refused.json()["detail"]
    assert after["status"] == "cancelled"


async def test_list_filters(tmp_path: Path) -> None:
    """Audits can be filtered by model, suite and status, newest first."""
    async with control_plane(tmp_path) as plane:
        first, second = await start_one(plane), await start_one(plane)
        await plane.http.post(f"/audits/{first}/cancel")

        async def ids(**query: str) -> list[str]:
            return [audit["id"] for audit in (await plane.http.get("/audits", params=query)).json()]

        assert await ids() == [second, first]
        assert await ids(status="cancelled") == [first]
        assert await ids(model="other") == []
        assert (await plane.http.get("/audits", params={"status": "lost"})).status_code == 400


async def test_result_report_and_responses(tmp_path: Path) -> None:
    """A finished run gives its result, its report and its replies line by line."""
    async with control_plane(tmp_path) as plane:
        audit_id = await start_one(plane)
        await finish(plane, audit_id)
        result = await plane.http.get(f"/audits/{audit_id}/result")
        report = await plane.http.get(f"/audits/{audit_id}/report")
        responses = await plane.http.get(f"/audits/{audit_id}/responses")
        audit = (await plane.http.get(f"/audits/{audit_id}")).json()

    assert result.json() == {"schema": 1}
    assert report.headers["content-type"].startswith("text/html")
    assert report.text.startswith("<!doctype html>")
    assert [json.loads(line)["item_id"] for line in responses.text.splitlines()] == ["a", "b"]
    assert (audit["status"], audit["progress"]["done"], audit["progress"]["total"]) == ("done", 2, 2)


@pytest.mark.parametrize(
    ("is_queued", "status", "words"), [(True, 409, "it is queued"), (False, 404, '"nope"')], ids=["queued", "unknown"]
)
async def test_nothing_to_fetch_before_the_end(tmp_path: Path, *, is_queued: bool, status: int, words: str) -> None:
    """A run that is unfinished or unknown is a problem that says so."""
    async with control_plane(tmp_path) as plane:
        audit_id = await start_one(plane) if is_queued else "nope"
        paths = ["/result", "/report", "/gate?require=stereoset.ss.upper < 60"]
        for path in paths if is_queued else ["", "/events", "/responses", "/bundle", *paths]:
            answer = await plane.http.get(f"/audits/{audit_id}{path}")
            assert answer.status_code == status, path
            assert words in answer.json()["detail"]


async def test_events_end_with_the_run(tmp_path: Path) -> None:
    """The event stream of a finished run is one progress event and the end."""
    async with control_plane(tmp_path) as plane:
        audit_id = await start_one(plane)
        await finish(plane, audit_id)
        text = (await plane.http.get(f"/audits/{audit_id}/events")).text

    events = [dict(line.split(": ", 1) for line in block.splitlines()) for block in text.split("\r\n\r\n") if block]
    assert [event["event"] for event in events] == ["progress", "end"]
    assert json.loads(events[0]["data"])["progress"]["done"] == 2
    assert events[1]["data"] == "done"


async def test_cancel_and_resume(tmp_path: Path) -> None:
    """A queued run can be cancelled, a cancelled one resumed; each only once."""
    async with control_plane(tmp_path) as plane:
        audit_id = await start_one(plane)
        cancelled = await plane.http.post(f"/audits/{audit_id}/cancel")
        again = await plane.http.post(f"/audits/{audit_id}/cancel")
        resumed = await plane.http.post(f"/audits/{audit_id}/resume")
        running = await plane.http.post(f"/audits/{audit_id}/resume")

    assert (cancelled.status_code, cancelled.json()["status"]) == (200, "cancelled")
    assert again.status_code == 409
    assert (resumed.status_code, resumed.json()["status"]) == (202, "queued")
    assert running.status_code == 409
