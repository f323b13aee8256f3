"""Results as runs of an MLflow experiment: numbers, interval ends and counts are metrics; tags name undefined ones."""

import hashlib
import os
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from auditors.addresses import mask_addresses, mask_url
from auditors.types import Estimate
from benchmarks.errors import BenchmarkError
from benchmarks.reporting.headline import totals
from benchmarks.run import directory
from benchmarks.run.result import Result, shown_axes, shown_fields

LONGEST_NAME, LONGEST_PARAM, LONGEST_TAG = 200, 500, 5000
"""Most characters of a name, a parameter and a tag; MLflow takes 250, 6000 (older servers 500), 8000."""
CALL_SECONDS = 20.0
"""Seconds for one call of a tracking server."""
_BATCH = {"metrics": 1000, "params": 100, "tags": 100}
"""Most entries of each kind in one request, as MLflow allows."""
_NO_NAME = re.compile(r"[^\w\- ]")
"""Characters that names may not have: MLflow's, and dots, slashes and colons, which biasgate sets."""
_FILE_STORES = ("", "file")


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of an MLflow run about a result."""

    name: str
    metrics: Mapping[str, float]
    params: Mapping[str, str]
    tags: dict[str, str]
    started: int | None
    """Milliseconds since 1970."""
    finished: int | None


class Logged(msgspec.Struct, frozen=True, kw_only=True):
    suite: str
    run_id: str
    is_new: bool
    """False: the experiment had this very result already."""
    n_metrics: int
    n_undefined: int


def record(result: Result) -> Record:
    """A result in MLflow's terms: metrics are numbers, params what was asked and how, tags where it came from."""
    metrics: dict[str, float] = {}
    undefined: dict[str, str] = {}
    without_interval: dict[str, str] = {}
    for total in totals(result):
        name = _unused(_name(total), metrics, undefined)
        if total.value is None:
            undefined[name] = total.reason or "no reason is stored"
        else:
            metrics[name] = total.value
            if total.lower is not None and total.upper is not None:
                metrics |= {f"{name}.lower": total.lower, f"{name}.upper": total.upper}
            elif total.reason:
                without_interval[name] = total.reason
        metrics |= {f"{name}.n": total.n, f"{name}.n_excluded": total.n_excluded}
    metrics |= {f"replies/{_allowed(status)}": count for status, count in result.counts.items()}
    origin, is_embedded = result.provenance, result.dataset.kind == "embedded"
    tags: dict[str, object] = {
        "mlflow.source.name": "biasgate",
        "biasgate.version": origin.biasgate,
        **{f"biasgate.{name}": getattr(origin, name) for name in _ORIGIN},
        "biasgate.fingerprints": ", ".join(origin.fingerprints) or None,
        "biasgate.judge_fault": result.judge_fault,
        "biasgate.thinking_fault": result.thinking_fault,
        "biasgate.not_comparable": "the items are a few of biasgate's own" if is_embedded else None,
    }
    tags |= {f"undefined.{name}": reason for name, reason in undefined.items()}
    tags |= {f"no_interval.{name}": reason for name, reason in without_interval.items()}
    return Record(
        name=f"{result.suite} {result.model}",
        metrics=metrics,
        params={name: _short(str(value)) for name, value in _params(result).items() if value is not None},
        tags={name: _cut(str(value)) for name, value in tags.items() if value is not None},
        started=_milliseconds(result.provenance.started),
        finished=_milliseconds(result.provenance.finished),
    )


def log(paths: Sequence[Path], tracking_uri: str, experiment: str) -> list[Logged]:
    """Log each run, result.json and report.html, unless logged before. Raises BenchmarkError, also without MLflow."""
    results = [directory.read_result(path) for path in paths]
    client_of, refusal = _library()
    try:
        client = client_of(tracking_uri=tracking_uri)
        if urlsplit(tracking_uri).scheme in ("http", "https"):
            client = _Limited(client, mask_url(tracking_uri))
        existing = client.get_experiment_by_name(experiment)
        experiment_id = client.create_experiment(experiment) if existing is None else existing.experiment_id
        return [_logged(client, experiment_id, *pair) for pair in zip(paths, results, strict=True)]
    except (refusal, OSError) as exc:
        if urlsplit(tracking_uri).scheme in _FILE_STORES and "MLFLOW_ALLOW_FILE_STORE" in str(exc):
            raise BenchmarkError(
                f"{tracking_uri}: this MLflow takes no folder as its store: use sqlite:///FILE.db, or set "
                "MLFLOW_ALLOW_FILE_STORE=true"
            ) from exc
        message = mask_addresses(str(exc).strip().split("\n")[0])
        raise BenchmarkError(f"MLflow: {message}") from exc


