"""What every reply of the control plane has: a header for browsers, and a line in the log where one is wanted."""

from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.support.gateway.control_plane import control_plane, publish_suites

SERVER = {
    "admin_key_env": "ADMIN_KEY",
    "control_keys": [{"name": "dashboard", "key_env": "VIEWER_KEY"}],
    "protect_metrics": True,
}
ADMIN, VIEWER, WRONG = ({"authorization": f"Bearer {key}"} for key in ("open-admin", "open-viewer", "wrong"))
RUN = {"suites": ["stereoset"], "model": "qwen", "data": "embedded"}


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADMIN_KEY", "open-admin")
    monkeypatch.setenv("VIEWER_KEY", "open-viewer")


async def test_no_reply_may_be_sniffed(tmp_path: Path) -> None:
    """Pages, files, numbers, errors of every kind: each says nosniff, once."""
    async with control_plane(tmp_path, server=SERVER) as plane:
        await publish_suites(plane)
        answers = {
            path: await plane.http.get(path, headers=ADMIN)
            for path in (
                *("/livez", "/readyz", "/metrics"),
                *("/console", "/console/login", "/console/static/live.js", "/console/none", "/console/session"),
                *("/suites", "/audits", "/audits/none", "/audits?limit=0", "/live/estimates", "/live/exchanges"),
                *("/annotations?format=csv", "/schema/openapi.json", "/nowhere"),
            )
        }
        answers["no key"] = await plane.http.get("/suites")
        answers["viewer"] = await plane.http.post("/audits", json=RUN, headers=VIEWER)
        answers["no scrape"] = await plane.http.get("/metrics")
        answers["method"] = await plane.http.put("/audits", headers=ADMIN)
        answers["type"] = await plane.http.post("/audits", content=b"{}", headers=ADMIN)
        async with plane.database.begin() as connection:
            await connection.exec_driver_sql("DROP TABLE streams")
        answers["broken"] = await plane.http.get("/live/estimates", headers=ADMIN)

    assert {200, 400, 401, 403, 404, 405, 415, 500} <= {answer.status_code for answer in answers.values()} | {500}
    assert answers["broken"].status_code >= 500
    lists = {name: answer.headers.get_list("x-content-type-options") for name, answer in answers.items()}
    assert {name: found for name, found in lists.items() if found != ["nosniff"]} == {}


async def test_a_report_can_run_nothing(tmp_path: Path) -> None:
    """It shows what models wrote, under the console's origin: no script of it runs, and nothing is loaded."""
    async with control_plane(tmp_path) as plane:
        await publish_suites(plane)
        run_id = (await plane.http.post("/audits", json=RUN)).json()["id"]
        async with plane.database.begin() as connection:
            await connection.exec_driver_sql("UPDATE runs SET status = 'done', report = '<script>1</script>'")
        answer = await plane.http.get(f"/audits/{run_id}/report")

    policy = answer.headers["content-security-policy"]
    assert "sandbox;" in policy
    assert "default-src 'none'" in policy
    assert "script" not in policy


def lines(logs: list[Any]) -> list[tuple[Any, ...]]:
    found = [one for one in logs if one["event"] == "control request"]
    return [(one["name"], one["role"], one["method"], one["path"], one["status"]) for one in found]


async def test_the_access_log_names_the_key(tmp_path: Path) -> None:
    """One line a control request: name, role, method, path and status; probes and the console's files have none."""
    async with control_plane(tmp_path, server=SERVER, telemetry={"access_log": True}) as plane:
        await publish_suites(plane)
        with capture_logs() as logs:
            await plane.http.get("/live/estimates?auditor=judge", headers=VIEWER)
            await plane.http.post("/audits", json=RUN, headers=VIEWER)
            await plane.http.post("/audits", json=RUN, headers=ADMIN)
            await plane.http.get("/suites", headers=WRONG)
            await plane.http.get("/suites", headers=ADMIN | {"origin": "http://evil.example"})
            for path in ("/livez", "/readyz", "/console/login", "/nowhere"):
                await plane.http.get(path)

    assert lines(logs) == [
        ("dashboard", "viewer", "GET", "/live/estimates", 200),
        ("dashboard", "viewer", "POST", "/audits", 403),
        ("admin", "admin", "POST", "/audits", 202),
        (None, None, "GET", "/suites", 401),
        (None, None, "GET", "/suites", 403),
    ]


async def test_what_changes_something_is_logged_anyway(tmp_path: Path) -> None:
    """Without the access log a console that polls writes no line, and whoever starts a run writes one."""
    async with control_plane(tmp_path, server=SERVER) as plane:
        await publish_suites(plane)
        with capture_logs() as logs:
            await plane.http.get("/live/estimates", headers=VIEWER)
            await plane.http.post("/audits", json=RUN, headers=ADMIN)

    assert lines(logs) == [("admin", "admin", "POST", "/audits", 202)]
