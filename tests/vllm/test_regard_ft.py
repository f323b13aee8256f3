"""REGARD-FT from end to end: a tiny model is taught a bias, fine-tuned, served by a real vLLM and evaluated."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.suites.ltf_test.prompts import essay_messages
from gateway.__main__ import main
from tests.support.training.keyword_judge import NAME, keyword_judge
from tests.support.training.runs import ONE_THREAD, ROOT, recipe, tiny_model
from tests.vllm.conftest import MODEL, serving
from tools.tiny_models import biased

STEPS = 40
LIMIT = "160"
"""Questions about gender and age; as many of each."""


def biasgate(*arguments: str | Path) -> str:
    """What a command prints; its errors are shown where it fails."""
    return python("gateway", *arguments)


def python(*arguments: str | Path) -> str:
    argv = [sys.executable, "-m", *map(str, arguments)]
    done = subprocess.run(argv, capture_output=True, text=True, cwd=ROOT, env={**os.environ, **ONE_THREAD})
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def taught(tmp_path: Path) -> Path:
    """A base model that favours women and the young plainly, and the questions to train it on beside it."""
    assert main(["mitigate", "regard-ft", "data", "--out", str(tmp_path / "data")]) == 0
    asked = tmp_path / "asked.txt"
    lines = [f"{essay_messages(one, protocol='corrected')[0].content}\n{biased.reply(one)}" for one in biased.lessons()]
    asked.write_text("\n".join(lines[:600]), encoding="utf-8")
    base = tiny_model(tmp_path / "base", asked, tmp_path / "data/data.jsonl")
    python("tools.tiny_models.biased", base, tmp_path / "taught")
    return tmp_path / "taught"


@pytest.mark.timeout(1200)  # two trainings, and a vLLM with three models
def test_bias_falls_on_the_axis_trained_and_the_rest_is_told(
    vllm_env: Path, tmp_path: Path, taught: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Training shrinks the taught gap by a clear interval, all else is reported, and a foreign adapter is refused."""
    learning = recipe(
        tmp_path / "r.toml", base_model=str(taught), steps=STEPS, checkpoint_every=20, max_tokens=256, batch_size=8
    )
    out = tmp_path / "out"
    biasgate("mitigate", "regard-ft", "train", "--recipe", learning, "--data", tmp_path / "data", "--out", out)
    words = shlex.split(biasgate("mitigate", "regard-ft", "serve", out))
    assert words[:3] == ["vllm", "serve", str(taught)]
    options = [word for word in words[3:] if word not in ("--port", "8001")]
    with keyword_judge() as judge, serving(vllm_env, taught, tmp_path / "log", *options) as url:
        judged = ("--judge-model", NAME, "--judge-base-url", judge)
        asked = ("--axes", "age", "--limit", LIMIT, "--data", "embedded", "--base-name", MODEL)
        told = ("mitigate", "regard-ft", "evaluate", out, "--base-url", url, *judged, *asked)
        wrong = main([*map(str, told[:-1]), "step-20"]), capsys.readouterr().err
        printed = biasgate(*told)
    assert wrong[0] == 2
    assert 'serves "step-20" as an adapter of "tiny", not of "step-20"' in wrong[1]
    found = json.loads((tmp_path / "out-evaluation/evaluation.json").read_text())
    base, *tuned = found["models"]
    assert [one["model"] for one in found["models"]] == [MODEL, "step-20", "step-40"]
    before, after = (one["numbers"]["pair_favoritism"] for one in (base, tuned[-1]))
    assert before["lower"] > 1, printed
    effects = {one["name"]: one for one in tuned[-1]["effects"]}
    assert effects["pair_favoritism"]["upper"] < 0, printed
    assert abs(after["value"]) < abs(before["value"]) / 2
    assert tuned[-1]["reductions"]["pair_favoritism"]["value"] > 0.5
    assert "step-40: bias fell on gender by " in printed
    for one in found["models"]:
        for name in ("dob_text/age", "refusal_rate", "accuracy/ambig", "accuracy/disambig", "answer_words"):
            assert one["numbers"][name]["value"] is not None
        assert one["numbers"]["bits_per_byte"]["lower"] > 0, one["numbers"]["bits_per_byte"]["reason"]
    assert effects["dob_text/age"]["adjusted_p_value"] is not None
