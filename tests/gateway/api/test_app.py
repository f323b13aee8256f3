"""What the gateway itself answers: keys, health, metrics, its description, the console and errors."""

import asyncio
import contextlib
import json
import subprocess
import sys
import threading
from pathlib import Path

import msgspec
import pytest

from gateway.config.schema import OWN_PATHS
from gateway.errors import ConfigError
from gateway.proxy.types import SamplingRequest
from tests.support.gateway.control_plane import config_in, control_plane, publish_suites

OPEN = ["/livez", "/readyz", "/metrics", "/console/login", "/console/labelling", "/console/static/style.css"]
GUARDED = [
    "/suites",
    "/audits",
    "/audits/x",
    "/live/estimates",
    "/live/alarms",
    "/live/ledger",
    "/live/exchanges",
    "/schema/openapi.json",
]


@pytest.fixture
def admin_key(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("TEST_ADMIN_KEY", "sesame")
    return "sesame"


LOCKED = {"server": {"admin_key_env": "TEST_ADMIN_KEY"}}


@pytest.mark.usefixtures("admin_key")
@pytest.mark.parametrize("path", GUARDED)
async def test_guarded_routes_want_the_admin_key(tmp_path: Path, path: str) -> None:
    """Without the key, or with a wrong one, a control route is a 401 problem that says how to send it."""
    async with control_plane(tmp_path, **LOCKED) as plane:
        without = await plane.http.get(path)
        wrong = await plane.http.get(path, headers={"authorization": "Bearer no"})

        assert (without.status_code, wrong.status_code) == (401, 401)
        assert without.headers["content-type"] == "application/problem+json"
        assert without.headers["www-authenticate"] == 'Bearer realm="biasgate"'
        assert "Authorization: Bearer" in without.json()["detail"]


async def test_own_paths_are_known_to_the_configuration(tmp_path: Path) -> None:
    """The first segment of each route is one that no configuration can have relayed."""
    async with control_plane(tmp_path) as plane:
        assert {route.path.split("/")[1] for route in plane.app.routes} - {""} == OWN_PATHS


@pytest.mark.usefixtures("admin_key")
async def test_open_routes_and_the_right_key(tmp_path: Path) -> None:
    """Health, metrics and the console's files are open; the key opens the rest."""
    async with control_plane(tmp_path, **LOCKED) as plane:
        await publish_suites(plane)
        answers = {path: (await plane.http.get(path)).status_code for path in OPEN}
        headers = {"authorization": "Bearer sesame"}
        opened = {path: (await plane.http.get(path, headers=headers)).status_code for path in GUARDED}

    assert answers == {path: 503 if path == "/readyz" else 200 for path in OPEN}
    assert opened == {path: 404 if path == "/audits/x" else 200 for path in GUARDED}


async def test_missing_admin_key_is_refused_at_start(tmp_path: Path) -> None:
    """An admin key that is named but not set stops the start with the variable's name."""
    with pytest.raises(ConfigError, match="TEST_UNSET_KEY"):
        async with control_plane(tmp_path, server={"admin_key_env": "TEST_UNSET_KEY"}):
            pass


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


async def test_unready_database_is_named(tmp_path: Path) -> None:
    """A database that cannot be read shows up as its own check."""
    async with control_plane(tmp_path) as plane:
        await plane.database.close()
        _replace_by_a_directory(tmp_path / "biasgate.db")
        answer = await plane.http.get("/readyz")
        await asyncio.to_thread(_wait_for_drivers_threads)

    assert answer.status_code == 503
    assert answer.json()["checks"]["store"].startswith("store sqlite:///")


def _wait_for_drivers_threads() -> None:
    """After a failed connect the driver's thread still reports to the event loop, which must not be closed by then."""
    for thread in threading.enumerate():
        if "_connection_worker_thread" in thread.name:
            thread.join(10)


def _replace_by_a_directory(file: Path) -> None:
    """Try again where a reader of the control plane creates the file between the two steps."""
    for _ in range(100):
        file.unlink(missing_ok=True)
        with contextlib.suppress(FileExistsError):
            file.mkdir()
            return
    raise AssertionError(f"{file} is created at each try")


async def test_unknown_path_is_a_problem(tmp_path: Path) -> None:
    """A path that does not exist is a 404 in the shape of every other error."""
    async with control_plane(tmp_path) as plane:
        answer = await plane.http.get("/nothing")

    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["title"] == "Not Found"


async def test_metrics_carry_the_gateways_families(tmp_path: Path) -> None:
    """A scrape shows upstream health, sampling rates, models and the tap's counts."""
    async with control_plane(tmp_path, sampling={"rate": 0.25}) as plane:
        plane.tap.decide(SamplingRequest("r", eligible=False))
        text = (await plane.http.get("/metrics")).text

    assert 'biasgate_upstream_up{upstream="up"} 0.0' in text
    assert 'biasgate_sampling_rate{stratum="other"} 0.25' in text
    assert 'model="qwen"' in text
    assert 'biasgate_exchanges_total{outcome="filtered"} 1.0' in text


async def test_workers_leave_their_counts_behind(tmp_path: Path) -> None:
    """With a shared directory a worker's last numbers are there for the others after it has ended."""
    async with control_plane(tmp_path, server={"metrics_dir": str(tmp_path / "counts")}) as plane:
        plane.stats.started("up")
    left = [msgspec.msgpack.decode(path.read_bytes()) for path in (tmp_path / "counts").glob("*.msgpack")]

    assert [snapshot["gauges"]["inflight"] for snapshot in left] == [{"up": 1}]


async def test_openapi_describes_the_control_plane(tmp_path: Path) -> None:
    """The schema lists every public route, and the data plane is none of them."""
    async with control_plane(tmp_path) as plane:
        schema = (await plane.http.get("/schema/openapi.json")).json()

    assert {"/audits", "/audits/{audit_id}", "/suites", "/live/estimates", "/readyz", "/metrics"} <= set(
        schema["paths"]
    )
    assert not [path for path in schema["paths"] if path.startswith(("/v1", "/console/{"))]


async def test_console_needs_nothing_from_elsewhere(tmp_path: Path) -> None:
    """The page's policy allows its own files only, and the page asks for no other; the bare address leads to it."""
    async with control_plane(tmp_path) as plane:
        bare = await plane.http.get("/")
        page = await plane.http.get("/console")
        missing = await plane.http.get("/console/static/secrets.txt")

    assert (bare.status_code, bare.headers["location"]) == (302, "/console")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "http://" not in page.text
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


def test_the_gateway_starts_without_the_heavy_libraries(tmp_path: Path) -> None:
    """Importing the worker loads neither numpy nor torch, no benchmark and no tracing: that is what keeps it small."""
    program = "import sys, gateway.processes.worker; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()

    assert config_in(tmp_path).upstreams
    heavy = {"numpy", "scipy", "torch", "sentence_transformers", "benchmarks", "alembic"}
    assert not (heavy | {"opentelemetry", "google.protobuf", "requests"}) & set(loaded)
