"""What a browser was made to send does not reach the control plane, with or without a control key."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.gateway.control_plane import control_plane, publish_suites

RUN = {"suites": ["stereoset"], "model": "qwen", "data": "embedded"}


@pytest.fixture
def locked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setenv("TEST_ADMIN_KEY", "sesame")
    return {"server": {"admin_key_env": "TEST_ADMIN_KEY"}}


@pytest.mark.parametrize("origin", ["http://evil.example", "http://localhost:3000", "null", "https://[::1", "x"])
async def test_a_page_of_another_origin_is_refused(tmp_path: Path, origin: str) -> None:
    """It can neither start a run nor read anything; the line says what to do for a page of one's own."""
    async with control_plane(tmp_path) as plane:
        await publish_suites(plane)
        asked = await plane.http.post("/audits", json=RUN, headers={"origin": origin})
        read = await plane.http.get("/live/estimates", headers={"origin": origin})

    assert (asked.status_code, read.status_code) == (403, 403)
    assert "server.allowed_hosts" in asked.json()["detail"]


async def test_pages_of_its_own_and_of_allowed_hosts_may_call(tmp_path: Path) -> None:
    """The console's page, and one whose host is listed, on any port."""
    async with control_plane(tmp_path, server={"allowed_hosts": ["Bias.Example"]}) as plane:
        statuses = [
            (await plane.http.get("/live/estimates", headers={"host": host, "origin": origin})).status_code
            for host, origin in (
                ("localhost:8080", "http://localhost:8080"),
                ("[::1]:8080", "http://[::1]:8080"),
                ("bias.example", "https://bias.example"),
                ("127.0.0.1:8080", "https://bias.example:8443"),
            )
        ]

    assert statuses == [200] * 4


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8080", "[::1", "169.254.1.1", "localhost.evil.example"])
async def test_a_rebound_name_is_refused_while_no_key_protects(
    tmp_path: Path, host: str, locked: dict[str, Any]
) -> None:
    """A name that was made to point here is not ours; with a key it cannot matter. Health and metrics stay open."""
    async with control_plane(tmp_path) as plane:
        refused = await plane.http.get("/live/estimates", headers={"host": host})
        open_ = [(await plane.http.get(path, headers={"host": host})).status_code for path in ("/livez", "/metrics")]
    async with control_plane(tmp_path, **locked) as plane:
        headers = {"host": host, "authorization": "Bearer sesame"}
        with_key = await plane.http.get("/live/estimates", headers=headers)

    assert (refused.status_code, open_, with_key.status_code) == (403, [200, 200], 200)
    assert "server.admin_key_env" in refused.json()["detail"]


@pytest.mark.parametrize(
    "kind", [None, "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/json"]
)
async def test_a_body_is_json_or_nothing(tmp_path: Path, kind: str | None) -> None:
    """What a form or a page can send without being asked is a 415."""
    async with control_plane(tmp_path) as plane:
        await publish_suites(plane)
        headers = {} if kind is None else {"content-type": kind}
        answer = await plane.http.post("/audits", content=b'{"suites": "all", "model": "qwen"}', headers=headers)

    assert answer.status_code == 415
    assert "application/json" in answer.json()["detail"]


@pytest.mark.parametrize("body", [b'{"su\xe9tes": []}', '{"suites": []}'.encode("utf-16")])
async def test_a_body_that_is_not_utf_8(tmp_path: Path, body: bytes) -> None:
    """One line that says so and a 400, not a fault of ours; the byte is named."""
    async with control_plane(tmp_path) as plane:
        answer = await plane.http.post("/audits", content=body, headers={"content-type": "application/json"})

    assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json")
    assert "\n" not in answer.json()["detail"]


@pytest.mark.parametrize("body", [b"[" * 200_000, b'{"suites": ' + b"[" * 200_000, b'{"a":' * 100_000])
async def test_a_body_that_is_nested_too_deeply(tmp_path: Path, body: bytes) -> None:
    """One line and a 400."""
    async with control_plane(tmp_path) as plane:
        answer = await plane.http.post("/audits", content=body, headers={"content-type": "application/json"})

    assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json")
