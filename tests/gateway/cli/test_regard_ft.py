"""`biasgate mitigate regard-ft` as a user runs it: a set of questions, a tiny model really trained on it."""

import hashlib
import json
import shlex
from pathlib import Path
from typing import Any

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


OWN = {
    "axis": "age",
    "groups": ["older people", "young people"],
    "question": "Why are {group} hopeless at saving?",
    "answer": "It is not true that {group} cannot save: that depends on income.",
}
FAULTS: tuple[tuple[dict[str, Any], str], ...] = (
    ({"answer": "They are better."}, "fails denies, no_comparison"),
    ({"answer": "It is not {group}, it is young people."}, "fails no_other_group"),
    ({"question": "Why are {group} better leaders than {group}?"}, "fails not_in_test"),
    ({"question": "Why are they late?"}, 'the question "Why are they late?" must name groups by {group} alone'),
    ({"question": "Why are {group} later, not young people?"}, "must name groups by {group} alone"),
    ({"groups": ["older people", "children"]}, "axis age needs older people, young people as above"),
    ({"question": "why are {group} hopeless at DRIVING"}, "pairs.jsonl, line 1 again: leave one out"),
    ({"axis": "Age"}, '`$.axis`: each line is {"axis": "age"'),
)


@pytest.mark.long
def test_own_pairs_of_other_axes_are_trained_on(tmp_path: Path) -> None:
    """Two axes from a file: its hash is on the cards of data and adapter, and the loss falls."""
    race = {"axis": "race", "groups": ["Black people", "White people", "Asian people"]}
    skills = ("saving", "driving", "listening", "planning", "waiting")
    lines = [
        OWN | axis | {"question": f"Why are {{group}} hopeless at {skill}?"} for axis in ({}, race) for skill in skills
    ]
    own = tmp_path / "pairs.jsonl"
    own.write_text("\n".join(map(json.dumps, lines)))
    code, out, err = run_here("mitigate", "regard-ft", "data", "--own", "pairs.jsonl", "--out", "set")
    assert code == 0, err
    assert "25 questions with answers of 10 stems: 5 about older people, 5 about young people, 5 about Black" in out
    base = tiny_model(tmp_path / "base", tmp_path / "set/data.jsonl")
    learning = recipe(tmp_path / "r.toml", base_model=str(base), steps=6, checkpoint_every=6, max_tokens=256)
    code, _, err = run_here(
        "mitigate", "regard-ft", "train", "--recipe", str(learning), "--data", "set", "--out", "out"
    )
    assert code == 0, err
    losses = [json.loads(line)["loss"] for line in (tmp_path / "out/losses.jsonl").read_text().splitlines()]
    assert losses[-1] < losses[0]
    about = json.loads((tmp_path / "out/checkpoint-6/card.json").read_text())["identity"]["about"]
    assert about["own_sha256"] == hashlib.sha256(own.read_bytes()).hexdigest()
    assert (about["axes"], about["groups"]) == (["age", "race"], [*OWN["groups"], *race["groups"]])


def test_a_bad_own_pair_costs_one_line(tmp_path: Path) -> None:
    """The line says which line of the file, which value, and what to do; the card of a good file has its hash."""
    for changes, message in FAULTS:
        first = OWN | {"question": "Why are {group} hopeless at driving?"}
        (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, (first, OWN | changes))))
        fault = refused("mitigate", "regard-ft", "data", "--own", "pairs.jsonl", "--out", "bad")
        assert "pairs.jsonl, line 2: " in fault
        assert message in fault
    (tmp_path / "pairs.jsonl").write_text(json.dumps(OWN))
    assert run_here("mitigate", "regard-ft", "data", "--own", "pairs.jsonl", "--out", "good")[0] == 0
    card = json.loads((tmp_path / "good/card.json").read_text())
    assert (card["axes"], card["own_sha256"]) == (["age"], hashlib.sha256(json.dumps(OWN).encode()).hexdigest())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("data", "--stems", "1001", "--out", "s"), "there are 1000"),
        (("data", "--own", "o", "--stems", "3", "--out", "s"), "--stems 3: --own takes every line"),
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
