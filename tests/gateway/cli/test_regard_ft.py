"""`biasgate mitigate regard-ft` as a user runs it: a set of questions, a tiny model really trained on it."""

import json
import shlex
from pathlib import Path

import pytest

from gateway.__main__ import main
from tests.support.commands import refused, run_here
from tests.support.training.runs import recipe, tiny_model

STEPS = 20


@pytest.mark.long
def test_a_tiny_model_learns_to_deny(tmp_path: Path) -> None:
    """Data, training with a checkpoint each ten steps, and one model a checkpoint to serve: the loss on answers falls
    by more than half, every checkpoint has a card, and a judge's command refuses such an adapter.
    """
    code, out, err = run_here("mitigate", "regard-ft", "data", "--stems", "100", "--out", "set")
    assert code == 0, err
    assert "200 questions with answers of 100 stems: 100 about women, 100 about men" in out
    assert "BBQ is not on this machine" in err
    base = tiny_model(tmp_path / "base", tmp_path / "set/data.jsonl")
    learning = recipe(tmp_path / "r.toml", base_model=str(base), steps=STEPS, checkpoint_every=10, max_tokens=256)
    trained = ("mitigate", "regard-ft", "train", "--recipe", str(learning), "--data", "set", "--out", "out")
    code, out, err = run_here(*trained)
    assert code == 0, err
    losses = [json.loads(line)["loss"] for line in (tmp_path / "out/losses.jsonl").read_text().splitlines()]
    assert len(losses) == STEPS
    assert losses[-1] < losses[0] / 2
    card = json.loads((tmp_path / "out/checkpoint-10/card.json").read_text())
    assert (card["step"], card["identity"]["kind"], card["identity"]["n_examples"]) == (10, "regard-ft", 200)
    code, out, err = run_here("mitigate", "regard-ft", "serve", "out")
    assert code == 0, err
    served = shlex.split(out)
    assert served[:3] == ["vllm", "serve", str(base)]
    assert served[-2:] == [f"step-{step}={tmp_path}/out/checkpoint-{step}" for step in (10, 20)]
    assert "an adapter of regard-ft, not of a judge" in refused("judge", "distill-serve", "out/adapter")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("data", "--stems", "1001", "--out", "s"), "there are 1000"),
        (("train", "--data", "nowhere", "--base-model", "b", "--out", "o"), "nowhere: no training set"),
        (("train", "--base-model", "nowhere", "--out", "o"), "nowhere: no base model is there"),
        (("train", "--recipe", "nowhere.toml", "--out", "o"), "nowhere.toml: No such file"),
        (("serve", "nowhere"), "nowhere: no checkpoint is there"),
    ],
)
def test_a_mistake_costs_one_line(arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What is wrong, the value, what to do; exit code 2."""
    assert main(["mitigate", "regard-ft", *arguments]) == 2
    err = capsys.readouterr().err
    assert message in err.splitlines()[-1]
