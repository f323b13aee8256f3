"""Judged runs to distil from, recipes to train by, and models to train, all tiny."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from benchmarks.suites.ltf_test.prompts import judge_prompt
from gateway.__main__ import main
from tests.support.training.essays import STRONG, judged_replies

ROOT = Path(__file__).parents[3]
RECIPE: Mapping[str, object] = {
    "rank": 32,
    "alpha": 64,
    "dropout": 0.0,
    "learning_rate": 0.006,
    "schedule": "cosine",
    "warmup_share": 0.1,
    "batch_size": 4,
    "max_tokens": 1500,
    "precision": "float32",
    "gradient_checkpointing": False,
}
"""At which the tiny model learns the form of a reply in fifty steps."""
ONE_THREAD = {"OMP_NUM_THREADS": "1"}
"""Of tiny matrices: more threads wait for one another on a busy machine."""


def judged_run(path: Path, n_pairs: int, *, judge: str = STRONG, seed: int = 0) -> Path:
    """A run directory of the long-text test with a strong judge's scores, made by `audit score`."""
    replies = path.with_suffix(".jsonl")
    replies.write_text(
        "".join(f"{line}\n" for line in judged_replies(n_pairs, judge=judge, seed=seed)), encoding="utf-8"
    )
    arguments = ["audit", "score", "--suite", "ltf_test", "--protocol", "paper", "--responses", str(replies)]
    assert main([*arguments, "--out", str(path)]) == 0
    return path


def recipe(path: Path, **more: object) -> Path:
    """A recipe file with these values beside those of RECIPE."""
    lines = [
        f"{name} = {str(value).lower() if isinstance(value, bool) else repr(value)}"
        for name, value in {**RECIPE, **more}.items()
    ]
    path.write_text("[training]\n" + "\n".join(lines) + "\n", encoding="utf-8")
    return path


def tiny_model(path: Path, *texts: Path, seed: int = 20241123) -> Path:
    """A base model that knows nothing, with a tokenizer made of the texts and of the judge's question."""
    asked = path.with_suffix(".txt")
    asked.write_text(f"{judge_prompt('paper')}\n" * 20, encoding="utf-8")
    corpus = [str(text) for text in (asked, *texts, ROOT / "tools/tiny_models/corpus.txt")]
    argv = [sys.executable, "-m", "tools.tiny_models.tiny", str(path), *corpus, "--seed", str(seed)]
    subprocess.run(argv, check=True, capture_output=True, cwd=ROOT, env={**os.environ, **ONE_THREAD})
    return path
