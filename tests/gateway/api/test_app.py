"""What the gateway itself answers: health, its own paths, the console and errors."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.config.schema import OWN_PATHS, Config
from tests.support.gateway.control_plane import control_plane


async def test_own_paths_are_known_to_the_configuration(tmp_path: Path) -> None:
    """The first segment of each route is one that no configuration can have relayed."""
    async with control_plane(tmp_path) as plane:
        assert {route.path.split("/")[1] for route in plane.app.routes} - {""} == OWN_PATHS


async def test_readiness_names_its_checks(tmp_path: Path) -> None:
    """An upstream that is down makes the gateway not ready, and the check says which."""
    async with control_plane(tmp_path) as plane:
        answer = await plane.http.get("/readyz")
        plane.dataplane.upstreams[0].mark_up()
        again = await plane.http.get("/readyz")

    assert answer.status_code == 503
    assert answer.json()["checks"]["store"] == "ok"
    assert "up" in answer.json()["checks"]["upstreams"]
    assert (again.status_code, again.json()["status"]) == (200, "ready")


async def test_unknown_path_is_a_problem(tmp_path: Path) -> None:
    """A path that does not exist is a 404 in the shape of every other error."""
    async with control_plane(tmp_path) as plane:
        answer = await plane.http.get("/nothing")

    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["title"] == "Not Found"


async def test_console_needs_nothing_from_elsewhere(tmp_path: Path) -> None:
    """The page's policy allows its own files only, and the page asks for no other; the bare address leads to it."""
    async with control_plane(tmp_path) as plane:
        bare = await plane.http.get("/")
        page = await plane.http.get("/console")
        missing = await plane.http.get("/console/static/secrets.txt")
        settings = await plane.http.get("/console/settings")
        login = await plane.http.get("/console/login")
        lost = await plane.http.get("/console/nothing", headers={"accept": "text/html"})

    assert (bare.status_code, bare.headers["location"]) == (302, "/console")
    assert all(f">{name.replace('_', ' ')}</th>" in settings.text for name in Config().auditors.sections)
    assert "server.admin_key_env" in login.text
    assert (lost.status_code, "There is no page at this address." in lost.text) == (404, True)
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "http://" not in page.text.replace("(http://127.0.0.1:9)", "")  # the address of the upstream that is down
    assert "https://" not in page.text
    assert "style=" not in page.text
    assert missing.status_code == 404


async def test_unexpected_errors_stay_inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mistake of ours is a 500 problem without a word of what was inside."""

    async def fail(*_: object) -> None:
        raise KeyError("a secret")

    monkeypatch.setattr("gateway.store.streams.page", fail)
    async with control_plane(tmp_path) as plane:
        answer = await plane.http.get("/live/estimates")

    assert answer.status_code == 500
    assert json.loads(answer.text)["detail"] == "internal error; the gateway's log says more"


def test_the_gateway_starts_without_the_heavy_libraries() -> None:
    """Importing the worker loads neither numpy nor torch, no benchmark and no tracing: that is what keeps it small."""
    program = "import sys, gateway.processes.worker; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()

    heavy = {"numpy", "scipy", "torch", "sentence_transformers", "benchmarks", "alembic"}
    assert not (heavy | {"opentelemetry", "google.protobuf", "requests"}) & set(loaded)
