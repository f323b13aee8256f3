"""Runs of MLflow made from results, read back by MLflow's own client from a store of its own."""

import asyncio
import hashlib
import importlib
import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from auditors.types import Estimate
from benchmarks.errors import BenchmarkError
from benchmarks.reporting.headline import totals
from benchmarks.run import directory
from benchmarks.run.result import Result
from gateway.features.formats import mlflow_runs
from tests.support.benchmarks.serving import answering
from tests.support.commands import command, scored

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("mlflow") is None, reason="mlflow-skinny is not installed: make venv"
)

READ = """
import json, sys
from pathlib import Path
from mlflow import MlflowClient
client = MlflowClient(tracking_uri=sys.argv[1])
found = client.get_experiment_by_name(sys.argv[2])
runs = client.search_runs([found.experiment_id]) if found else []
print(json.dumps([
    {"name": run.info.run_name, "status": run.info.status, "start": run.info.start_time, "end": run.info.end_time,
     "metrics": run.data.metrics, "params": run.data.params, "tags": run.data.tags,
     "artifacts": {one.path: Path(client.download_artifacts(run.info.run_id, one.path)).read_text()
                   for one in client.list_artifacts(run.info.run_id)}}
    for run in runs
]))
"""
"""A process of its own: MLflow sets signal handlers, environment and warnings of a whole process."""


