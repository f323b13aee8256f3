"""Every suite in one command against real vLLM: canonical data where there is any, the model as its own judge."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from benchmarks.suites.registry import SUITES
from benchmarks.suites.stereoset import neutral
from tests.support.processes import BIASGATE
from tests.support.published import DATA, needs_data
from tests.vllm.conftest import MODEL

LIMIT = 16
BY_HAND = {"real_toxicity_prompts"}
"""Its full file is nowhere here; the command must say so and go on."""


@needs_data
@pytest.mark.timeout(1200)
def test_every_suite_on_canonical_data(vllm_server: str, tmp_path: Path) -> None:
    """Each suite that has data runs, its counts add up, and each of its metrics has an interval or a reason."""
    out = tmp_path / "runs"
    options = ["--suite", "all", "--data", "canonical", "--mirror", str(DATA), "--limit", str(LIMIT)]
    server = ["--model", MODEL, "--base-url", vllm_server, "--embedder", "minilm", "--out", str(out)]
    done = subprocess.run(
        [*BIASGATE, "audit", "run", *options, *server],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "BIASGATE_HOME": str(tmp_path / "home")},
    )

    assert done.returncode == 0, done.stderr
    left_out = {line.split(":")[1].strip() for line in done.stderr.splitlines() if line.startswith("left out:")}
    assert left_out == BY_HAND
    results = {path.parent.name: json.loads(path.read_text()) for path in out.glob("*/result.json")}
    assert results.keys() == SUITES.keys() - BY_HAND
    for name, result in results.items():
        estimates = result["estimates"]
        assert {one["metric"] for one in estimates} == set(SUITES[name].metrics) - neutral.SCALES.keys(), name
        assert all(one["lower"] is not None or one["reason"] for one in estimates), name
        counts = dict(result["counts"])
        n_items = counts.pop("items")
        assert sum(counts.values()) == n_items > 0, name
        replies = map(json.loads, (out / name / "responses.jsonl").read_text().splitlines())
        errors = [reply["error"] for reply in replies if reply["status"] == "error"]
        assert not errors or SUITES[name].needs_judge, (name, errors)
    judges = {name: [one["model"] for one in results[name]["provenance"]["judge"]] for name in ("ltf_test", "decision")}
    assert all(set(models) <= {MODEL} for models in judges.values())
