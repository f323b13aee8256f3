"""Results as records of the schema 0.3.0 of https://github.com/evaleval/every_eval_ever. A metric whose neutral value
lies inside its scale is recorded as the distance from it, under another name, since the schema needs a better side. A
number that is undefined or has no neutral value is only listed.
"""

import hashlib
import re
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from auditors.types import Estimate
from benchmarks.errors import BenchmarkError
from benchmarks.reporting.headline import heading, key_of, part, totals
from benchmarks.run import directory
from benchmarks.run.result import Result, shown_axes, shown_fields
from benchmarks.suites.protocol import Scale, Suite
from benchmarks.suites.registry import find

SCHEMA = "0.3.0"
Relationship = Literal["first_party", "third_party", "collaborative", "other"]
RELATIONSHIPS: tuple[str, ...] = get_args(Relationship)
_MODEL_ID = re.compile(r"(?!data/)[A-Za-z0-9][\w.\-]{0,95}+(?<!\.)/(?!data$)[A-Za-z0-9][\w.\-]{0,95}+(?<!\.)", re.ASCII)
"""ORG/NAME: two valid names of folders on every system, of at most 96 characters, as on Hugging Face's hub."""


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about an evaluation that a result does not hold."""

    organization: str
    """Organization that ran the evaluation."""
    relationship: str
    """Its relationship to the model: a value of RELATIONSHIPS."""
    model_id: str | None = None
    """ORG/NAME; None if the served name has that form."""


class WrittenRecord(msgspec.Struct, frozen=True, kw_only=True):
    suite: str
    path: Path | None
    """File of the record; None if the result has no number that fits the schema."""
    n_results: int
    n_undefined: int
    without_side: list[str]
    """Metrics without a better side."""


def write(paths: Sequence[Path], out: Path, source: Source, retrieved: int) -> list[WrittenRecord]:
    """Write `out`/data/SUITE/ORG/NAME/UUID.json for each run, at `retrieved` (Unix seconds). Raises BenchmarkError."""
    results = [directory.read_result(path) for path in paths]
    models = sorted({result.model for result in results})
    if source.model_id is not None and len(models) > 1:
        raise BenchmarkError(f"--model-id names one model, but the runs are of {len(models)}: {', '.join(models)}")
    for model in models:
        model_id = source.model_id or model
        if not _MODEL_ID.fullmatch(model_id):
            raise BenchmarkError(f'"{model_id}" is not an ORG/NAME, which Every Eval Ever requires: give --model-id')
    contents = [(path / directory.RESULT).read_bytes() for path in paths]
    return [_write_record(out, *pair, source, retrieved) for pair in zip(results, contents, strict=True)]


def record(result: Result, content: bytes, source: Source, retrieved: int) -> dict[str, Any]:
    """Return the record of a result. `content` is its result.json."""
    suite, model = find(result.suite), source.model_id or result.model
    absent = [total for total in totals(result) if total.value is None]
    undefined = {_place_of(total): total.reason or "no reason is stored" for total in absent}
    digest = hashlib.sha256(content).hexdigest()
    source_details = {
        "result_sha256": digest,
        "does_not_show": suite.does_not_show,
        "undefined": _json(undefined) if undefined else None,
        "without_better_side": ", ".join(_without_side(result, suite)) or None,
        "not_assessable": result.fault,
        "judge_fault": result.judge_fault,
        "thinking_fault": result.thinking_fault,
        "not_comparable": "the items are a few of biasgate's own" if result.dataset.kind == "embedded" else None,
    }
    origin = result.provenance
    model_details = {
        **dict.fromkeys(("deployment_type", "model_availability"), "unknown"),
        "fingerprints": ", ".join(origin.fingerprints) or None,
        "mitigation": result.mitigation,
    }
    fields = {
        "schema_version": SCHEMA,
        "evaluation_id": f"{result.suite}-{digest[:12]}/{model}/{retrieved}",
        "evaluation_timestamp": origin.finished,
        "retrieved_timestamp": str(retrieved),
        "source_metadata": {
            "source_name": "biasgate",
            "source_type": "evaluation_run",
            "source_organization_name": source.organization,
            "evaluator_relationship": source.relationship,
            "additional_details": _strings(source_details),
        },
        "eval_library": {
            "name": "biasgate",
            "version": origin.biasgate,
            "additional_details": _strings({"suite": result.suite, "suite_version": result.suite_version}),
        },
        "model_info": {
            "name": result.model,
            "id": model,
            "additional_details": _strings(model_details),
        },
        "evaluation_results": [
            _result(total, scale, result, suite)
            for total in totals(result)
            if total.value is not None and (scale := _scale_with_side(total.metric, suite)) is not None
        ],
    }
    return {name: value for name, value in fields.items() if value is not None}


def _write_record(out: Path, result: Result, content: bytes, source: Source, retrieved: int) -> WrittenRecord:
    entry = record(result, content, source, retrieved)
    n_results, path = len(entry["evaluation_results"]), None
    if n_results:
        name = uuid.UUID(bytes=hashlib.sha256(content).digest()[:16], version=4)
        path = out / "data" / result.suite / entry["model_info"]["id"] / f"{name}.json"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(msgspec.json.format(msgspec.json.encode(entry), indent=2) + b"\n")
        except OSError as exc:
            raise BenchmarkError(f"{path}: cannot be written: {exc.strerror}") from exc
    return WrittenRecord(
        suite=result.suite,
        path=path,
        n_results=n_results,
        n_undefined=sum(total.value is None for total in totals(result)),
        without_side=_without_side(result, find(result.suite)),
    )


def _scale_with_side(metric: str, suite: Suite) -> Scale | None:
    scale = suite.scales.get(metric)
    return None if scale is None or scale.ideal is None else scale


def _without_side(result: Result, suite: Suite) -> list[str]:
    metrics = dict.fromkeys(total.metric for total in totals(result))
    return [metric for metric in metrics if _scale_with_side(metric, suite) is None]


def _result(estimate: Estimate, scale: Scale, result: Result, suite: Suite) -> dict[str, Any]:
    is_distance = scale.ideal is not None and scale.low < scale.ideal < scale.high
    reported = _distance(estimate, scale) if is_distance else estimate
    low, high = _bounds(estimate, scale, is_distance=is_distance)
    metric_id = f"{result.suite}.{estimate.metric}" + (".distance" if is_distance else "")
    known: dict[str, Any] = {name: getattr(estimate, name) for name in ("axis", "group", "reference", "subset")}
    if is_distance:
        known |= {"neutral": scale.ideal, **{name: getattr(estimate, name) for name in ("value", "lower", "upper")}}
    parameters = {name: value for name, value in known.items() if value is not None}
    description = f"distance from {scale.ideal:g} of: {scale.reading}" if is_distance else scale.reading
    config = {
        "evaluation_description": description,
        "metric_id": metric_id,
        "metric_name": heading(estimate.metric) + (", distance from neutral" if is_distance else ""),
        "metric_parameters": parameters,
        "lower_is_better": is_distance or scale.ideal == scale.low,
        "score_type": "continuous",
        "min_score": low,
        "max_score": high,
        "additional_details": _strings({"judge": result.provenance.judged_by, "embedder": result.provenance.embedder}),
    }
    details: dict[str, Any] = {
        "score": reported.value,
        "details": _strings({"n": estimate.n, "n_excluded": estimate.n_excluded, "reason": estimate.reason}),
    }
    if reported.lower is not None and reported.upper is not None:
        interval = {"lower": reported.lower, "upper": reported.upper, "confidence_level": estimate.confidence_level}
        method = {} if estimate.method is None else {"method": estimate.method}
        details["uncertainty"] = {"confidence_interval": interval | method, "num_samples": estimate.n}
    return {
        "evaluation_result_id": f"{metric_id}/{_place_of(estimate)}",
        "evaluation_name": f"{suite.title}: {part(*key_of(estimate)[1:])}",
        "source_data": _data(result, suite),
        "metric_config": config,
        "score_details": details,
        "generation_config": _generation(result),
    }


def _distance(estimate: Estimate, scale: Scale) -> Estimate:
    """Return the estimate's distance from the neutral value. An interval around the neutral value begins at 0."""
    ideal = scale.ideal or 0.0
    distances = [None if end is None else abs(end - ideal) for end in (estimate.value, estimate.lower, estimate.upper)]
    if estimate.lower is None or estimate.upper is None:
        return msgspec.structs.replace(estimate, value=distances[0], lower=None, upper=None)
    ends = [distance for distance in distances[1:] if distance is not None]
    nearest = 0.0 if estimate.lower <= ideal <= estimate.upper else min(ends)
    return msgspec.structs.replace(estimate, value=distances[0], lower=nearest, upper=max(ends))


