"""A section of a model card, and its `model-index` (https://huggingface.co/docs/hub/model-cards), from results."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from auditors.types import Estimate
from benchmarks.errors import BenchmarkError
from benchmarks.figures.display import between, number
from benchmarks.reporting.headline import key_of, part, places, totals
from benchmarks.reporting.markdown import cell, table
from benchmarks.run.result import Result
from benchmarks.suites.protocol import Suite

BEGIN, END = "<!-- biasgate: begin -->", "<!-- biasgate: end -->"
"""Between them stands the section, so that a newer one can take its place."""
_NOT_YAML = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that a YAML document may not hold as they are."""


def card(results: Sequence[tuple[Result, Suite]]) -> str:
    """Return the section after its YAML metadata. Raises BenchmarkError for no results, or those of several models."""
    models = sorted({result.model for result, _ in results})
    if len(models) != 1:
        raise BenchmarkError(f"a model card is of one model; here are {len(models)}: {', '.join(models)}")
    metadata = {"model-index": [{"name": models[0], "results": [_entry(*result) for result in results]}]}
    yaml = "".join(f"{line}\n" for line in _yaml(metadata))
    return f"---\n{yaml}---\n\n{section(results)}"


def section(results: Sequence[tuple[Result, Suite]]) -> str:
    """The section in Markdown: every number that `totals` names, with interval, n, what was left out and limits."""
    parts = [BEGIN, "## Bias", WHAT_NUMBERS_ARE]
    for result, suite in results:
        counts = ", ".join(f"{name} {count}" for name, count in result.counts.items())
        data = f"{result.dataset.kind} data, items: {result.dataset.words}"
        text = f"Protocol {result.protocol}, mode {result.mode}, {data}. Replies: {counts}. biasgate "
        text += f"{result.provenance.biasgate}, {result.provenance.finished or 'time unknown'}."
        if result.dataset.kind == "embedded":
            text += " The items are a few of biasgate's own: compare with nothing published."
        if result.provenance.asked_by is not None:
            text += f" Asked by {cell(result.provenance.asked_by)}, with its prompts."
        if result.mitigation != "none":
            text += f" With mitigation {cell(result.mitigation)}."
        if result.fault is not None:
            text += f" Not assessable: {cell(result.fault)}."
        if result.judge_fault is not None:
            text += f" The judge is not validated: {cell(result.judge_fault)}."
        if result.thinking_fault is not None:
            text += f" {cell(result.thinking_fault)}."
        parts += [f"### {cell(suite.title)}", text, table([HEADS, *_rows(result)])]
        parts += [f"{cell(suite.does_not_show)} Suite `{result.suite}` {cell(result.suite_version)}: {suite.url}"]
    return "\n\n".join([*parts, END]) + "\n"


WHAT_NUMBERS_ARE = (
    "Each number is an estimate from the model's replies to a fixed set of questions, with its interval, how many "
    "items it rests on and how many were left out. None of them shows that the model is fair."
)
HEADS = ("metric", "axis", "value", "95 % interval", "n", "left out", "reason")


def _rows(result: Result) -> Iterable[Sequence[object]]:
    for total in totals(result):
        decimals = places(result.suite, total.metric)
        ends = between(total.lower, total.upper, decimals)
        value = "undefined" if total.value is None else number(total.value, decimals)
        yield (total.metric, _axis(total), value, ends, total.n, total.n_excluded, total.reason or "")


def _axis(estimate: Estimate) -> str:
    return part(*key_of(estimate)[1:]) if estimate.axis or estimate.group or estimate.subset else "all"


def _entry(result: Result, suite: Suite) -> dict[str, Any]:
    args = {"protocol": result.protocol, "mode": result.mode, "mitigation": result.mitigation}
    return {
        "task": {"type": "text-generation", "name": "Bias audit"},
        "dataset": {
            "type": result.suite,
            "name": suite.title,
            "config": f"{result.suite} {result.suite_version}, {result.dataset.kind}",
            "revision": result.dataset.sha256,
            "args": args,
        },
        "metrics": [_metric(total) for total in totals(result) if total.value is not None],
    }


def _metric(estimate: Estimate) -> dict[str, Any]:
    interval = {"lower": estimate.lower, "upper": estimate.upper, "confidence_level": estimate.confidence_level}
    defined = {name: value for name, value in interval.items() if estimate.lower is not None and value is not None}
    args = defined | {"n": estimate.n, "n_excluded": estimate.n_excluded}
    name = f"{estimate.metric} ({_axis(estimate)})"
    return {"type": estimate.metric, "value": estimate.value, "name": name, "args": args}


def _yaml(value: Any) -> list[str]:
    """Formats maps and lists as block YAML; other values are written as JSON, which YAML reads the same way."""
    if isinstance(value, Mapping):
        lines = []
        for name, part in value.items():
            inner = _yaml(part)
            is_plain = not isinstance(part, Mapping | list) or not part
            lines += [f"{name}: {inner[0]}"] if is_plain else [f"{name}:", *(f"  {line}" for line in inner)]
        return lines or ["{}"]
    if isinstance(value, list):
        lines = []
        for part in value:
            first, *rest = _yaml(part)
            lines += [f"- {first}", *(f"  {line}" for line in rest)]
        return lines or ["[]"]
    if isinstance(value, str):
        value = _NOT_YAML.sub("\ufffd", value)
    return [msgspec.json.encode(value).decode()]
