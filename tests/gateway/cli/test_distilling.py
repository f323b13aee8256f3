"""`biasgate judge distill-*` as a user runs them: a tiny model really trained, a judge really asked."""

import asyncio
import json
import os
import shlex
import signal
import sys
from pathlib import Path

import pytest

from gateway.__main__ import main
from tests.support.commands import command, refused, run_here
from tests.support.processes import free_port
from tests.support.simulated import simulator_in_thread
from tests.support.training.runs import ONE_THREAD, ROOT, judged_run, recipe, tiny_model
from tests.support.waiting import eventually

PAIRS = 30
NEARLY = 1e-3
"""A loss of a resumed training may differ by this from that of one that was not cut off: float32 sums."""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training set of two sides."""
    folder = tmp_path_factory.mktemp("judged")
    run = judged_run(folder / "run", PAIRS)
    assert main(["judge", "distill-data", str(run), "--held-out", "0.3", "--out", str(folder / "data")]) == 0
    return folder / "data"


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory, data: Path) -> Path:
    """A model that can say nothing yet."""
    return tiny_model(tmp_path_factory.mktemp("base") / "base", data / "train.jsonl")


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """For every command that is started."""
    for name, value in ONE_THREAD.items():
        monkeypatch.setenv(name, value)


def losses(out: Path) -> list[float]:
    return [json.loads(line)["loss"] for line in (out / "losses.jsonl").read_text().splitlines()]


@pytest.mark.long
def test_a_trained_judge_has_a_card_and_is_not_trained_twice(data: Path, base: Path, tmp_path: Path) -> None:
    """Loss falls; the card names seed, recipe, data and base; the same command again does nothing; another recipe, data
    or base model in the same directory, and serving on another base, are refused in one line each.
    """
    learning = recipe(tmp_path / "r.toml", base_model=str(base), steps=4, checkpoint_every=2, seed=3)
    trained = ("judge", "distill-train", str(data), "--recipe", str(learning), "--out", "judge")
    code, out, err = run_here(*trained)
    assert code == 0, err
    assert "Warning" not in err
    assert losses(tmp_path / "judge")[-1] < losses(tmp_path / "judge")[0] - 1
    card = json.loads((tmp_path / "judge/adapter/card.json").read_text())
    identity = card["identity"]
    assert (identity["kind"], identity["recipe"]["seed"], card["step"]) == ("distilled-judge", 3, 4)
    assert identity["about"]["train_sha256"] == json.loads((data / "card.json").read_text())["train_sha256"]
    assert len(identity["base_fingerprint"]) == len(identity["data_sha256"]) == len(card["adapter_sha256"]) == 64
    assert f"{identity['n_examples']} examples, {card['n_tokens']} tokens" in out

    code, _, err = run_here(*trained)
    assert (code, "judge/adapter: is finished" in err) == (0, True)
    code, _, err = run_here(*trained, "--seed", "4")
    assert (code, "seed was 3 and is now 4" in err) == (2, True)

    code, out, _ = run_here("judge", "distill-serve", "judge/adapter", "--name", "small")
    assert shlex.split(out)[:3] == ["vllm", "serve", str(base)]
    assert f"small={tmp_path}/judge/adapter" in shlex.split(out)
    another = tiny_model(tmp_path / "another", data / "train.jsonl", seed=7)
    assert "an adapter of another base model" in refused(
        "judge", "distill-serve", "judge/adapter", "--base-model", str(another)
    )
    weights = tmp_path / "judge/adapter/adapter_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\1")
    assert "is not the one of its card" in refused("judge", "distill-serve", "judge/adapter")


@pytest.mark.long
async def test_a_killed_training_goes_on_to_the_same_losses(data: Path, base: Path, tmp_path: Path) -> None:
    """kill -9 after a checkpoint, and the same command again: every loss as without, each step once; a checkpoint that
    was being written is made again.
    """
    learning = recipe(tmp_path / "r.toml", base_model=str(base), steps=8, checkpoint_every=2, dropout=0.1)
    trained = ("judge", "distill-train", str(data), "--recipe", str(learning), "--out")
    code, _, err = await command(*trained, "whole")
    assert code == 0, err
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "gateway", *trained, "cut", env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    await eventually(lambda: (tmp_path / "cut/checkpoint-2/card.json").exists(), within_seconds=300)
    process.send_signal(signal.SIGKILL)
    await process.wait()
    assert not (tmp_path / "cut/adapter").exists()
    (tmp_path / "cut/checkpoint-9999").mkdir()
    code, _, err = await command(*trained, "cut")
    assert code == 0, err
    assert "goes on from step " in err
    assert "checkpoint-9999: was being written" in err
    assert losses(tmp_path / "cut") == pytest.approx(losses(tmp_path / "whole"), abs=NEARLY)
    assert len(losses(tmp_path / "cut")) == 8


def test_a_judge_is_compared_with_the_strong_one_and_with_people(tmp_path: Path) -> None:
    """Asked over a real socket: a judge that reads the same agrees on everything, one that misses half on less, by an
    interval above 0; people's labels stand beside; tokens and seconds are there.
    """
    profile = tmp_path / "good.toml"
    profile.write_text("[favoritism]\ndefault = [0.1, 0.3, 0.3, 0.3]\n")
    worse = tmp_path / "worse.toml"
    worse.write_text(profile.read_text() + "[judge]\nsensitivity = 0.5\np_malformed = 0.1\n")
    limits = ("--limit", "80", "--quiet")
    with simulator_in_thread(str(profile)) as url:
        asked = ("--model", "simulated", "--judge-model", "simulated-judge", "--base-url", url, *limits)
        code, _, err = run_here("audit", "run", "--suite", "ltf_test", *asked, "--out", "run")
        assert code == 0, err
        assert run_here("judge", "distill-data", "run", "--held-out", "0.5", "--out", "data")[0] == 0
        lines = [json.loads(line) for line in (tmp_path / "data/held_out.jsonl").read_text().splitlines()]
        labels = [
            {"essay_id": one["essay_id"], "value": one["judgement"]["final"], "annotator": "ann"} for one in lines
        ]
        (tmp_path / "people.jsonl").write_text("\n".join(map(json.dumps, labels)) + "\n")
        same = ("judge", "distill-eval", "data", "--judge-model", "simulated", "--base-url", url)
        code, out, err = run_here(*same, "--labels", "people.jsonl", "--out", "good.json")
    assert code == 0, err
    good = json.loads((tmp_path / "good.json").read_text())["summary"]
    assert good["with_strong"]["final"]["value"] == good["with_people"]["final"]["value"] == 1.0
    assert good["with_strong"]["final"]["n_items"] == len(lines)
    assert good["cost"]["prompt_tokens"] > 100
    assert "simulated with simulated-judge" in out
    assert "simulated with people" in out

    with simulator_in_thread(str(worse)) as url:
        code, out, err = run_here(*same[:-1], url, "--out", "worse.json")
    assert code == 0, err
    bad = json.loads((tmp_path / "worse.json").read_text())
    interval = bad["summary"]["with_strong"]["final"]["interval"]
    assert interval["upper"] < 1.0
    unread = sum(one["failure"] == "unread" for one in bad["judged"])
    read = bad["summary"]["with_strong"]["final_of_those_read"]
    assert bad["summary"]["with_strong"]["final"]["n_items"] == read["n_items"] + unread == len(lines)
    with simulator_in_thread(str(worse)) as url:
        assert "simulated is another judge than before" in refused(
            *same[:-1], url, "--limit", "4", "--out", "good.json"
        )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("distill-data", "nowhere", "--out", "d"), "nowhere: no run directory"),
        (("distill-train", "nowhere", "--base-model", "b", "--out", "o"), "nowhere: no training set of a judge"),
        (("distill-train", "DATA", "--out", "o"), "no base_model"),
        (("distill-train", "DATA", "--base-model", "nowhere", "--out", "o"), "nowhere: no base model is there"),
        (("distill-serve", "nowhere"), "nowhere: no adapter with a card"),
        (("distill-eval", "DATA", "--judge-model", "j", "--base-url", "nowhere"), '"nowhere" is not a URL'),
        (("distill-eval", "DATA", "--judge-model", "j", "--base-url", "URL"), 'the judge "j" does not answer'),
        (("distill-eval", "DATA", "--judge-model", "j", "--base-url", "URL", "--limit", "0"), "must be 1 or more"),
    ],
)
def test_a_mistake_costs_one_line(arguments: tuple[str, ...], message: str, data: Path) -> None:
    """What is wrong, the value, what to do; exit code 2."""
    words = {"DATA": str(data), "URL": f"http://127.0.0.1:{free_port()}"}
    assert message in refused("judge", *(words.get(word, word) for word in arguments))