_DEFAULTS = {
    "DISABLE_TELEMETRY": "true",
    "HTTP_REQUEST_MAX_RETRIES": "2",
    "HTTP_REQUEST_TIMEOUT": "10",
    "LOGGING_LEVEL": "WARNING",
    "SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}


def _library() -> tuple[Any, type[Exception]]:
    """Return the client's class and its exception; telemetry is off unless asked for, and retries take seconds."""
    for name, value in _DEFAULTS.items():
        os.environ.setdefault(f"MLFLOW_{name}", value)
    try:
        from mlflow import MlflowClient
        from mlflow.exceptions import MlflowException
    except ImportError as exc:
        raise BenchmarkError('mlflow-skinny is not installed: pip install "biasgate[mlflow]"') from exc
    return MlflowClient, MlflowException


class _SilentError(BenchmarkError):
    """A server that did not answer in time."""


class _Limited:
    """MLflow's client with `CALL_SECONDS` for each call, retries included; a late call goes on in a daemon thread."""

    def __init__(self, client: Any, name: str) -> None:
        self._client = client
        self._name = name

    def __getattr__(self, method: str) -> Any:
        return partial(self._call, getattr(self._client, method))

    def _call(self, method: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        outcome: Future[Any] = Future()

        def run() -> None:
            try:
                outcome.set_result(method(*arguments, **named))
            except BaseException as exc:
                outcome.set_exception(exc)

        threading.Thread(target=run, daemon=True).start()
        try:
            return outcome.result(CALL_SECONDS)
        except TimeoutError:
            raise _SilentError(f"MLflow: {self._name} gives no answer within {CALL_SECONDS:g} s") from None


def _logged(client: Any, experiment_id: str, path: Path, result: Result) -> Logged:
    of = record(result)
    digest = hashlib.sha256((path / directory.RESULT).read_bytes()).hexdigest()
    n_undefined = sum(total.value is None for total in totals(result))
    same = f"tags.`biasgate.result_sha256` = '{digest}' and attributes.status = 'FINISHED'"
    if before := client.search_runs([experiment_id], same, max_results=1):
        run_id, is_new = before[0].info.run_id, False
    else:
        tags = of.tags | {"biasgate.result_sha256": digest}
        run_id, is_new = _new_run(client, experiment_id, path, msgspec.structs.replace(of, tags=tags)), True
    return Logged(suite=result.suite, run_id=run_id, is_new=is_new, n_metrics=len(of.metrics), n_undefined=n_undefined)


def _new_run(client: Any, experiment_id: str, path: Path, of: Record) -> str:
    from mlflow.entities import Metric, Param, RunTag

    run_id: str = client.create_run(experiment_id, start_time=of.started, run_name=of.name).info.run_id
    status: str | None = "FAILED"
    try:
        at = of.finished or 0
        logged: dict[str, list[Any]] = {
            "metrics": [Metric(name, value, at, 0) for name, value in of.metrics.items()],
            "params": [Param(name, value) for name, value in of.params.items()],
            "tags": [RunTag(name, value) for name, value in of.tags.items()],
        }
        for kind, entities in logged.items():
            for first in range(0, len(entities), _BATCH[kind]):
                client.log_batch(run_id, **{kind: entities[first : first + _BATCH[kind]]})
        for name in (directory.RESULT, directory.REPORT):
            if (path / name).exists():
                client.log_artifact(run_id, str(path / name))
        status = "FINISHED"
    except _SilentError:
        status = None  # the server would not answer this either
        raise
    finally:
        if status is not None:
            client.set_terminated(run_id, status=status, end_time=of.finished)
    return run_id


def _name(estimate: Estimate) -> str:
    """`ss/gender`; over all axes `ss/all`."""
    further = (estimate.group, estimate.reference, estimate.subset)
    place = [estimate.axis or "all", *(key for key in further if key is not None)]
    return f"{_allowed(estimate.metric)}/{'.'.join(map(_allowed, place))}"[:LONGEST_NAME]


def _allowed(name: str) -> str:
    return _NO_NAME.sub("_", name) or "_"


def _unused(name: str, *taken: Iterable[str]) -> str:
    """Two names that MLflow cannot tell apart are numbered."""
    names, number, unique = {entry for several in taken for entry in several}, 1, name
    while unique in names:
        number += 1
        unique = f"{name}-{number}"
    return unique


_PARAMS = (
    *("suite", "suite_version", "protocol", "mode", "model", "mitigation", "few_shot", "seed", "samples", "limit"),
    *("subset", "temperature", "thinking"),
)
_ORIGIN = ("base_url_host", "started", "finished", "seconds", "requests", "replies_from_cache")


def _params(result: Result) -> dict[str, object]:
    return {name: getattr(result, name) for name in _PARAMS} | {
        "axes": shown_axes(result.axes),
        "extra_body": shown_fields(result.extra_body),
        "precision": None if result.precision is None else msgspec.json.encode(result.precision).decode(),
        "asked_by": result.provenance.asked_by,
        "judge": result.provenance.judged_by,
        "embedder": result.provenance.embedder,
        "data": result.dataset.kind,
        "data_sha256": result.dataset.sha256,
        "n_items": result.dataset.n_used,
        "n_items_canonical": result.dataset.n_canonical,
        "prompt_sha256": result.provenance.prompt_sha256,
    }


def _short(value: str) -> str:
    """Returns a parameter's value, or its hash where it is too long: a parameter is compared, not read."""
    return value if len(value) <= LONGEST_PARAM else f"sha256:{hashlib.sha256(value.encode()).hexdigest()}"


def _cut(value: str) -> str:
    return value if len(value) <= LONGEST_TAG else f"{value[: LONGEST_TAG - 1]}…"


def _milliseconds(time: str | None) -> int | None:
    return None if time is None else round(1000 * datetime.fromisoformat(time).timestamp())