def read(uri: str, experiment: str = "biasgate") -> list[dict[str, Any]]:
    environ = os.environ | {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_ALLOW_FILE_STORE": "true"}
    made = subprocess.run([sys.executable, "-c", READ, uri, experiment], env=environ, capture_output=True, check=True)
    found: list[dict[str, Any]] = json.loads(made.stdout)
    return found


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A finished run, and the working directory in which MLflow puts the artifacts of an SQLite store."""
    path = scored(tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return path


def changed(path: Path, **changes: object) -> Result:
    """Rewrites the result of a run."""
    result = msgspec.structs.replace(directory.read_result(path), **changes)
    directory.finish(path, result, "<p>page</p>")
    return result


def expected_metrics(result: Result) -> dict[str, float]:
    found: dict[str, float] = {f"replies/{status}": count for status, count in result.counts.items()}
    for one in totals(result):
        name = f"{one.metric}/{one.axis or 'all'}"
        known = {"": one.value, ".lower": one.lower, ".upper": one.upper, ".n": one.n, ".n_excluded": one.n_excluded}
        found |= {f"{name}{end}": value for end, value in known.items() if value is not None}
    return found


@pytest.mark.long
async def test_what_was_logged_is_read_back(run: Path, tmp_path: Path) -> None:
    """MLflow reads back each number, n, reason and both files, once per result, without any connection."""
    result = changed(run, temperature=0.5, extra_body={"top_k": 3})
    content = (run / "result.json").read_bytes()
    uri = f"sqlite:///{tmp_path}/store.db"
    export = ("audit", "export", str(run), "--to", "mlflow", "--tracking-uri", uri, "--experiment", "bias of m")
    first, second = (await asyncio.to_thread(without_network_twice, *export)).splitlines(keepends=True)
    gone, bare = undefine(run)
    _, third, _ = await command(*export)
    by_number = {len(one["metrics"]): one for one in await asyncio.to_thread(read, uri, "bias of m")}
    found, other = by_number[max(by_number)], by_number[min(by_number)]

    assert first == f"stereoset: run {first.split()[2][:-1]}: {len(found['metrics'])} metrics, 0 numbers undefined\n"
    assert second == f"{first.split(':')[0]}:{first.split(':')[1]}: was there already\n"
    assert third.endswith(", 1 numbers undefined\n")
    assert len(by_number) == 2
    assert found["metrics"] == expected_metrics(result)
    assert len(found["metrics"]) > 50
    assert found["params"].items() >= {
        ("suite", "stereoset"),
        ("suite_version", result.suite_version),
        ("model", result.model),
        ("temperature", "0.5"),
        ("extra_body", '{"top_k":3}'),
        ("data_sha256", result.dataset.sha256),
        ("prompt_sha256", result.provenance.prompt_sha256),
    }
    assert found["tags"]["biasgate.result_sha256"] == hashlib.sha256(content).hexdigest()
    assert found["tags"]["biasgate.version"] == result.provenance.biasgate
    assert "biasgate's own" in found["tags"]["biasgate.not_comparable"]
    assert found["artifacts"] == {"report.html": "<p>page</p>", "result.json": content.decode()}
    assert (found["name"], found["status"]) == (f"stereoset {result.model}", "FINISHED")

    assert {name for name in other["metrics"] if name.split(".")[0] == gone} == {f"{gone}.n", f"{gone}.n_excluded"}
    assert other["tags"][f"undefined.{gone}"] == "no reply | at all"
    assert bare in other["metrics"]
    assert f"{bare}.lower" not in other["metrics"]
    assert other["tags"][f"no_interval.{bare}"] == "one cluster"


def undefine(run: Path) -> tuple[str, str]:
    """Rewrites the result so that a number is undefined and one has no interval; returns their names in MLflow."""
    result = directory.read_result(run)
    first, second = totals(result)[:2]
    rest = [one for one in result.estimates if one not in (first, second)]
    gone = msgspec.structs.replace(first, value=None, lower=None, upper=None, n=0, reason="no reply | at all")
    bare = msgspec.structs.replace(second, lower=None, upper=None, reason="one cluster")
    changed(run, estimates=[gone, bare, *rest])
    return f"{gone.metric}/{gone.axis or 'all'}", f"{bare.metric}/{bare.axis or 'all'}"


AUDITED = """
import sys
def seen(event, arguments):
    if event in ("socket.getaddrinfo", "socket.connect", "socket.sendto"):
        print("NETWORK", event, arguments, file=sys.stderr)
sys.addaudithook(seen)
from gateway.__main__ import main
sys.exit(main(sys.argv[1:]) or main(sys.argv[1:]))
"""


def without_network_twice(*arguments: str) -> str:
    """Return what a command prints that runs twice; fail where it, or MLflow's telemetry, opens a connection."""
    root = Path(__file__).parents[4]
    hushes = ("CI", "GITHUB_ACTIONS", "PYTEST_CURRENT_TEST", "DO_NOT_TRACK", "MLFLOW_DISABLE_TELEMETRY")
    environ = {name: value for name, value in os.environ.items() if name not in hushes} | {"PYTHONPATH": str(root)}
    made = subprocess.run([sys.executable, "-c", AUDITED, *arguments], env=environ, capture_output=True, text=True)
    assert (made.returncode, made.stderr) == (0, "")
    return made.stdout


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let MLflow's client in this process try once."""
    for name, value in {**mlflow_runs._DEFAULTS, "HTTP_REQUEST_MAX_RETRIES": "0"}.items():
        monkeypatch.setenv(f"MLFLOW_{name}", value)


@pytest.mark.usefixtures("hasty")
def test_a_server_that_refuses_is_one_line(run: Path) -> None:
    """The line names the server, and no secret."""
    with pytest.raises(BenchmarkError, match=r"^MLflow: API request to http://[^\n]*$") as refused:
        mlflow_runs.log([run], "http://user:secret@127.0.0.1:9", "e")
    assert "secret" not in str(refused.value)


@pytest.mark.usefixtures("hasty")
def test_a_server_that_never_answers_costs_seconds(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line says so within the limit of one call."""
    monkeypatch.setattr(mlflow_runs, "CALL_SECONDS", 0.2)
    silence = r"http://\*\*\*@127\.0\.0\.1:\d+ gives no answer within 0\.2 s"
    with answering(lambda _: time.sleep(1.0)) as url, pytest.raises(BenchmarkError, match=silence):
        mlflow_runs.log([run], url.replace("://", "://user:secret@"), "e")


def test_strange_names(run: Path) -> None:
    """Each number of a strangely named axis or group has its own MLflow name, cut or hashed where it is long."""
    rules: Any = importlib.import_module("mlflow.utils.validation")
    place = ["a/b", "a:b", "..", "", "a.b", "x" * 400, "x" * 401, "é\n☃", " "]
    estimates = [Estimate(metric="m", axis=axis, value=float(at), n=at) for at, axis in enumerate(place)]
    estimates += [Estimate(metric="u", axis=axis, value=None, n=0, reason="r" * 9000) for axis in place]
    result = changed(run, estimates=estimates, extra_body={"a": "y" * 9000}, model="z" * 9000)
    found = mlflow_runs.record(result)
    for name in found.metrics:
        rules._validate_metric_name(name)
    for name, value in found.params.items():
        rules._validate_param(name, value)
        assert len(value) <= 500
    for name, value in found.tags.items():
        rules._validate_tag(name, value)
        assert len(value) <= 5000
    values = [value for name, value in found.metrics.items() if name.startswith("m/") and not name.endswith(("n", "d"))]
    assert values == [float(at) for at in range(len(place))]
    assert sum(name.startswith("undefined.u/") for name in found.tags) == len(place)
    assert found.params["extra_body"].startswith("sha256:")