def _bounds(estimate: Estimate, scale: Scale, *, is_distance: bool) -> tuple[float | str, float | str]:
    """Return the metric's bounds, infinite if a number lies outside: some scales only limit the drawing."""
    numbers = [value for value in (estimate.value, estimate.lower, estimate.upper) if value is not None]
    low: float | str = scale.low if min(numbers) >= scale.low else "-Infinity"
    high: float | str = scale.high if max(numbers) <= scale.high else "Infinity"
    if not is_distance:
        return low, high
    ends = [abs(end - (scale.ideal or 0.0)) for end in (low, high) if not isinstance(end, str)]
    return 0.0, max(ends) if len(ends) == 2 else "Infinity"


def _data(result: Result, suite: Suite) -> dict[str, Any]:
    dataset = result.dataset
    facts = {name: getattr(dataset, name) for name in ("kind", "sha256", "n_used", "n_canonical")}
    details = _strings(facts | {"licence": suite.licence if dataset.kind == "canonical" else None})
    if dataset.kind == "canonical":
        source = {"dataset_name": suite.title, "source_type": "url", "url": [suite.url]}
    else:
        source = {"dataset_name": f"{dataset.name}, a few items of biasgate's own", "source_type": "other"}
    return source | {"additional_details": details}


def _generation(result: Result) -> dict[str, Any]:
    names = ("protocol", "mode", "thinking", "few_shot", "samples", "seed", "limit", "subset")
    settings = {
        "asked_by": result.provenance.asked_by,
        **{name: getattr(result, name) for name in names},
        "axes": shown_axes(result.axes),
        "extra_body": shown_fields(result.extra_body),
        "prompt_sha256": result.provenance.prompt_sha256,
    }
    generation = {} if result.temperature is None else {"generation_args": {"temperature": result.temperature}}
    return generation | {"additional_details": _strings(settings)}


def _place_of(estimate: Estimate) -> str:
    return _json({name: key for name, key in key_of(estimate)._asdict().items() if key is not None})


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _strings(details: dict[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in details.items() if value is not None and value != ""}
