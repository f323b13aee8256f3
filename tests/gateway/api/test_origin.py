"""What a browser was made to send does not reach the control plane, with or without a control key."""

from pathlib import Path

import pytest

from tests.support.gateway.control_plane import control_plane, publish_suites

RUN = {"suites": ["stereoset"], "model": "qwen", "data": "embedded"}


async def test_a_page_of_another_origin_is_refused(tmp_path: Path) -> None:
    """It can neither start a run nor read anything; the line says what to do for a page of one's own."""
    async with control_plane(tmp_path) as plane:
        await publish_suites(plane)
        for origin in ("http://evil.example", "http://localhost:3000", "null", "https://[::1", "x"):
            start = await plane.http.post("/audits", json=RUN, headers={"origin": origin})
            read = await plane.http.get("/live/estimates", headers={"origin": origin})
            assert (start.status_code, read.status_code) == (403, 403), origin
            assert "server.allowed_hosts" in start.json()["detail"]


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


async def test_a_rebound_name_is_refused_while_no_key_protects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that was made to point here is not ours; with a key it cannot matter. Health and metrics stay open."""
    hosts = ("evil.example", "evil.example:8080", "[::1", "169.254.1.1", "localhost.evil.example")
    async with control_plane(tmp_path) as plane:
        for host in hosts:
            refused = await plane.http.get("/live/estimates", headers={"host": host})
            assert refused.status_code == 403, host
            assert "server.admin_key_env" in refused.json()["detail"]
            for path in ("/livez", "/metrics"):
                assert (await plane.http.get(path, headers={"host": host})).status_code == 200
    monkeypatch.setenv("TEST_ADMIN_KEY", "sesame")
    async with control_plane(tmp_path, server={"admin_key_env": "TEST_ADMIN_KEY"}) as plane:
        for host in hosts:
            headers = {"host": host, "authorization": "Bearer sesame"}
            assert (await plane.http.get("/live/estimates", headers=headers)).status_code == 200


async def test_a_body_is_json_or_nothing(tmp_path: Path) -> None:
    """What a form or a page can send without being asked is a 415."""
    forms = ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/json")
    async with control_plane(tmp_path) as plane:
        await publish_suites(plane)
        for headers in ({}, *({"content-type": form} for form in forms)):
            answer = await plane.http.post("/audits", content=b'{"suites": "all", "model": "qwen"}', headers=headers)
            assert answer.status_code == 415, headers
            assert "application/json" in answer.json()["detail"]


async def test_a_body_that_cannot_be_read(tmp_path: Path) -> None:
    """What is no UTF-8 or nested too deeply is one line and a 400, not a fault of ours."""
    bodies = [b'{"su\xe9tes": []}', '{"suites": []}'.encode("utf-16")]
    bodies += [b"[" * 200_000, b'{"suites": ' + b"[" * 200_000, b'{"a":' * 100_000]
    async with control_plane(tmp_path) as plane:
        for body in bodies:
            answer = await plane.http.post("/audits", content=body, headers={"content-type": "application/json"})
            assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json")
            assert "\n" not in answer.json()["detail"]
