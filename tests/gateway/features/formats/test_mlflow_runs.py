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
from unittest.mock import MagicMock

import msgspec
import pytest

from auditors.types import Estimate
from benchmarks.errors import BenchmarkError
from benchmarks.reporting.totals import totals
from benchmarks.run import directory
from benchmarks.run.result import Result
from gateway.__main__ import main
from gateway.features.formats import mlflow_runs
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


async def test_what_was_logged_is_read_back(run: Path, tmp_path: Path) -> None:
    """MLflow's client finds every number with interval and counts, how it was asked, and both files, as they are. The
    same result is logged once and a changed one is another run; an undefined number is no metric, neither 0 nor NaN:
    its n is, and a tag has the reason. So has a number without an interval. Nothing opens a connection.
    """
    result = changed(run, temperature=0.5, extra_body={"top_k": 3})
    content = (run / "result.json").read_bytes()
    uri = f"sqlite:///{tmp_path}/store.db"
    export = ("audit", "export", str(run), "--to", "mlflow", "--tracking-uri", uri, "--experiment", "bias of m")
    first = await asyncio.to_thread(without_network, *export)
    _, second, _ = await command(*export)
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
    assert found["params"] == {
        "suite": "stereoset",
        "suite_version": result.suite_version,
        "protocol": result.protocol,
        "mode": "sample",
        "model": result.model,
        "mitigation": "none",
        "few_shot": "0",
        "seed": str(result.seed),
        "samples": "1",
        "temperature": "0.5",
        "thinking": result.thinking,
        "extra_body": '{"top_k":3}',
        "data": "embedded",
        "data_sha256": result.dataset.sha256,
        "n_items": str(result.dataset.n_used),
        "n_items_canonical": str(result.dataset.n_canonical),
        "prompt_sha256": result.provenance.prompt_sha256,
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
sys.exit(main(sys.argv[1:]))
"""


def without_network(*arguments: str) -> str:
    """What a command prints; fails where it, or MLflow's telemetry, which is on by default, opens a connection."""
    root = Path(__file__).parents[4]
    hushes = ("CI", "GITHUB_ACTIONS", "PYTEST_CURRENT_TEST", "DO_NOT_TRACK", "MLFLOW_DISABLE_TELEMETRY")
    environ = {name: value for name, value in os.environ.items() if name not in hushes} | {"PYTHONPATH": str(root)}
    made = subprocess.run([sys.executable, "-c", AUDITED, *arguments], env=environ, capture_output=True, text=True)
    assert (made.returncode, made.stderr) == (0, "")
    return made.stdout


async def test_a_folder_as_store(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder, where MLflow still takes one, holds the same; where it does not, the line says what to do. Metrics are
    files there: no name is another's folder.
    """
    folder = tmp_path / "folder"
    export = ("audit", "export", str(run), "--to", "mlflow", "--tracking-uri", str(folder))
    monkeypatch.delenv("MLFLOW_ALLOW_FILE_STORE", raising=False)
    code, _, err = await command(*export)
    assert code == 2
    assert err.endswith("use sqlite:///FILE.db, or set MLFLOW_ALLOW_FILE_STORE=true\n")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    code, _, err = await command(*export)
    assert (code, err) == (0, "")
    (found,) = await asyncio.to_thread(read, str(folder))
    assert found["metrics"] == expected_metrics(directory.read_result(run))


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("http://user:secret@127.0.0.1:9", "MLflow: API request to http://"),
        ("sqlite:////proc/none/store.db", "MLflow: "),
    ],
)
async def test_a_store_that_cannot_be_had_is_one_line(run: Path, uri: str, said: str) -> None:
    """A server that does not answer, a place that cannot be written: one line, without secrets,
    soon.
    """
    async with asyncio.timeout(60):
        code, out, err = await command("audit", "export", str(run), "--to", "mlflow", "--tracking-uri", uri)
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1
    assert "secret" not in err


class SilentServer:
    """A client of MLflow whose server stops to answer with one of its methods."""

    def __init__(self, silent: str) -> None:
        self._silent = silent
        self.called: list[str] = []

    def __getattr__(self, name: str) -> Any:
        def call(*_: Any, **__: Any) -> Any:
            self.called.append(name)
            if name == self._silent:
                time.sleep(30)
            return [] if name == "search_runs" else MagicMock()

        return call


@pytest.mark.parametrize("silent", ["get_experiment_by_name", "log_batch"])
async def test_a_server_that_never_answers_costs_seconds(
    run: Path, monkeypatch: pytest.MonkeyPatch, silent: str
) -> None:
    """One line says so within the limit of one call, and no further call is made."""
    client = SilentServer(silent)
    monkeypatch.setattr(mlflow_runs, "CALL_SECONDS", 0.2)
    monkeypatch.setattr(mlflow_runs, "_library", lambda: (lambda **_: client, ValueError))
    monkeypatch.setitem(sys.modules, "mlflow.entities", MagicMock())
    began = time.monotonic()
    with pytest.raises(BenchmarkError, match=r"http://\*\*\*@mlflow gives no answer within 0\.2 s"):
        mlflow_runs.log([run], "http://user:secret@mlflow", "e")
    assert client.called[-1] == silent
    assert time.monotonic() - began < 10


def test_no_store_is_a_mistake(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a store nothing is tried, and an option of another form is refused."""
    assert main(["audit", "export", str(run), "--to", "mlflow"]) == 2
    assert "--to mlflow needs --tracking-uri" in capsys.readouterr().err
    assert main(["audit", "export", str(run), "--to", "mlflow", "--out", "x"]) == 2
    assert "--out has no meaning with --to mlflow" in capsys.readouterr().err
    assert main(["audit", "export", str(run), "--to", "model-card", "--experiment", "x"]) == 2
    assert "--experiment has no meaning with --to model-card" in capsys.readouterr().err


def test_strange_names(run: Path) -> None:
    """Whatever axes and groups are called, each number has a name that MLflow takes, and its own; what is long is cut
    or hashed.
    """
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
