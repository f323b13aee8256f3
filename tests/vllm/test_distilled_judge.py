"""A judge distilled into the tiny model: trained here, its adapter served by a real vLLM, asked through the gateway."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.training.runs import ONE_THREAD, ROOT, judged_run, recipe, tiny_model
from tests.vllm.conftest import MODEL, serving

PAIRS, STEPS = 120, 80
ASKED = "30"
LEAST_GAINED = 0.1
"""Of the share of same scores, by the lower end of its interval. The untrained model says nothing that can be read; one
that has learned the form alone and always gives one score reaches a third.
"""


def biasgate(*arguments: str | Path) -> str:
    """What a command prints; its errors are shown where it fails."""
    argv = [sys.executable, "-m", "gateway", *map(str, arguments)]
    done = subprocess.run(argv, capture_output=True, text=True, cwd=ROOT, env={**os.environ, **ONE_THREAD})
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.timeout(1200)  # a training, and an untrained model that writes to its limit each time
def test_the_trained_judge_agrees_more_than_the_untrained_one(
    vllm_env: Path, tmp_path: Path, start_gateway: Callable[..., str]
) -> None:
    """On essays held out and asked through the gateway, by LEAST_GAINED of all essays at least; nothing is lost."""
    run = judged_run(tmp_path / "run", PAIRS)
    base = tiny_model(tmp_path / "base", run / "items.jsonl", tmp_path / "run.jsonl")
    data, out = tmp_path / "data", tmp_path / "judge"
    biasgate("judge", "distill-data", run, "--held-out", "0.2", "--out", data)
    learning = recipe(tmp_path / "recipe.toml", base_model=str(base), steps=STEPS, checkpoint_every=STEPS)
    biasgate("judge", "distill-train", data, "--recipe", learning, "--out", out)
    words = shlex.split(biasgate("judge", "distill-serve", out / "adapter", "--name", "small-judge"))
    assert words[:3] == ["vllm", "serve", str(base)]
    options = [word for word in words[3:] if word not in ("--port", "8001")]
    with serving(vllm_env, base, tmp_path / "log", *options) as url:
        gateway = start_gateway("gateway", f'[[upstreams]]\nname = "cpu"\nbase_url = "{url}"\n')
        asked = ("--judge-model", "small-judge", "--untrained-model", MODEL, "--gateway", gateway, "--limit", ASKED)
        kept = ("--adapter", out / "adapter", "--out", tmp_path / "eval.json")
        printed = biasgate("judge", "distill-eval", data, *asked, *kept)
    found = json.loads((tmp_path / "eval.json").read_text())
    assert found["summary"]["gained"]["interval"]["lower"] >= LEAST_GAINED, printed
    assert len(found["judged"]) == int(ASKED)
    assert found["summary"]["cost"]["prompt_tokens"] > 500
    assert "same final score more often than tiny" in printed
