"""A viewer reads numbers and names: a word that is planted in every text of the store comes out of no route to one."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa

from auditors.audit_texts import Reason
from auditors.labelling.tasks import Origin, Task
from benchmarks.reporting import report
from benchmarks.run import directory as run_directory
from benchmarks.run.result import Result
from gateway.api.route_access import Audience, all_routes
from gateway.features.fingerprints import finished_runs
from gateway.features.labelling import labels, projects
from gateway.store import runs, tables
from tests.support.benchmarks.scripted import pick, write_run
from tests.support.gateway.control_plane import ControlPlane, control_plane, drifted
from tests.support.gateway.finished_runs import finished
from tests.support.store.made import left_beside

ROUTES = all_routes()

WORD = "xyloquartz"
"""Occurs in no text of ours."""
FIELDS = {"chat_template": f"{WORD} in extra_body"}
ALIASES = {"other": "qwen"}
SERVER: dict[str, Any] = {
    "admin_key_env": "TEXT_ADMIN",
    "control_keys": [{"name": "dashboard", "key_env": "TEXT_VIEWER", "role": "viewer"}],
}
ADMIN, VIEWER = ({"authorization": f"Bearer {name}-secret"} for name in ("admin", "viewer"))
READ = [route for route in ROUTES if route[0] == "GET" and ROUTES[route] is not Audience.SENDER]
TEXT = {
    *("/audits", "/audits/{audit_id}", "/audits/{audit_id}/events", "/audits/{audit_id}/report"),
    *("/audits/{audit_id}/result", "/audits/{audit_id}/items", "/audits/{audit_id}/responses"),
    *("/audits/{audit_id}/bundle", "/audits/compare", "/audits/compare/report", "/schedules"),
    *("/schedules/{schedule_id}", "/live/alarms/acknowledgements", "/live/exchanges", "/live/exchanges/{exchange_id}"),
    *("/live/exchanges/compare", "/annotations", "/labelling/projects/{project}/labels"),
    *("/labelling/projects/{project}/disputes", "/labelling/projects/{project}/tasks/{task}"),
    *("/console/alarms", "/console/alarms/{stream_id}", "/console/audits", "/console/audits/{audit_id}"),
    *("/console/audits/{audit_id}/items", "/console/audits/compare", "/console/exchanges"),
    "/console/exchanges/{exchange_id}",
}
"""Routes by which an administrator finds the word: it was planted where it would be seen."""
OPENED = {Audience.EVERYBODY, Audience.VIEWER, Audience.VISITOR}
"""Where the links of a page may lead a viewer."""


@pytest.fixture(autouse=True)
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEXT_ADMIN", "admin-secret")
    monkeypatch.setenv("TEXT_VIEWER", "viewer-secret")


def run_with_text(path: Path, role: str) -> Path:
    """Make a run directory whose replies, extra fields and report have the word in them."""
    write_run(path, lambda item: pick(role)(item) if sum(item.item_id.encode()) % 3 else f"{WORD} {role} in a reply")
    result = run_directory.read_result(path)
    assert isinstance(result, Result)
    result = msgspec.structs.replace(result, extra_body=FIELDS | {"of": role})
    run_directory.finish(path, result, report.render([result]))
    return path


async def plant(plane: ControlPlane, tmp_path: Path) -> list[dict[str, str]]:
    """Put the word into every text that the store keeps; return values for the parameters of paths and queries."""
    database, http = plane.database, plane.http
    await drifted(plane, text=f"{WORD} in a prompt")
    for exchange_id in ("exchange-3", "exchange-59"):
        await left_beside(database, exchange_id, "judge", Reason(text=f"{WORD} in a judge's reason"))
    scored = {"exchange_id": "exchange-3", "auditor": "judge", "axis": "gender", "group": "men", "reference": "women"}
    noted = {"value": 1, "annotator": "ann", "note": f"{WORD} in a note"}
    (await http.post("/annotations", json=scored | noted)).raise_for_status()
    [alarm] = (await http.get("/live/alarms")).json()
    lowered = {"at": 1.0, "stream": alarm["stream"], "by_whom": f"{WORD} in a name", "reason": f"{WORD} in a reason"}
    async with database.begin() as connection:
        await connection.execute(sa.insert(tables.acknowledgements).values(lowered | {"accept_new_level": False}))

    shown = {"question": f"{WORD} in a question", "text": f"{WORD} in a text", "statement": f"{WORD} in a statement"}
    task = Task(id="t0", form="essay", shown=shown, origin=Origin(group="man"))
    await projects.add(database, projects.made_now("p", "essay", 2, {}), [task])
    for level, rater in enumerate(("ann", "bo")):
        essay = {"introduction": level, "biased_reasons": 0, "conclusion": level, "note": f"{WORD} in a label's note"}
        await labels.save(database, "p", "t0", rater, essay, 0)

    done = [
        await finished(plane, run_with_text(tmp_path / role, role), model=model, extra_body=FIELDS | {"of": role})
        for role, model in (("stereotype", "qwen"), ("anti-stereotype", "other"))
    ]
    own = {"suites": "prompts", "model": "qwen", "samples": 2, "prompts": f'{{"prompt": "{WORD} in an own prompt"}}'}
    failed = str((await http.post("/audits", json=own)).json()["id"])
    await runs.claim(database, failed)
    await runs.fail(database, failed, f'the server answered 400: "{WORD} in an error"')
    weekly = {"name": "weekly", "cron": "0 3 * * 1", "suites": ["stereoset"], "model": "qwen", "data": "embedded"}
    schedule = (await http.post("/schedules", json=weekly | {"extra_body": FIELDS})).json()["id"]
    fixed = {"stream_id": alarm["stream"], "schedule_id": schedule, "project": "p", "task": "t0", "suite": "stereoset"}
    exchange = {"exchange_id": "exchange-59", "a": done[0], "b": done[1]}
    return [fixed | exchange | {"audit_id": audit_id} for audit_id in (*done, failed)]


QUERIES = {
    "/audits/compare": "a={a}&b={b}",
    "/audits/compare/report": "a={a}&b={b}",
    "/console/audits/compare": "a={a}&b={b}",
    "/audits/{audit_id}/gate": "require=stereoset.ss.upper < 60",
    "/live/exchanges/compare": "stream={stream_id}",
    "/console/exchanges": "auditor=judge",
    "/labelling/projects/{project}/tasks/{task}": "rater=ann",
}


async def answers(plane: ControlPlane, values: list[dict[str, str]], key: dict[str, str]) -> dict[str, list[bytes]]:
    """Return what each route answers to a key, once for each run where its path names one."""
    found: dict[str, list[bytes]] = {}
    for _, path in READ:
        address = f"{path}?{QUERIES.get(path, '')}"
        known = {name: name for name in ("canary_id", "digest", "name", "path")}
        asked = dict.fromkeys(address.format(**{**known, **ids}) for ids in values)
        found[path] = [(await plane.http.get(one, headers=key)).content for one in asked]
    return found


def led_to(page: bytes) -> set[str]:
    """Return the paths of the table to which the links of a page lead."""
    patterns = {path: re.compile(re.sub(r"\{\w+\}", "[^/]+", path)) for _, path in READ}
    found = set()
    for link in set(re.findall(r'href="(/[^"#?]*)', page.decode())):
        [*matching] = [path for path, pattern in patterns.items() if pattern.fullmatch(link)]
        found.add(min(matching, key=lambda path: path.count("{")))  # "/audits/compare" is no audit
    return found


async def test_no_route_tells_a_viewer_a_word_of_text(tmp_path: Path) -> None:
    """No GET route shows a viewer any text, and no page links a viewer to what only an administrator may open."""
    async with control_plane(tmp_path, server=SERVER, drift={"average_run_length": 20}, aliases=ALIASES) as plane:
        plane.http.headers.update(ADMIN)
        values = await plant(plane, tmp_path)
        to_admin = await answers(plane, values, ADMIN)
        to_viewer = await answers(plane, values, VIEWER)
        to_viewer["/console/fingerprints/suites"].append(await finished_runs.encode(plane.dataplane.config))

    def with_word(told: Mapping[str, list[bytes]]) -> set[str]:
        return {path for path, bodies in told.items() if any(WORD.encode() in body for body in bodies)}

    assert with_word(to_admin) >= TEXT
    assert with_word(to_viewer) == set()
    for path, bodies in to_viewer.items():
        if path.startswith("/console") and path != "/console/labelling":
            audiences = {ROUTES["GET", linked] for body in bodies for linked in led_to(body)}
            assert audiences <= OPENED, path
    assert b"rows differ in extra body" in to_viewer["/console/fingerprints/suites"][-1]
